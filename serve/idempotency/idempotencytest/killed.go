package idempotencytest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// Environment variables of the child process of Killed.
const pointVariable, targetVariable = "IDEMPOTENCY_TEST_POINT", "IDEMPOTENCY_TEST_TARGET"

// Child does nothing unless the process is a child of Killed. Then it opens the backend, sends a
// request, and kills the process at a crash point. TestMain calls it first.
func Child(open func(context.Context) (Backend, error)) {
	point := os.Getenv(pointVariable)
	if point == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	backend, err := open(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	crash.Hook(func(reached string) {
		if reached == point {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	d := &driver{Driver: suite.NewDriver(ctx), backend: backend}
	got := send(d.serve(d.order), post(os.Getenv(targetVariable), "k"))
	fmt.Fprintf(os.Stderr, "the child lives, and answers %d %s\n", got.Code, got.Body)
	os.Exit(1)
}

// Killed starts child processes of the test binary, 20 with -short and else 100. Each is killed
// with kill -9 at a step of its first request. Then Killed repeats the request until it is
// answered, and wants one effect. The environment tells the child where the backend is, and open
// opens it in this process until end is called.
func Killed(t *testing.T, environment []string, open func() (b Backend, end func())) {
	n := 100
	if testing.Short() {
		n = 20
	}
	points := []string{"idempotency effect", "idempotency answer", "handler wrote", "idempotency effect", "idempotency committed"}
	replays := 0
	for i := range n {
		point, target := points[i%len(points)], fmt.Sprint("/killed/", i)
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(append(os.Environ(), environment...), pointVariable+"="+point, targetVariable+"="+target)
		said, err := child.CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the child was not killed: %v, and it printed %s", err, said)
		}
		backend, end := open()
		d := &driver{Driver: suite.NewDriver(t.Context()), backend: backend}
		got := d.untilDone(post(target, "k"))
		if isReplay(got) {
			replays++
		}
		effects, err := d.backend.Count(target)
		end()
		if got.Code != http.StatusCreated || effects != 1 || err != nil {
			t.Errorf("killed at %q, the repeats got %d %s, and there are %d effects (%v), want 201 and 1", point, got.Code, got.Body, effects, err)
		}
		if isReplay(got) != (point == "idempotency committed") {
			t.Errorf("killed at %q, the repeat was a replay: %t", point, isReplay(got))
		}
	}
	t.Logf("%d processes were killed, %d after the commit", n, replays)
}
