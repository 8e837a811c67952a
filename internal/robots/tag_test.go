package robots

import (
	"strings"
	"testing"
)

func TestHeaderTag(t *testing.T) {
	for _, c := range []struct {
		values string // separated by |
		want   Tag
	}{
		{"", Tag{}},
		{"noindex", Tag{Noindex: true}},
		{"nofollow", Tag{Nofollow: true}},
		{"none", Tag{Nofollow: true, Noindex: true}},
		{"all", Tag{}},
		{"index, follow", Tag{}},
		{"NOINDEX , NoFollow", Tag{Nofollow: true, Noindex: true}},
		{"noarchive,nofollow", Tag{Nofollow: true}},
		{"nofollow noindex", Tag{}}, // in the header, directives must be separated by commas

		// several headers: the strictest applies
		{"noindex|nofollow", Tag{Nofollow: true, Noindex: true}},
		{"noindex|index", Tag{Noindex: true}},

		// scoped to one crawler
		{"foobot: noindex", Tag{Noindex: true}},
		{"FooBot: nofollow", Tag{Nofollow: true}},
		{"foobot : nofollow", Tag{Nofollow: true}},
		{"otherbot: noindex, nofollow", Tag{}},
		{"otherbot: none|noindex", Tag{Noindex: true}},
		{"otherbot: noindex, foobot: nofollow", Tag{Nofollow: true}},
		{"foobot: nofollow, otherbot: noindex", Tag{Nofollow: true}},
		{"foobot: noarchive, nofollow", Tag{Nofollow: true}},
		{"noindex, otherbot: nofollow", Tag{Noindex: true}},
		{"otherbot: nofollow, *: noindex", Tag{Noindex: true}},
		{"foobot-news: none", Tag{}},
		{"foobot:", Tag{}},
		{": none", Tag{}},

		// directives with values do not name crawlers
		{"max-snippet: 20, nofollow", Tag{Nofollow: true}},
		{"max-image-preview: none, noindex", Tag{Noindex: true}},
		{"unavailable_after: 25 Jun 2010 15:00:00 PST, nofollow", Tag{Nofollow: true}},
		{"unavailable_after: Friday, 25-Jun-2010 15:00:00 PST, nofollow", Tag{Nofollow: true}},
		{"otherbot: unavailable_after: 25 Jun 2010 15:00:00 PST, nofollow", Tag{}},
	} {
		if got := HeaderTag(strings.Split(c.values, "|"), "foobot"); got != c.want {
			t.Errorf("HeaderTag(%q) = %+v, want %+v", c.values, got, c.want)
		}
	}
	if got := HeaderTag(nil, "foobot"); got != (Tag{}) {
		t.Errorf("HeaderTag of no header = %+v", got)
	}
	if got := HeaderTag([]string{"foobot: none"}, ""); got != (Tag{}) {
		t.Errorf("a crawler without a name took %+v for itself", got)
	}
}

func TestMetaTag(t *testing.T) {
	for _, c := range []struct {
		name, content string
		want          Tag
	}{
		{"robots", "none", Tag{Nofollow: true, Noindex: true}},
		{" Robots ", "NOINDEX,nofollow", Tag{Nofollow: true, Noindex: true}},
		{"robots", "noarchive nofollow", Tag{Nofollow: true}}, // the comma is often missing
		{"robots", "max-snippet:-1, noindex", Tag{Noindex: true}},
		{"FooBot", "nofollow", Tag{Nofollow: true}},
		{"otherbot", "none", Tag{}},
		{"", "none", Tag{}},
		{"robots", "", Tag{}},
	} {
		if got := MetaTag(c.name, c.content, "foobot"); got != c.want {
			t.Errorf("MetaTag(%q, %q) = %+v, want %+v", c.name, c.content, got, c.want)
		}
	}
	if got := (Tag{Nofollow: true}).With(Tag{Noindex: true}); got != (Tag{Nofollow: true, Noindex: true}) {
		t.Errorf("With = %+v", got)
	}
}

// FuzzHeaderTag: the Tag of two headers has what each of the headers asks for, and nothing that is
// not one of their directives. If the two headers are joined into one, nothing is lost.
func FuzzHeaderTag(f *testing.F) {
	f.Add("noindex, otherbot: nofollow", "foobot: none")
	f.Add("unavailable_after: Friday, 25-Jun-2010 15:00:00 PST", ":,:,")
	f.Fuzz(func(t *testing.T, a, b string) {
		both := HeaderTag([]string{a, b}, "foobot")
		if want := HeaderTag([]string{a}, "foobot").With(HeaderTag([]string{b}, "foobot")); both != want {
			t.Errorf("%q and %q: %+v, apart %+v", a, b, both, want)
		}
		lower := strings.ToLower(a + b)
		none := strings.Contains(lower, "none")
		if both.Nofollow && !none && !strings.Contains(lower, "nofollow") ||
			both.Noindex && !none && !strings.Contains(lower, "noindex") {
			t.Errorf("%q and %q ask for %+v", a, b, both)
		}
		if joined := HeaderTag([]string{a + ", *: " + b}, "foobot"); joined.With(both) != joined && !strings.Contains(b, ":") {
			t.Errorf("%q and %q joined: %+v, apart %+v", a, b, joined, both)
		}
	})
}
