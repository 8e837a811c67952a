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

// console is the stderr of a crawl. On a terminal it ends in a live view, and
// what is written goes above that; whole lines, please. It is safe for
// concurrent use.
type console struct {
	live  *view.Live // nil: no terminal
	quiet bool       // warnings and errors only
	*sanitize.Writer
}

func newConsole(w io.Writer) *console {
	if live, terminal := view.Open(w, os.Getenv); terminal {
		return &console{live: live, Writer: sanitize.NewWriter(live.Printer())}
	}
	return &console{Writer: sanitize.NewWriter(sanitize.Unwrap(w))}
}

// newQuietConsole is for --quiet: no view, and no notices.
func newQuietConsole(w io.Writer) *console {
	return &console{quiet: true, Writer: sanitize.NewWriter(sanitize.Unwrap(w))}
}

// notices is for what is neither a warning nor an error.
func (c *console) notices() io.Writer {
	if c.quiet {
		return io.Discard
	}
	return c
}

// clear takes the live view away.
func (c *console) clear() {
	if c.live != nil {
		c.live.Clear()
	}
}

// newLogger logs to w in a format of --log-format; text for people where they
// watch. What servers say is escaped in each of them; JSON that is not for a
// terminal is as encoding/json makes it.
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
	case live: // its colours are not to be escaped, its values are
		return slog.New(tint.NewTextHandler(c.Unwrap(), &tint.Options{
			Level: lvl, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != "", ReplaceAttr: sanitize.Attr,
		}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: lvl}))
}
