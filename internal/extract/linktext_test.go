package extract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLinkTexts: the text of each link is returned, index for index.
func TestLinkTexts(t *testing.T) {
	long := strings.Repeat("é", MaxAnchorBytes)
	for body, want := range map[string][]LinkText{
		`<a href=a>  one <b>two</b>&amp;&#33;
 three</a> four <a rel="nofollow ugc" href=b></a>`: {{"one two&! three", ""}, {"", "nofollow ugc"}},
		`<a href=a></a><a href=b>b</a><a href=a#x rel=me>first</a><a href=./a>second</a>`: {{"first", "me"}, {"b", ""}},
		`<a href=a>one<a href=b>two<a>three</a>`:                                          {{"one", ""}, {"two", ""}},
		`<a href=a>x<script>no</script><style>no</style>y<!-- no --><title>no</title>z`:   {{"xyz", ""}},
		`<link rel="next  up" href=a><area href=b rel=x><iframe src=c></iframe>`:          {{"", "next up"}, {"", "x"}, {"", ""}},
		`<a href=a>1 < 2 <3</a>`:                   {{"1 < 2 <3", ""}},
		`<a href=a>` + long + `</a><a href=b>b`:    {{long[:MaxAnchorBytes], ""}, {"b", ""}},
		`<a href=mailto:x>no</a><a href=a>yes</a>`: {{"yes", ""}},
	} {
		page := read(t, body, "text/html; charset=utf-8", Options{LinkTexts: true})
		if diff := cmp.Diff(want, page.LinkTexts); diff != "" {
			t.Errorf("link texts of %s (-want +got):\n%s", body, diff)
		}
	}
	if page := read(t, "<a href=a rel=me>x</a>", "text/html", Options{}); page.LinkTexts != nil {
		t.Error("LinkTexts is set without the option")
	}
}
