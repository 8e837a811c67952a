package robots

import (
	"strings"
	"testing"

	"github.com/jimsmart/grobotstxt"
)

// TestDiffersFromGoogle checks the differences from Google's matcher that the package comment
// and docs/reference/web-policy.md describe.
func TestDiffersFromGoogle(t *testing.T) {
	const head = "User-agent: foobot\n"
	for _, c := range []struct {
		what, file, path string
		ours             bool // our answer; Google's answer is the opposite
	}{
		{"an escape in a rule", head + "Disallow: /%61", "/a", false},
		{"an escape in a path", head + "Disallow: /a", "/%61", false},
		{"$ within a rule", head + "Disallow: /a$b", "/a%24b", false},
		{"* in a path", head + "Disallow: /a%2Ab", "/a*b", false},
		{"an escape in a query", head + "Disallow: /?u=a%2Fb", "/?u=a/b", false},
		{"index.html", head + "Disallow: /\nAllow: /index.html", "/", false},
		{"a star behind a name", "User-agent: foobot*\nDisallow: /", "/", false},
		{"robots.txt itself", head + "Disallow: /", "/robots.txt", true},
		{"beyond 500 KiB", head + strings.Repeat("# x\n", MaxBytes/4) + "Disallow: /", "/a", true},
	} {
		ours, _ := Parse([]byte(c.file), "foobot").Allowed(c.path)
		if google := grobotstxt.AgentAllowed(c.file, "foobot", "http://h"+c.path); ours != c.ours || google == ours {
			t.Errorf("%s: we say %t and Google's matcher %t, want %t and %t", c.what, ours, google, c.ours, !c.ours)
		}
	}
}
