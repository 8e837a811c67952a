package extract

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

var (
	seedFlag  = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of random tests")
	pagesFlag = flag.Int("pages", 300, "random pages to compare")
)

// TestTokensEqualTree compares the tokens of a page with its tree, on random pages whose
// elements are in valid places.
func TestTokensEqualTree(t *testing.T) {
	t.Logf("replay with -seed=%d", *seedFlag)
	dice := rand.New(rand.NewPCG(*seedFlag, 0))
	for range *pagesFlag {
		body := randomPage(dice)
		opt := Options{Canon: testCanon(t), Assets: dice.IntN(3) > 0, ProductToken: "foobot", LinkTexts: true}
		tokens := read(t, body, "text/html; charset=utf-8", opt)
		tree := readTree(body, "text/html; charset=utf-8", testURL(t, pageURL), opt)
		if diff := cmp.Diff(tree.LinkTexts, tokens.LinkTexts); diff != "" || len(tree.LinkTexts) != len(tree.Links) {
			t.Fatalf("seed %d: texts of tree and tokens differ (-tree +tokens):\n%s\n%s", *seedFlag, diff, body)
		}
		if diff := cmp.Diff(lines(tree), lines(tokens)); diff != "" {
			t.Fatalf("seed %d: links of tree and tokens differ (-tree +tokens):\n%s\n%s", *seedFlag, diff, body)
		}
		if a, b := summary(tree), summary(tokens); a != b {
			t.Fatalf("seed %d:\ntree:   %s\ntokens: %s\n%s", *seedFlag, a, b, body)
		}
		if len(tree.Links) == 0 {
			t.Fatalf("seed %d: no links in\n%s", *seedFlag, body)
		}
	}
}

// randomPage writes a page that is valid except for common mistakes.
func randomPage(dice *rand.Rand) string {
	var b strings.Builder
	pick := func(of ...string) string { return of[dice.IntN(len(of))] }
	ref := func() string {
		return pick("a", "b.html", "../c", "/d?x=1&amp;y=2", "?q", "#f", "", "//h.example/é", "https://www.example.org/e",
			"mailto:x@y", "http://[", "javascript:x", "f;jsessionid=1", " g ", "h#i") + pick("", "", fmt.Sprint(dice.IntN(20)))
	}
	b.WriteString(pick("<!DOCTYPE html>", "") + "<html><head>")
	for range dice.IntN(6) {
		b.WriteString(pick(
			"<title>T &amp; "+ref()+"</title>", "<base href='"+pick("/base/", "x/", "data:x")+"'>",
			"<meta name=robots content="+pick("nofollow", "noindex", "none", "index")+">",
			"<meta http-equiv=refresh content='1;url="+ref()+"'>", "<link rel=canonical href='"+ref()+"'>",
			"<meta name=foobot content="+pick("nofollow", "noindex")+">",
			"<link rel='"+pick("next", "icon", "stylesheet", "preload", "alternate", "up nofollow", "")+"' "+
				pick("", "type=text/html ", "type=application/atom+xml ")+"href='"+ref()+"'>",
			"<link rel=preload imagesrcset='"+ref()+" 1x'>",
			"<script src='"+ref()+"'></script>", "<script>var x = '<a href=no>';</script>", "<style>a { }</style>",
			"<!-- <a href=no> -->", "<noscript><link href='"+ref()+"'></noscript>"))
	}
	b.WriteString("</head><body" + pick("", " background='"+ref()+"'") + ">")
	writeContent(dice, &b, ref, 4)
	b.WriteString("<a href=last>last</a></body></html>")
	return b.String()
}

