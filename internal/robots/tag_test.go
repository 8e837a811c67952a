package robots

import (
	"strings"
	"testing"
)

func TestHeaderNofollow(t *testing.T) {
	for _, c := range []struct {
		values string // separated by |
		want   bool
	}{
		{"", false},
		{"noindex", false},
		{"nofollow", true},
		{"none", true},
		{"all", false},
		{"index, follow", false},
		{"NOINDEX , NoFollow", true},
		{"noarchive,nofollow", true},
		{"nofollow noindex", false}, // in the header, directives must be separated by commas

		// several headers: the strictest applies
		{"noindex|nofollow", true},
		{"nofollow|follow", true},

		// scoped to one crawler
		{"foobot: none", true},
		{"FooBot: nofollow", true},
		{"foobot : nofollow", true},
		{"otherbot: noindex, nofollow", false},
		{"otherbot: none|nofollow", true},
		{"otherbot: none|noindex", false},
		{"otherbot: noindex, foobot: nofollow", true},
		{"foobot: nofollow, otherbot: noindex", true},
		{"foobot: noarchive, nofollow", true},
		{"noindex, otherbot: nofollow", false},
		{"nofollow, otherbot: noarchive", true},
		{"otherbot: noindex, *: nofollow", true},
		{"foobot-news: none", false},
		{"foobot:", false},
		{": none", false},

		// directives with values do not name crawlers
		{"max-snippet: 20, nofollow", true},
		{"max-image-preview: none, noindex", false},
		{"max-image-preview: none, nofollow", true},
		{"unavailable_after: 25 Jun 2010 15:00:00 PST, nofollow", true},
		{"unavailable_after: Friday, 25-Jun-2010 15:00:00 PST, nofollow", true},
		{"otherbot: unavailable_after: 25 Jun 2010 15:00:00 PST, nofollow", false},
	} {
		if got := HeaderNofollow(strings.Split(c.values, "|"), "foobot"); got != c.want {
			t.Errorf("HeaderNofollow(%q) = %v, want %v", c.values, got, c.want)
		}
	}
	if got := HeaderNofollow(nil, "foobot"); got != (false) {
		t.Errorf("HeaderNofollow of no header = %v, want false", got)
	}
	if got := HeaderNofollow([]string{"foobot: none"}, ""); got != (false) {
		t.Errorf("HeaderNofollow for a crawler without a name = %v, want false", got)
	}
}

func TestMetaNofollow(t *testing.T) {
	for _, c := range []struct {
		name, content string
		want          bool
	}{
		{"robots", "none", true},
		{" Robots ", "NOINDEX,nofollow", true},
		{"robots", "noarchive nofollow", true}, // the comma is often missing
		{"robots", "max-snippet:-1, noindex", false},
		{"FooBot", "nofollow", true},
		{"otherbot", "none", false},
		{"", "none", false},
		{"robots", "", false},
	} {
		if got := MetaNofollow(c.name, c.content, "foobot"); got != c.want {
			t.Errorf("MetaNofollow(%q, %q) = %v, want %v", c.name, c.content, got, c.want)
		}
	}
}

// FuzzHeaderNofollow: two headers ask for nofollow if and only if one of them alone does. If
// they do, one of them contains nofollow or none. If they do, and the second header has no
// colon, then one header with both texts asks for nofollow as well. In this header, "*:" comes
// before the second text.
func FuzzHeaderNofollow(f *testing.F) {
	f.Add("noindex, otherbot: nofollow", "foobot: none")
	f.Add("unavailable_after: Friday, 25-Jun-2010 15:00:00 PST", ":,:,")
	f.Fuzz(func(t *testing.T, a, b string) {
		both := HeaderNofollow([]string{a, b}, "foobot")
		if want := HeaderNofollow([]string{a}, "foobot") || HeaderNofollow([]string{b}, "foobot"); both != want {
			t.Errorf("headers %q and %q: %v together, %v one by one", a, b, both, want)
		}
		lower := strings.ToLower(a + b)
		if both && !strings.Contains(lower, "none") && !strings.Contains(lower, "nofollow") {
			t.Errorf("headers %q and %q: true, but neither has nofollow or none", a, b)
		}
		if joined := HeaderNofollow([]string{a + ", *: " + b}, "foobot"); both && !joined && !strings.Contains(b, ":") {
			t.Errorf("headers %q and %q: %v when joined into one, %v as two", a, b, joined, both)
		}
	})
}
