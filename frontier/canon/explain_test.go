package canon

import (
	"errors"
	"strings"
	"testing"
)

func TestExplainSteps(t *testing.T) {
	const base = "http://example.org/a/b.html?q=1"
	tests := []struct {
		base, raw string
		sort      bool
		want      string // one step in each line: rule, detail, text after it
	}{
		{raw: "http://example.org/a?b=1"},
		{raw: " \thttp://exa\nmple.org/ ", want: "white space removed () http://example.org/"},
		{raw: "http://h", want: "root path added () http://h/"},
		{raw: "http://h?a", want: "root path added () http://h/?a"},
		{raw: "HTTP://H/A", want: "scheme and host lower-cased () http://h/A"},
		{raw: `http:\\h\a\b?c\d`, want: `slashes straightened () http://h/a/b?c\d`},
		{raw: "http:h/", want: "slashes straightened () http://h/"},
		{raw: "http:////h/", want: "slashes straightened () http://h/"},
		{raw: "http://u:p@x@h:80/", want: "user and password removed () http://h:80/\ndefault port removed () http://h/"},
		{raw: "http://h:/", want: "default port removed () http://h/"},
		{raw: "http://h:443/"},
		{raw: "https://h:00080/", want: "zeros before the port removed () https://h:80/"},
		{raw: "http://h./", want: "dot after the host removed () http://h/"},
		{raw: "http://BÜcher.example/", want: "scheme and host lower-cased () http://bÜcher.example/\n" +
			"host name by IDNA () http://xn--bcher-kva.example/"},
		{raw: "http://ex%61mple.org/", want: "host name by IDNA () http://example.org/"},
		{raw: "http://0x7f.1/", want: "address in its usual form () http://127.0.0.1/"},
		{raw: "http://[0:0::1]:8080/", want: "address in its usual form () http://[::1]:8080/"},
		{raw: "http://h/#", want: "fragment removed () http://h/"},
		{raw: "http://h/?", want: "empty query removed () http://h/"},
		{raw: "http://h/%7ea b?%zz%2f#x", want: "percent-encoding () http://h/~a%20b?%25zz%2F#x\n" +
			"fragment removed () http://h/~a%20b?%25zz%2F"},
		{raw: "http://h/a/%2E%2e/./b", want: "percent-encoding () http://h/a/.././b\ndot segments resolved () http://h/b"},
		{raw: "http://h/a;jsessionid=1;x/b?utm_source=s&c=1&gclid=2&utm_source=t",
			want: "parameters stripped (jsessionid, utm_source, gclid) http://h/a;x/b?c=1"},
		{raw: "http://h/?utm_source=s", want: "parameters stripped (utm_source) http://h/"},
		{raw: "http://h/?b=1&a=2", sort: true, want: "query sorted () http://h/?a=2&b=1"},
		{base: base, raw: "../c#x", want: "joined with the page's URL () http://example.org/a/../c#x\n" +
			"fragment removed () http://example.org/a/../c\ndot segments resolved () http://example.org/c"},
		{base: base, raw: "?x", want: "joined with the page's URL () http://example.org/a/b.html?x"},
		{base: base, raw: "", want: "joined with the page's URL () http://example.org/a/b.html?q=1"},
		{base: base, raw: "//h/", want: "joined with the page's URL () http://h/"},
		{base: base, raw: "/x", want: "joined with the page's URL () http://example.org/x"},
		{base: base, raw: "http:x", want: "joined with the page's URL () http://example.org/a/x"},
		{base: base, raw: "https:x", want: "slashes straightened () https://x\nroot path added () https://x/"},
	}
	for _, tt := range tests {
		c := newT(t, Options{SortQuery: tt.sort})
		var from URL
		if tt.base != "" {
			from = parseT(t, c, tt.base)
		}
		steps, u, err := c.Explain(tt.raw, from)
		if got := lines(steps); got != tt.want || err != nil {
			t.Errorf("Explain(%q, %q): error %v, steps\n%s\nwant\n%s", tt.raw, tt.base, err, got, tt.want)
		}
		checkSteps(t, steps, tt.raw, u)
	}
}

