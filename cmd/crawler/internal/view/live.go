// Package view shows a running crawl to people: a view that redraws itself on a
// terminal, and log lines elsewhere.
//
// It owns layout, colours and the terminal. It measures nothing and reads no
// clock: it draws the readings of package report.
package view

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/sanitize"
	"github.com/bloomfrontier/crawler/crawl/report"
)

// Live is a view of a few lines at the end of a terminal's output that is
// drawn over and over. It is safe for concurrent use. Whatever else goes to
// that terminal while it is shown has to go through Printer.
//
// Between two calls the cursor stands on the first column of the view, and all
// below is the view's. So a terminal that breaks its lines anew when it is
// resized takes the cursor along, and erasing from there leaves nothing behind,
// however many rows the old lines take now.
type Live struct {
	size  func() (width, height int)
	color bool

	mu      sync.Mutex
	w       io.Writer
	shown   *report.Reading // nil: nothing is
	width   int             // that it was last drawn for
	partial []byte          // printed, and not yet a line
}

// Open returns a view on w if that is a terminal which can be drawn on, by the
// environment too (TERM=dumb cannot). NO_COLOR, when it is not empty, keeps
// colours out (https://no-color.org).
func Open(w io.Writer, getenv func(string) string) (l *Live, terminal bool) {
	f, file := sanitize.Unwrap(w).(*os.File)
	if !file || getenv("TERM") == "dumb" || !sanitize.IsTerminal(f) {
		return nil, false
	}
	size := func() (width, height int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0, 0
		}
		return width, height
	}
	return NewLive(f, size, getenv("NO_COLOR") == ""), true
}

// NewLive returns a view on w, a terminal that obeys ANSI sequences and has the
// size that size returns, in columns and rows: it is asked for each drawing. An
// unknown size, 0, is taken for 80 or 24.
func NewLive(w io.Writer, size func() (width, height int), color bool) *Live {
	return &Live{w: w, size: size, color: color}
}

// Draw shows r in place of what was shown before. A terminal that is gone is
// no error: the crawl goes on.
func (l *Live) Draw(r report.Reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = &r
	_, _ = io.WriteString(l.w, l.frame())
}

// Clear removes the view, until the next Draw.
func (l *Live) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.erase() + string(l.partial)
	l.shown, l.partial = nil, nil
	if text != "" {
		_, _ = io.WriteString(l.w, text)
	}
}

// Printer returns a writer of lines above the view, which stay. What is not
// ended by a newline waits for its end, or for Clear.
func (l *Live) Printer() io.Writer { return printer{l} }

type printer struct{ live *Live }

func (p printer) Write(text []byte) (int, error) { return len(text), p.live.print(text) }

func (l *Live) print(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, text...)
	end := bytes.LastIndexByte(l.partial, '\n') + 1
	if end == 0 {
		return nil
	}
	out := l.erase() + string(l.partial[:end]) + l.frame() // in one write, so that nothing flickers
	l.partial = append(l.partial[:0], l.partial[end:]...)
	_, err := io.WriteString(l.w, out)
	return err
}

// erase is what removes the view; mu is held.
func (l *Live) erase() string {
	if l.shown == nil {
		return ""
	}
	return "\r\x1b[J"
}

// frame is what draws the view over the one before, from its first column and
// back to it; mu is held. The last column stays empty, for what a terminal does
// behind it differs.
func (l *Live) frame() string {
	if l.shown == nil {
		return ""
	}
	width, height := l.size()
	if width <= 0 {
		width = 80
	}
	if height <= 0 {
		height = 24
	}
	lines := layout(*l.shown, max(width-1, 1), height)
	var b strings.Builder
	b.WriteByte('\r')
	if width != l.width {
		b.WriteString("\x1b[J") // rows that were broken anew would stay joined under new text
		l.width = width
	}
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		line.write(&b, l.color)
		b.WriteString("\x1b[K")
	}
	b.WriteString("\x1b[J\r")
	if up := len(lines) - 1; up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	return b.String()
}
