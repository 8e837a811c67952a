package canon

import (
	"errors"
	"strings"
	"testing"
)

func TestExplainSeed(t *testing.T) {
	tests := []struct {
		raw  string
		sort bool
		want string // one step in each line: rule, text after it
	}{
		{raw: "http://example.org/a?b=1"},
		{raw: "http://h:443/"},
		{raw: " \thttp://exa\nmple.org/ ", want: "white space removed: http://exa\nmple.org/\nwhite space removed: http://example.org/"},
		{raw: " //Example.org ", want: "white space removed: //Example.org\nscheme added: https://Example.org\nnormalised: https://example.org/"},
		{raw: `HTTP:\\H.:80\a\b?c\d`, want: `normalised: http://h/a/b?c\d`},
		{raw: "http://u:p@x@h:80/", want: "normalised: http://u:p@x@h/\nuser and password removed: http://h/"},
		{raw: "http://BÜcher.example/", want: "normalised: http://xn--bcher-kva.example/"},
		{raw: "http://h/#", want: "fragment removed: http://h/"},
		{raw: "http://h/?", want: "normalised: http://h/"},
		{raw: "http://h/%7ea/../a b?%zz%2f #x", want: "normalised: http://h/a%20b?%25zz%2F%20#x\nfragment removed: http://h/a%20b?%25zz%2F%20"},
		{raw: "http://h/a;jsessionid=1;x/b?utm_source=s&c=1&gclid=2", want: "parameters stripped: http://h/a;x/b?c=1"},
		{raw: "http://h/?utm_source=s", want: "parameters stripped: http://h/"},
		{raw: "http://h/?b=1&a=2", sort: true, want: "query sorted: http://h/?a=2&b=1"},
	}
	for _, tt := range tests {
		c := newT(t, Options{SortQuery: tt.sort})
		steps, u, err := c.ExplainSeed(tt.raw)
		if got := lines(steps); got != tt.want || err != nil {
			t.Errorf("ExplainSeed(%q): error %v, steps\n%s\nwant\n%s", tt.raw, err, got, tt.want)
		}
		checkSteps(t, steps, tt.raw, u)
	}
}

func TestExplainRefused(t *testing.T) {
	c := newT(t, Options{})
	steps, u, err := c.ExplainSeed(" foo:bar ")
	want := "white space removed: foo:bar\nscheme added: https://foo:bar"
	if got := lines(steps); got != want || !u.IsZero() || !errors.Is(err, ErrMalformed) {
		t.Errorf("ExplainSeed of a text with a bad port: URL %q, error %v, steps\n%s\nwant no URL, ErrMalformed, and\n%s", u, err, got, want)
	}
}

// FuzzExplain: ExplainSeed returns the URL and the error of ParseSeed, and the text after
// every step is another spelling of this URL.
func FuzzExplain(f *testing.F) {
	for _, ref := range references {
		f.Add(ref)
	}
	all := variants(f)
	f.Fuzz(func(t *testing.T, ref string) {
		for _, c := range all {
			want, wantErr := c.ParseSeed(ref)
			steps, u, err := c.ExplainSeed(ref)
			if u != want || !errors.Is(err, reason(wantErr)) {
				t.Fatalf("ExplainSeed(%q) = %q (%v), want %q (%v)", ref, u, err, want, wantErr)
			}
			if err == nil {
				checkSteps(t, steps, ref, u)
				checkSame(t, c, steps, u)
			}
		}
	})
}

// checkSteps fails unless the steps lead from raw to u.
func checkSteps(t *testing.T, steps []Step, raw string, u URL) {
	t.Helper()
	text := raw
	for _, s := range steps {
		if s.Before != text || s.After == text {
			t.Fatalf("ExplainSeed(%q), which leads to %q: step %+v, want a step that changes %q", raw, u, s, text)
		}
		text = s.After
	}
	if text != u.String() {
		t.Fatalf("ExplainSeed(%q): the steps end with %q, want %q", raw, text, u)
	}
}

// checkSame fails unless the text after each step is another spelling of u.
func checkSame(t *testing.T, c *Canonicalizer, steps []Step, u URL) {
	t.Helper()
	for _, s := range steps {
		if again, err := c.ParseSeed(s.After); err != nil || again != u {
			t.Fatalf("after step %+v: ParseSeed of the text = %q (%v), want %q", s, again, err, u)
		}
	}
}

func lines(steps []Step) string {
	var all []string
	for _, s := range steps {
		all = append(all, string(s.Rule)+": "+s.After)
	}
	return strings.Join(all, "\n")
}
