package cli

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// screen is stderr with a live line at its end, if it is a terminal: what is
// written goes above that line.
type screen struct {
	w    io.Writer
	file *os.File // the terminal; nil if w is none

	mu   sync.Mutex
	line string
}

func newScreen(w io.Writer) *screen {
	s := &screen{w: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		s.file = f
	}
	return s
}

// clearLine moves to the first column and clears to the end of the line.
const clearLine = "\r\x1b[K"

// Write writes whole lines.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == "" {
		return s.w.Write(p)
	}
	_, _ = io.WriteString(s.w, clearLine)
	n, err := s.w.Write(p)
	_, _ = io.WriteString(s.w, s.line)
	return n, err
}

// show replaces the live line, cut to the terminal's width; "" takes it away.
func (s *screen) show(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if width, _, err := term.GetSize(int(s.file.Fd())); err == nil && width > 0 && len(line) >= width {
		line = line[:width-1]
	}
	s.line = line
	_, _ = io.WriteString(s.w, clearLine+line)
}

// isTerminal reports whether w is a terminal that can be written over.
func isTerminal(w io.Writer) bool {
	s, ok := w.(*screen)
	return ok && s.file != nil
}
