package sanitize

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lmittmann/tint"
)

// controls returns all characters that are escaped.
func controls() (all string) {
	for r := range rune(utf8.MaxRune) {
		if r < ' ' || r >= 0x7f && r <= 0x9f || r == 0x61c || r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			all += string(r)
		}
	}
	return all
}

func TestStringEscapesControls(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"plain, Grüße, 日本, \u200dمرحبا, \U0001f600 \\u001b", "plain, Grüße, 日本, \u200dمرحبا, \U0001f600 \\u001b"},
		{"\x1b]0;title\a", `\u001b]0;title\u0007`},
		{"a\u009b31mb\x7f", `a\u009b31mb\u007f`},
		{"a\u202eb\u2066c\u061cd", `a\u202eb\u2066c\u061cd`},
		{"two\nlines\tand\rmore", `two\u000alines\u0009and\u000dmore`},
		{"not \x9b UTF-8 \xe2\x80", `not \ufffd UTF-8 \ufffd\ufffd`},
	} {
		if got := String(c.text); got != c.want {
			t.Errorf("String(%q) = %s, want %s", c.text, got, c.want)
		}
	}
	for _, r := range controls() {
		if got := String(string(r)); !regexp.MustCompile(`^\\u[0-9a-f]{4}$`).MatchString(got) {
			t.Errorf("String of %U = %q, want \\u and four digits", r, got)
		}
	}
}

// TestWriterEscapesControls: the output does not depend on how the text is divided among
// calls of Write.
func TestWriterEscapesControls(t *testing.T) {
	text := "a\tb\nü日\U0001f600\u009b\u202e\x1b[5m\x9b\xe2\x80z\xc3\n"
	want := "a\tb\nü日\U0001f600" + `\u009b\u202e\u001b[5m\ufffd\ufffd\ufffdz\ufffd` + "\n"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := NewWriter(&out)
		for rest := text; rest != ""; {
			part := rest[:min(size, len(rest))]
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatalf("Write(%q) = %d, %v", part, n, err)
			}
			rest = rest[len(part):]
		}
		if out.String() != want {
			t.Errorf("written in pieces of %d bytes: got %q, want %q", size, out.String(), want)
		}
	}
}

// TestWriterKeepsJSON: the escaped JSON has the same meaning as the original.
func TestWriterKeepsJSON(t *testing.T) {
	want := map[string]string{"title": controls() + "日本\U0001f600", "back": `\u001b`}
	var out bytes.Buffer
	if err := json.NewEncoder(NewWriter(&out)).Encode(want); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["title"] != want["title"] || got["back"] != want["back"] {
		t.Errorf("the escaped JSON %s\ndecodes to %q (%v), want %q", &out, got, err, want)
	}
	if line := strings.TrimSuffix(out.String(), "\n"); String(line) != line {
		t.Errorf("%q is not escaped", line)
	}
}

func TestForTerminal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if w := ForTerminal(f); w != f {
		t.Errorf("ForTerminal of a file = %T, want the file", w)
	}
	if w := Unwrap(NewWriter(f)); w != f {
		t.Errorf("Unwrap = %T, want the file", w)
	}
}

// TestLoggedValuesAreEscaped: tint escapes the control characters of values and
// messages, with colours or without.
func TestLoggedValuesAreEscaped(t *testing.T) {
	own := regexp.MustCompile(`\x1b\[(0|2|22|91|92|93)m`)
	hostile := []string{"x\x1b]0;pwned\a", `x\x1b]0;pwned\x1b\\`, "\x7f", "a\u009bb", "a b\u202e", "line\nWRN line", "\x9b", controls()}
	for _, noColor := range []bool{false, true} {
		for _, text := range hostile {
			var out bytes.Buffer
			log := slog.New(tint.NewTextHandler(&out, &tint.Options{NoColor: noColor, ReplaceAttr: Attr}))
			log.With("with", text).WithGroup("group").Error(text, "string", text, "err", errors.New(text),
				slog.Group("inner", "bytes", []byte(text)), "msg", text)
			line := strings.TrimSuffix(own.ReplaceAllString(out.String(), ""), "\n")
			if String(line) != line {
				t.Errorf("%q is logged as %q (no colour: %t)", text, line, noColor)
			}
		}
	}
	var out bytes.Buffer
	slog.New(tint.NewTextHandler(&out, &tint.Options{NoColor: true, TimeFormat: "-", ReplaceAttr: Attr})).Warn("two words", "n", 1, "s", "plain", "err", errors.New("a b"))
	if want := "- WRN two words n=1 s=plain err=\"a b\"\n"; out.String() != want {
		t.Errorf("plain values are logged as %q, want %q", out.String(), want)
	}
}
