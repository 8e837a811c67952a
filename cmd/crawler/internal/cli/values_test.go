package cli

import "testing"

func TestParseLimit(t *testing.T) {
	for in, want := range map[string]limit{"0": 0, "1": 1, "10k": 10_000, "1e6": 1_000_000} {
		var l limit
		if err := l.Set(in); err != nil || l != want {
			t.Errorf("Set(%q): got %d, error %v; want %d", in, l, err, want)
		}
		var again limit
		if err := again.Set(l.String()); err != nil || again != l {
			t.Errorf("Set(%q): String = %q, which parses to %d, %v", in, l.String(), again, err)
		}
	}
	for _, in := range []string{"", "-1", "0.5", "many"} {
		if err := new(limit).Set(in); err == nil {
			t.Errorf("Set(%q): no error", in)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{
		"a.crawl": "a.crawl", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "~x": "'~x'", "$x": "'$x'", "*=1:2": "'*=1:2'", "a\nb": "'a\nb'",
	} {
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestWrapLines(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int
	}{{"", 1}, {"one two three", 2}, {"averyveryverylongword x", 2}} {
		if got := wrap(tt.text, 8); len(got) != tt.want {
			t.Errorf("wrap(%q, 8) = %q, want %d lines", tt.text, got, tt.want)
		}
	}
}
