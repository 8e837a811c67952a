package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bloomfrontier/crawler/events/inbox"
)

// The names of the environment variables of a child.
const (
	childFault    = "ADAPTERTEST_FAULT"
	childDSN      = "ADAPTERTEST_DSN"
	childSchema   = "ADAPTERTEST_SCHEMA"
	childAddress  = "ADAPTERTEST_ADDRESS"
	childAttempts = "ADAPTERTEST_ATTEMPTS"
)

// Main is the TestMain of an adapter. In a child it serves until it is killed.
func Main(m *testing.M, a Adapter) {
	if os.Getenv(childFault) == "" {
		os.Exit(m.Run())
	}
	err := serveChild(context.Background(), a)
	fmt.Fprintln(os.Stderr, "child:", err)
	os.Exit(1)
}

func serveChild(ctx context.Context, a Adapter) error {
	pool, err := pgxpool.New(ctx, os.Getenv(childDSN))
	if err != nil {
		return err
	}
	box, err := inbox.Open(ctx, inbox.Config{DB: pool, Group: "test", Prefix: os.Getenv(childSchema) + "."})
	if err != nil {
		return err
	}
	attempts, err := strconv.Atoi(os.Getenv(childAttempts))
	if err != nil {
		return err
	}
	return a.Serve(ctx, os.Getenv(childAddress), box, handler(pool, os.Getenv(childFault)), attempts)
}

// serveChildren serves in a child process until the broker is settled. When a handler kills
// the child, it starts another one. It returns how many were killed.
func (w *world) serveChildren(attempts int) (killed int) {
	w.Helper()
	for {
		child := exec.CommandContext(w.Context(), os.Args[0])
		child.Env = append(os.Environ(), childFault+"="+w.fault, childDSN+"="+w.dsn, childSchema+"="+w.schema,
			childAddress+"="+w.broker.Address(), childAttempts+"="+strconv.Itoa(attempts))
		child.Stderr = os.Stderr
		w.must(child.Start())
		ended := make(chan error, 1)
		go func() { ended <- child.Wait() }()
		settled := false
		var err error
		w.until("settled broker, or killed child", func() bool {
			select {
			case err = <-ended:
				return true
			default:
				settled = w.broker.Settled(w.T)
				return settled
			}
		})
		if settled {
			_ = child.Process.Kill()
			<-ended
			return killed
		}
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			w.Fatalf("a child ended: %v", err)
		}
		if killed++; killed > 10 {
			w.Fatal("the event is delivered for ever")
		}
	}
}

// die ends the process as a crash does.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
