package cli

import (
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/lmittmann/tint"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/view"
)

// console is the stderr of a crawl. On a terminal it ends in a live view, and
// what is written goes above that; whole lines, please. It is safe for
// concurrent use.
type console struct {
	live *view.Live // nil: no terminal

	mu sync.Mutex
	w  io.Writer
}

func newConsole(w io.Writer) *console {
	if live, terminal := view.Open(w, os.Getenv); terminal {
		return &console{live: live, w: live.Printer()}
	}
	return &console{w: w}
}

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.w.Write(p)
}

// clear takes the live view away.
func (c *console) clear() {
	if c.live != nil {
		c.live.Clear()
	}
}

// newLogger logs to w in a format of --log-format; text for people where they
// watch.
func newLogger(w io.Writer, level, format string) *slog.Logger {
	var lvl slog.Level
	_ = lvl.UnmarshalText([]byte(level))
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: lvl}))
	}
	if c, ok := w.(*console); ok && c.live != nil {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: lvl, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != ""}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: lvl}))
}
