// Package servers starts private Redis and Postgres servers, and breaks them in
// the ways that servers break: killed, stopped in the middle, cut off, with the
// last bytes of their log gone.
//
// It owns the processes, their files and the faults; each server is reached
// only from this machine, keeps its data in a folder of its own and ends with
// its owner. It knows no crawl, and it imports nothing of ours: tests of any
// package and the benchmarks use it.
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
	// startTimeout bounds the time until a server answers, the reading of its
	// log included, on a machine that is busy with other things.
	startTimeout = 60 * time.Second
	// stopTimeout bounds a graceful end. Redis waits 10 s for its replicas.
	stopTimeout = 30 * time.Second
)

// TB is what a server asks of the test that it belongs to: a part of testing.TB.
// Programs that start servers for themselves are spared the package testing.
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

// started gives t a server that ends with the test, or ends the test: skipped
// when the server's program is missing, failed when CRAWLER_TEST_SERVERS is
// "require" or for any other reason.
func started[S interface{ Close() error }](t TB, server S, err error) S {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrMissing) && os.Getenv("CRAWLER_TEST_SERVERS") != "require":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if talker, ok := any(server).(interface{ said() string }); ok && t.Failed() {
			t.Logf("a server said:\n%s", talker.said())
		}
		if err := server.Close(); err != nil {
			t.Errorf("end a server: %v", err)
		}
	})
	return server
}

// program returns the path of a program, or an error that is ErrMissing.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return path, nil
}

// busDistance is how far above a Redis node's port the one for the other nodes
// of its cluster lies.
const busDistance = 10_000

// freePort returns a loopback port that nobody uses, nor the one busDistance
// above it. Both are below those that systems give to outgoing connections
// (Linux: from 32768), one of which could otherwise take the port of a server
// that is down for a moment.
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

// portTries is how often a server is started on another port because somebody
// took the one that was free a moment ago.
const portTries = 5

// startOnFreePort calls start with free ports until the port was not the fault.
func startOnFreePort(start func(port int) error) error {
	var err error
	for range portTries {
		var port int
		if port, err = freePort(); err != nil {
			return err
		}
		if err = start(port); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}
