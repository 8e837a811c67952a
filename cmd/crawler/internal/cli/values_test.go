package cli

import "testing"

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a.crawl": "a.crawl", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "~x": "'~x'", "$x": "'$x'", "*=1:2": "'*=1:2'", "a\nb": "'a\nb'",
	} {
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestWrapLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want int
	}{{"", 1}, {"one two three", 2}, {"averyveryverylongword x", 2}} {
		if got := wrap(tt.text, 8); len(got) != tt.want {
			t.Errorf("wrap(%q, 8) = %q, want %d lines", tt.text, got, tt.want)
		}
	}
}
