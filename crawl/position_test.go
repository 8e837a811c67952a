package crawl

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
)

// TestPositionOfDyingProcess: a relay goes on if a process is killed while the relay
// asks it for the end of its records. It does not matter whether the process crawled
// alone or was a worker.
func TestPositionOfDyingProcess(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, socketFile))
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
	end := &committedEnd{dir: dir}
	for name, ask := range map[string]func() error{
		"alone":  func() error { _, err := end.position(t.Context()); return err },
		"worker": func() error { _, err := workerEnd(t.Context(), dir); return err },
	} {
		if err := ask(); !errors.Is(err, frontier.ErrUnavailable) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want an error that passes and names the directory", name, err)
		}
	}
	end.known = frontier.Position{}
	if _, err := end.position(t.Context()); err != nil {
		t.Errorf("with a position from before: %v", err)
	}
}
