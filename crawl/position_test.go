package crawl

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl/control"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestPositionOfDyingProcess: if a process is killed before it says where its records
// end, the error is frontier.ErrUnavailable, so that a relay asks again. If the end was
// read before, there is no error.
func TestPositionOfDyingProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, control.SocketFile))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_ = c.Close() // without an answer
		}
	}()
	end := &committedEnd{handle: newHandle(Location{Dir: dir}, nil)}
	for name, ask := range map[string]func() error{
		"alone":  func() error { _, err := end.position(t.Context()); return err },
		"worker": func() error { _, err := workerEnd(t.Context(), dir); return err },
	} {
		if err := ask(); !errors.Is(err, frontier.ErrUnavailable) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want ErrUnavailable with the name of the directory", name, err)
		}
	}
	end.lastEnd = frontier.Position{}
	if _, err := end.position(t.Context()); err != nil {
		t.Errorf("position of a dead process whose end was read before: %v, want no error", err)
	}
}

// TestWaitForOtherCallEndsWithContext: a call of a Handle that waits for another call ends
// when the context of the waiting call ends.
func TestWaitForOtherCallEndsWithContext(t *testing.T) {
	t.Parallel()
	h := newHandle(Location{Dir: t.TempDir()}, nil)
	if err := h.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := h.Status(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Status: %v, want %v", err, context.DeadlineExceeded)
	}
}
