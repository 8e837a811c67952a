// Package view shows a running crawl to people: a view that redraws itself on a
// terminal, and log lines elsewhere.
//
// It owns layout, colours and the terminal. It measures nothing and reads no
// clock: it draws the readings of package report.
package view

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/sanitize"
	"github.com/bloomfrontier/crawler/crawl/report"
)

// Live is a view of a few lines at the end of a terminal's output. Each call of Draw
// redraws the view. A Live is safe for concurrent use. While the view is shown, all other
// output to the terminal must go through Printer.
//
// Between two calls the cursor is at the beginning of the view, and everything below
// belongs to the view. A terminal that is resized can break lines differently, but the
// cursor stays at the same character. So erasing from the cursor removes the whole view,
// however many rows its lines take.
type Live struct {
	size  func() (width, height int)
	color bool

	mu    sync.Mutex
	w     io.Writer
	shown *report.Reading // nil means that the view is not shown
	width int             // width of the terminal at the last drawing
}

// Open returns a view on w if w is a terminal, unless TERM is dumb. If NO_COLOR is not
// empty, the view has no colours (https://no-color.org).
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

// NewLive returns a view on w, which must be a terminal that understands ANSI sequences.
// The function size returns the columns and rows of the terminal, and is called for each
// drawing. If size returns 0 columns or rows, because they are not known, the view assumes
// 80 columns or 24 rows.
func NewLive(w io.Writer, size func() (width, height int), color bool) *Live {
	return &Live{w: w, size: size, color: color}
}

// Draw shows r in place of the previous reading. It ignores errors of the terminal, because
// such an error must not stop the crawl.
func (l *Live) Draw(r report.Reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = &r
	_, _ = io.WriteString(l.w, l.frame())
}

// Clear removes the view until the next Draw.
func (l *Live) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, l.erase())
	l.shown = nil
}

// Printer returns a writer that prints lines above the view. They stay on the terminal. Each
// write must end with a newline.
func (l *Live) Printer() io.Writer { return printer{l} }

type printer struct{ *Live }

func (l printer) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := io.WriteString(l.w, l.erase()+string(text)+l.frame()) // one write, to avoid flicker
	return len(text), err
}

// erase returns the sequence that removes the view. The caller must hold mu.
func (l *Live) erase() string {
	if l.shown == nil {
		return ""
	}
	return "\r\x1b[J"
}

// frame returns the sequence that draws the view over the previous one, and moves the
// cursor back to the beginning of the view. The last column of the terminal stays empty,
// because terminals behave differently after a character in that column. The caller must
// hold mu.
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
		b.WriteString("\x1b[J") // erase rows that the terminal has broken differently
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