// writeContent writes elements that may occur in a body, nested up to depth.
func writeContent(dice *rand.Rand, b *strings.Builder, ref func() string, depth int) {
	for range dice.IntN(5) {
		q := []string{`"`, `'`}[dice.IntN(2)]
		quoted := q + ref() + q
		switch kind := dice.IntN(12); {
		case kind < 4:
			rel := []string{"", " rel=nofollow", " rel='me nofollow'"}[dice.IntN(3)]
			text := []string{"text &copy;", "", "a <b>bold</b>\n text", "<!-- no -->1 < 2<script>no</script>", "<img src=x alt=no> ", "more<br>lines &amp;c"}[dice.IntN(6)]
			fmt.Fprintf(b, "<a%s href=%s>%s</a>", rel, quoted, text)
		case kind == 4:
			fmt.Fprintf(b, "<img src=%s srcset='%s 1x, %s 2x'/>", quoted, "s1", "s2")
		case kind == 5:
			fmt.Fprintf(b, "<iframe src=%s><a href=no></iframe><map><area href=%s></map>", quoted, quoted)
		case kind == 6:
			fmt.Fprintf(b, "<video poster=%s><source src=%s></video><object data=%s></object>", quoted, quoted, quoted)
		case kind == 7 && dice.IntN(2) == 0:
			fmt.Fprintf(b, "<table background=%s><tr><th background=b1>x</th><td background=%s><embed src=%s></td></tr></table>", quoted, quoted, quoted)
			fmt.Fprintf(b, "<audio src=%s><track src=%s></audio><input type=image src=%s><form action=no></form>", quoted, quoted, quoted)
		case kind == 7:
			b.WriteString("<textarea><a href=no></textarea><script>'<a href=no>'</script><!-- <a href=no> --><br>")
		case depth == 0:
			b.WriteString("text")
		default:
			tag := []string{"div", "p", "ul><li", "table><tr><td", "section", "b", "noscript", "form"}[dice.IntN(8)]
			first, _, _ := strings.Cut(tag, ">")
			if first == "p" { // not p: some of the other elements end an open p, and some do not
				first, tag = "article", "article"
			}
			b.WriteString("<" + tag + ">")
			writeContent(dice, b, ref, depth-1)
			b.WriteString("</" + first + ">")
		}
	}
}

// framed matches a frameset. The parser lets it take the place of some bodies, with all links.
var framed = regexp.MustCompile(`(?i)<frameset`)

// FuzzHTML: reading never panics, whatever the body is. Except for framesets, the tokens have
// every link of the tree. Each link is canonical.
func FuzzHTML(f *testing.F) {
	dice := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		f.Add(randomPage(dice), "text/html; charset=utf-8")
	}
	f.Add("<a href=a><base href=/b/><a href='#c'>", "text/html")
	f.Add("<table><a href=a><select><a href=b><frameset><frame src=c>", "text/html; charset=shift_jis")
	f.Add("<svg><title><a href=a></title><style><a href=b></svg><noscript><a href=c", "")
	f.Add("<p><b id=1><b id=2><b id=3></p><p>x<p>x<p>x<p>x", "")
	f.Add("<b x='<i y=\"'><u></b><!-- <s> </u> --><table><td><tt></table><a><div></a>x", "")
	f.Add("<svg><style><b id=1><b id=2></style></svg><p>x</p><p>x</p><select><em></select></em>x", "")
	f.Add("\xff\xfe<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00b\x00>\x00", "text/html; charset=utf-16be")
	f.Add("<meta charset=iso-2022-jp><a href='?\x1b$BF|'>", "text/html; charset=gb18030")
	f.Add("<meta http-equiv=refresh content='0;url=a'><meta charset=utf-16><img srcset='a 1x,b'>", "x")
	c := testCanon(f)
	base := testURL(f, pageURL)
	f.Fuzz(func(t *testing.T, body, contentType string) {
		opt := Options{Canon: c, Assets: true}
		tree := readTree(body, contentType, base, opt)
		tokens := HTML([]byte(body), contentType, base, opt)
		found := urls(t, c, tokens)
		for u := range urls(t, c, tree) {
			if !found[u] && !framed.MatchString(body) && tree.Base == tokens.Base {
				t.Errorf("%q is a link of the tree, not of the tokens", u)
			}
		}
		if len(tokens.Title) > MaxTitleBytes || !utf8.ValidString(tokens.Title) {
			t.Errorf("the title %q is too long or not UTF-8", tokens.Title)
		}
		tokens.Document()
	})
}

// urls returns the set of the links of a page. It fails the test if a link occurs twice or is
// not canonical.
func urls(t *testing.T, c *canon.Canonicalizer, p *Page) map[canon.URL]bool {
	t.Helper()
	found := map[canon.URL]bool{}
	for _, l := range p.Links {
		if again, err := c.Parse(l.URL.String()); err != nil || again != l.URL || found[l.URL] {
			t.Errorf("%q is not canonical (%v) or not distinct (%t)", l.URL, err, found[l.URL])
		}
		found[l.URL] = true
	}
	if len(found) != len(p.Links) {
		t.Errorf("%d distinct links, want all %d: %q", len(found), len(p.Links), slices.Collect(maps.Keys(found)))
	}
	return found
}
