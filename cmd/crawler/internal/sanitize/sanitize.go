// Package sanitize makes text from sites safe to show. It writes \u escapes for
// characters that control a terminal or change the order of the text around them.
//
// It owns the list of these characters, a writer for a command's output and an adapter
// for coloured logs. It treats all formats alike: in JSON these characters occur only
// within strings, where a \u escape stands for the character.
package sanitize

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// unsafe reports whether r can control a terminal. Such characters are the control
// characters (C0, DEL, C1) and the bidirectional controls U+061C, U+200E, U+200F, U+202A
// to U+202E and U+2066 to U+2069.
func unsafe(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// appendText appends text to b and escapes unsafe characters, except the allowed ones. A
// byte that is not UTF-8 becomes \ufffd, because it might be a control character of
// another charset.
func appendText(b, text []byte, allowed string) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1, unsafe(r) && !strings.ContainsRune(allowed, r):
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = append(b, text[:size]...)
		}
		text = text[size:]
	}
	return b
}

// String returns s with all unsafe characters escaped, including newlines and tabs.
func String(s string) string { return string(appendText(nil, []byte(s), "")) }

// Writer escapes the unsafe characters in what is written to it, except newlines and
// tabs. It is safe for concurrent use.
type Writer struct {
	mu      sync.Mutex
	to      io.Writer
	partial []byte // the beginning of a character whose rest was not written yet
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// ForTerminal returns a Writer to w if w is a terminal. Otherwise it returns w: files
// and pipes get every byte unchanged.
func ForTerminal(w io.Writer) io.Writer {
	if IsTerminal(w) {
		return NewWriter(w)
	}
	return w
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, file := w.(*os.File)
	return file && term.IsTerminal(int(f.Fd()))
}

// Unwrap returns the writer behind all writers that only pass on what is written to them: those with
// a method Unwrap, such as a Writer.
func Unwrap(w io.Writer) io.Writer {
	for {
		passing, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			return w
		}
		w = passing.Unwrap()
	}
}

// Unwrap returns the writer to which w writes.
func (w *Writer) Unwrap() io.Writer { return w.to }

// Write implements io.Writer. It keeps an incomplete character at the end of p until the
// next call.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.partial, p...)
	end := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if last := text[len(text)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				end -= i
			}
			break
		}
	}
	_, err := w.to.Write(appendText(make([]byte, 0, end), text[:end], "\n\t"))
	w.partial = bytes.Clone(text[end:])
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Attr is a function for tint.Options.ReplaceAttr. The handlers of log/slog quote values.
// But if a quoted value contains a backslash, x, 1 and b, tint can print an escape character
// (byte 0x1B) instead of these four characters. Attr turns values for which this can happen
// into bytes, which tint always quotes.
func Attr(_ []string, a slog.Attr) slog.Attr {
	kind := a.Value.Kind()
	if _, level := a.Value.Any().(slog.Level); level || kind != slog.KindString && kind != slog.KindAny {
		return a
	}
	text := a.Value.String()
	switch {
	case a.Key == slog.MessageKey: // tint does not quote the message
		a.Value = slog.AnyValue([]byte(String(text)))
	case String(text) != text || strings.Contains(text, `\`):
		a.Value = slog.AnyValue([]byte(text))
	}
	return a
}