func TestExplainSeed(t *testing.T) {
	c := newT(t, Options{})
	steps, u, err := c.ExplainSeed(" //Example.org ")
	want := "white space removed () //Example.org\nscheme added () https://Example.org\n" +
		"root path added () https://Example.org/\nscheme and host lower-cased () https://example.org/"
	if got := lines(steps); got != want || u.String() != "https://example.org/" || err != nil {
		t.Errorf("ExplainSeed: URL %v, error %v, steps\n%s\nwant\n%s", u, err, got, want)
	}
}

func TestExplainRefused(t *testing.T) {
	c := newT(t, Options{})
	steps, u, err := c.Explain(" mailto:x@y ", URL{})
	if got := lines(steps); got != "white space removed () mailto:x@y" || !u.IsZero() || !errors.Is(err, ErrScheme) {
		t.Errorf("Explain of a mailto: URL = %q, %v, %v, want the step that removes white space, no URL and ErrScheme", got, u, err)
	}
}

// FuzzExplain: Explain returns the URL and the error of Join, and the text after every
// step is another spelling of this URL.
func FuzzExplain(f *testing.F) {
	for i, ref := range references {
		f.Add(bases[i%len(bases)], ref)
		f.Add("", ref)
	}
	all := variants(f)
	f.Fuzz(func(t *testing.T, rawBase, ref string) {
		for _, c := range all {
			base, _ := c.Parse(rawBase) // zero if rawBase is not a URL
			want, wantErr := c.Join(base, ref)
			steps, u, err := c.Explain(ref, base)
			if u != want || !errors.Is(err, reason(wantErr)) {
				t.Fatalf("Explain(%q, %q) = %q (%v), want %q (%v)", ref, base, u, err, want, wantErr)
			}
			if err == nil {
				checkSteps(t, steps, ref, u)
				checkSame(t, c, steps, u)
			}
			want, wantErr = c.ParseSeed(ref)
			steps, u, err = c.ExplainSeed(ref)
			if u != want || !errors.Is(err, reason(wantErr)) {
				t.Fatalf("ExplainSeed(%q) = %q (%v), want %q (%v)", ref, u, err, want, wantErr)
			}
			if err == nil {
				checkSteps(t, steps, ref, u)
			}
		}
	})
}

// checkSteps fails unless the steps lead from raw to u, and no step has the rule RuleOther.
func checkSteps(t *testing.T, steps []Step, raw string, u URL) {
	t.Helper()
	text := raw
	for _, s := range steps {
		if s.Before != text || s.After == text || s.Rule == RuleOther {
			t.Fatalf("Explain(%q), which leads to %q: step %+v, want a step with a rule that changes %q", raw, u, s, text)
		}
		text = s.After
	}
	if text != u.String() {
		t.Fatalf("Explain(%q): the steps end with %q, want %q", raw, text, u)
	}
}

// checkSame fails unless the text after each step is another spelling of u.
func checkSame(t *testing.T, c *Canonicalizer, steps []Step, u URL) {
	t.Helper()
	for _, s := range steps {
		if s.Rule == RuleSpace {
			continue // the text can still be relative
		}
		if again, err := c.Parse(s.After); err != nil || again != u {
			t.Fatalf("after step %+v: Parse of the text = %q (%v), want %q", s, again, err, u)
		}
	}
}

func lines(steps []Step) string {
	var all []string
	for _, s := range steps {
		all = append(all, string(s.Rule)+" ("+s.Detail+") "+s.After)
	}
	return strings.Join(all, "\n")
}

func parseT(t *testing.T, c *Canonicalizer, raw string) URL {
	t.Helper()
	u, err := c.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
