package extract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLinkTexts: both ways of reading return the text of each link, index for
// index.
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
		tree, tokens := read(t, body, "text/html; charset=utf-8", Options{LinkTexts: true})
		if diff := cmp.Diff(want, tree.LinkTexts); diff != "" {
			t.Errorf("link texts of the document of %s (-want +got):\n%s", body, diff)
		}
		if diff := cmp.Diff(want, tokens.LinkTexts); diff != "" {
			t.Errorf("link texts of the tokens of %s (-want +got):\n%s", body, diff)
		}
	}
	if tree, tokens := read(t, "<a href=a rel=me>x</a>", "text/html", Options{}); tree.LinkTexts != nil || tokens.LinkTexts != nil {
		t.Error("LinkTexts is set without the option")
	}
}
