// Package servers starts private Redis, Postgres, pgbouncer, NATS and Kafka servers and web proxies, and makes
// them fail as real servers do: it kills them, pauses them, cuts their connections, and
// removes the last bytes of their logs.
//
// It owns the processes, their files and the faults. Only this machine can reach the
// servers. Each server has its own folder for its data, and ends with the process that
// started it. The package knows nothing about crawls and imports no other package of
// this module. So the tests of all packages and the benchmarks can use it.
package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// ErrMissing reports that the program of a server is not installed.
var ErrMissing = errors.New("servers: program not found")

const (
	// startTimeout bounds the time until a server answers. On a busy machine, a server
	// can take long to read its log.
	startTimeout = 60 * time.Second
	// stopTimeout bounds a graceful stop. Redis alone waits up to 10 s for its replicas.
	stopTimeout = 30 * time.Second
)

// TB is the part of testing.TB that this package needs. With this interface, programs that
// start servers do not have to import package testing.
type TB interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Failed() bool
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Skip(args ...any)
}

// server is a server of this package. A call of Close is allowed even if begin has failed.
type server interface {
	begin(ctx context.Context) error // starts the server, and returns when it answers
	Close() error
}

// begun starts s and returns it. If s does not start, begun closes it.
func begun[S server](ctx context.Context, s S) (S, error) {
	if err := s.begin(ctx); err != nil {
		var none S
		return none, errors.Join(err, s.Close())
	}
	return s, nil
}

// started starts s for a test, and arranges that it is closed at the end of the test. If
// the server's program is missing, started skips the test, unless CRAWLER_TEST_SERVERS is
// "require". After any other error, it fails the test.
func started[S server](t TB, s S) S {
	t.Helper()
	s, err := begun(t.Context(), s)
	switch {
	case err == nil:
	case errors.Is(err, ErrMissing) && os.Getenv("CRAWLER_TEST_SERVERS") != "require":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if talker, ok := any(s).(interface{ lastOutput() string }); ok && t.Failed() {
			t.Logf("a server said:\n%s", talker.lastOutput())
		}
		if err := s.Close(); err != nil {
			t.Errorf("end a server: %v", err)
		}
	})
	return s
}

// program returns the path of a program, or an error that wraps ErrMissing.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return path, nil
}

// busDistance is the difference between two ports of a node of a Redis Cluster: the
// port for other nodes, and the port for clients.
const busDistance = 10_000

// freePort returns an unused loopback port. The port whose number is larger by
// busDistance is unused too. Both numbers are below those that systems use for outgoing
// connections (Linux: from 32768). Otherwise an outgoing connection could take the port
// of a server that is down for a moment.
func freePort() (int, error) {
	const lowest, highest = 10_240, 32_767 - busDistance
	for range 100 {
		port := lowest + rand.IntN(highest-lowest+1)
		if isFree(port) && isFree(port+busDistance) {
			return port, nil
		}
	}
	return 0, errors.New("find a free port: 100 tries failed")
}

func isFree(port int) bool {
	listener, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// portTries is the number of ports that process.launch tries.
const portTries = 5
