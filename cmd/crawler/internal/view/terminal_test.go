package view

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
)

// terminal is a pseudo-terminal of the kernel. Text that is written to tty passes the
// kernel's line discipline and goes to a screen.
type terminal struct {
	*screen
	tty    *os.File
	master *os.File
	out    *bufio.Reader
}

func openTerminal(t *testing.T, width, height int) *terminal {
	master, tty, err := pty.Open()
	if err != nil {
		if os.Getenv("CRAWLER_TEST_SERVERS") == "require" {
			t.Fatalf("cannot open a pseudo-terminal: %v", err)
		}
		t.Skipf("cannot open a pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { _ = master.Close(); _ = tty.Close() })
	term := &terminal{screen: newScreen(width, height, false), tty: tty, master: master, out: bufio.NewReader(master)}
	term.resize(t, width, height)
	return term
}

func (term *terminal) resize(t *testing.T, width, height int) {
	if err := pty.Setsize(term.master, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)}); err != nil {
		t.Fatal(err)
	}
	term.screen.resize(width, height)
}

// settle waits until all text that was written is on the screen. For that it writes a
// mark that no other text contains, and waits for the mark.
func (term *terminal) settle(t *testing.T) {
	const mark = 0
	if _, err := term.tty.Write([]byte{mark}); err != nil {
		t.Fatal(err)
	}
	text, err := term.out.ReadBytes(mark)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = term.Write(text[:len(text)-1])
}

func (term *terminal) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	term.settle(t)
	if diff := cmp.Diff(want, term.lines()); diff != "" {
		t.Errorf("%s: lines (-want +got):\n%s", when, diff)
	}
	for _, fault := range term.faults {
		t.Errorf("%s: %s", when, fault)
	}
}

func env(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

// TestPseudoTerminal drives a pseudo-terminal of 80 columns, then of 40.
func TestPseudoTerminal(t *testing.T) {
	term := openTerminal(t, 80, 24)
	live, ok := Open(term.tty, env(map[string]string{"TERM": "xterm"}))
	if !ok {
		t.Fatal("Open of a terminal: no view")
	}
	wide := []string{
		"12,345 pages  152 pages/s  2.1 MB/s  1,234,567 queued (12 delayed)",
		"64 of 321 hosts active  seen 87.3%  12 errors  1h02m",
		"limited by politeness: 321 hosts, 321 requests/s (--delay 1s)",
		"[====>                               ]  12.3%  9m36s left (--max-pages 100,000)",
	}
	live.Draw(busy())
	live.Draw(busy())
	term.expect(t, "drawn twice", wide...)
	if term.colors == 0 {
		t.Error("the view has no colours")
	}

	log := slog.New(slog.NewTextHandler(live.Printer(), &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	log.Warn("backed off", "host", "a.test")
	logged := []string{`level=WARN msg="backed off" host=a.test`}
	term.expect(t, "logged", append(logged, wide...)...)

	for i := range 30 { // so that the screen scrolls
		fmt.Fprintf(live.Printer(), "line %d\n", i)
		term.settle(t) // the kernel buffers only some kilobytes
		logged = append(logged, fmt.Sprintf("line %d", i))
	}
	term.expect(t, "scrolled", append(logged, wide...)...)

	term.resize(t, 40, 24)
	live.Draw(busy())
	term.expect(t, "resized", append(logged,
		"12,345 pages  152 pages/s  2.1 MB/s",
		"1,234,567 queued (12 delayed)",
		"64 of 321 hosts active  seen 87.3%",
		"12 errors  1h02m",
		"limited by politeness: 321 hosts, 321",
		"requests/s (--delay 1s)",
		"[==>               ]  12.3%  9m36s left")...)

	live.Clear()
	fmt.Fprintln(term.tty, "summary")
	term.expect(t, "cleared", append(logged, "summary")...)
}

func TestNoColor(t *testing.T) {
	term := openTerminal(t, 80, 24)
	live, ok := Open(term.tty, env(map[string]string{"TERM": "xterm", "NO_COLOR": "1"}))
	if !ok {
		t.Fatal("Open with NO_COLOR: no view")
	}
	live.Draw(busy())
	term.settle(t)
	if term.colors > 0 || len(term.lines()) != 4 {
		t.Errorf("%d colour sequences, lines %q; want no colours, and 4 lines", term.colors, term.lines())
	}
}

// TestNoTerminal: Open returns no view if the output is not a terminal, or if TERM says that
// the terminal is dumb.
func TestNoTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(); _ = w.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	dumb := openTerminal(t, 80, 24)
	for _, test := range []struct {
		name string
		w    io.Writer
		term string
	}{
		{"a pipe", w, "xterm"}, {"a buffer", new(bytes.Buffer), "xterm"}, {"a device that is no terminal", null, "xterm"},
		{"a dumb terminal", dumb.tty, "dumb"},
	} {
		if _, ok := Open(test.w, env(map[string]string{"TERM": test.term})); ok {
			t.Errorf("Open of %s: got a view, want none", test.name)
		}
	}
}
