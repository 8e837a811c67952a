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

// Live is a view of a few lines at the end of a terminal's output that is redrawn
// again and again. It is safe for concurrent use. While it is shown, all other output
// to that terminal must go through Printer.
//
// Between two calls the cursor is on the first column of the view, and everything
// below belongs to the view. When a terminal is resized and breaks its lines
// differently, it moves the cursor along. So erasing from there removes the whole
// view, however many rows its lines take.
type Live struct {
	size  func() (width, height int)
	color bool

	mu      sync.Mutex
	w       io.Writer
	shown   *report.Reading // nil means that the view is not shown
	width   int             // at the last drawing
	partial []byte          // printed, but not a complete line yet
}

// Open returns a view on w if w is a terminal that can be drawn on; TERM=dumb cannot.
// If NO_COLOR is not empty, the view has no colours (https://no-color.org).
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

// NewLive returns a view on w, a terminal that understands ANSI sequences. size
// returns its columns and rows, and is called for each drawing. An unknown size, 0,
// means 80 or 24.
func NewLive(w io.Writer, size func() (width, height int), color bool) *Live {
	return &Live{w: w, size: size, color: color}
}

// Draw replaces what is shown by r. It ignores errors of the terminal: the crawl goes
// on.
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

// Printer returns a writer of lines above the view, which stay. A line without a
// newline waits for its end, or for Clear.
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
	out := l.erase() + string(l.partial[:end]) + l.frame() // in one write, to avoid flicker
	l.partial = append(l.partial[:0], l.partial[end:]...)
	_, err := io.WriteString(l.w, out)
	return err
}

// erase returns the sequence that removes the view. The caller must hold mu.
func (l *Live) erase() string {
	if l.shown == nil {
		return ""
	}
	return "\r\x1b[J"
}

// frame returns the sequence that draws the view over the previous one, from its first
// column and back to it. The last column stays empty, because terminals differ in what
// they do after it. The caller must hold mu.
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
		b.WriteString("\x1b[J") // otherwise rows that were broken again would stay joined under new text
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
