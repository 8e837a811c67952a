package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bloomfrontier/crawler/events/inbox"
)

// childVariable is the environment variable of a child. Its value is the childConfig as
// JSON.
const childVariable = "ADAPTERTEST_CHILD"

type childConfig struct {
	Fault, DSN, Schema, Address string
	Attempts                    int
}

// Main is the TestMain of an adapter. In a child process it handles events until the
// process is killed.
func Main(m *testing.M, a Adapter) {
	text := os.Getenv(childVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	err := serveChild(context.Background(), a, text)
	fmt.Fprintln(os.Stderr, "child:", err)
	os.Exit(1)
}

func serveChild(ctx context.Context, a Adapter, text string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, c.DSN)
	if err != nil {
		return err
	}
	box, err := inbox.Open(ctx, configOf(pool, c.Schema))
	if err != nil {
		return err
	}
	return a.Serve(ctx, c.Address, box, handler(pool, c.Fault), c.Attempts)
}

// serveChildren runs a child process that handles events until Broker.Settled returns true.
// When a handler kills the child, serveChildren starts another one. It returns the number
// of killed children.
func (w *world) serveChildren(attempts int) (killed int) {
	w.Helper()
	config, err := json.Marshal(childConfig{w.fault, w.dsn, w.schema, w.broker.Address(), attempts})
	w.must(err)
	for {
		child := exec.CommandContext(w.Context(), os.Args[0])
		child.Env = append(os.Environ(), childVariable+"="+string(config))
		child.Stderr = os.Stderr
		w.must(child.Start())
		ended := make(chan error, 1)
		go func() { ended <- child.Wait() }()
		settled := false
		var err error
		w.waitFor("settled broker, or killed child", func() bool {
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
			w.Fatalf("a child ended with %v, want SIGKILL", err)
		}
		if killed++; killed > 10 {
			w.Fatal("more than 10 children were killed: the event is delivered again and again")
		}
	}
}

// die ends the process as a crash does.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
