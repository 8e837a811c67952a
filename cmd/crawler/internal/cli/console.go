package cli

import (
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/sanitize"
	"github.com/bloomfrontier/crawler/cmd/crawler/internal/view"
)

// console is the stderr of a crawl. On a terminal it shows a live view, and writes other
// lines above the view. Callers must write whole lines. A console is safe for concurrent
// use.
type console struct {
	live  *view.Live // nil means that stderr is not a terminal
	quiet bool       // show warnings and errors only
	*sanitize.Writer
}

// newConsole returns a console that writes to w. If quiet is true, the console has no
// view.
func newConsole(w io.Writer, quiet bool) *console {
	if live, terminal := view.Open(w, os.Getenv); terminal && !quiet {
		return &console{live: live, Writer: sanitize.NewWriter(live.Printer())}
	}
	return &console{quiet: quiet, Writer: sanitize.NewWriter(sanitize.Unwrap(w))}
}

// notices returns the writer for lines that are neither warnings nor errors.
func (c *console) notices() io.Writer {
	if c.quiet {
		return io.Discard
	}
	return c
}

// clear removes the live view.
func (c *console) clear() {
	if c.live != nil {
		c.live.Clear()
	}
}

// newLogger returns a logger that writes to w. The format is a value of --log-format. The
// text format has colours on a terminal, unless NO_COLOR is set. Text from servers is
// escaped in all formats. JSON that does not go to a terminal is escaped only by
// encoding/json.
func newLogger(w io.Writer, level, format string) *slog.Logger {
	var lvl slog.Level
	_ = lvl.UnmarshalText([]byte(level))
	c, crawls := w.(*console)
	live := crawls && c.live != nil
	switch {
	case format == "json":
		if !live {
			w = sanitize.ForTerminal(sanitize.Unwrap(w))
		}
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: lvl}))
	case live: // escape the values, but not the logger's own colours
		return slog.New(tint.NewTextHandler(c.Unwrap(), &tint.Options{
			Level: lvl, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != "", ReplaceAttr: sanitize.Attr,
		}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: lvl}))
}
