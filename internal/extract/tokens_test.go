package extract

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// readByTokenizer does what readTokens must do, but reads everything with html.Tokenizer. It does
// not know in which context a tag is.
func readByTokenizer(text []byte, found *collector) {
	z := html.NewTokenizer(bytes.NewReader(text))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			return
		}
		token := z.Token()
		switch {
		case kind != html.StartTagToken && kind != html.SelfClosingTagToken:
		case token.DataAtom == atom.Noscript:
			z.NextIsNotRawText()
		case token.DataAtom == atom.Title && !found.hasTitle:
			text := ""
			if z.Next() == html.TextToken {
				text = string(z.Text())
			}
			found.setTitle(text)
		case found.reads(token.DataAtom):
			found.element(token.DataAtom, token.Attr)
		}
	}
}

// collection is what a collector has collected, for comparisons.
type collection struct {
	References []string
	Title      string
	Base       string
}

func collected(text []byte, read func([]byte, *collector)) collection {
	found := newCollector(Options{Assets: true, ProductToken: "foobot"})
	read(text, found)
	s := collection{Title: found.title, Base: found.base}
	for _, r := range found.references {
		s.References = append(s.References, r.kind.String()+" "+r.text+map[bool]string{true: " nofollow"}[r.nofollow])
	}
	return s
}

// contextual matches the tags whose content the tokenizer reads like any other.
var contextual = regexp.MustCompile(`(?i)<(svg|math|template|frame|frameset)[\s/>]`)

func sameTokens(t *testing.T, text []byte) {
	t.Helper()
	if contextual.Match(text) {
		return
	}
	if diff := cmp.Diff(collected(text, readByTokenizer), collected(text, readTokens)); diff != "" {
		t.Fatalf("readTokens differs from the tokenizer (-tokenizer +readTokens):\n%s\n%q", diff, text)
	}
}

// pieces are pieces of pages that are hard to read.
var pieces = strings.Split("<a href=|<A HREF='|<img src=\"|<area\nhref = |<link rel=canonical href=|<meta name=robots content=|"+
	"<script>|</script>|</SCRIPT |<script src=|<!--|-->|--!>|<!-->|<!--->|--|!|<!|<?|<!DOCTYPE html>|<![CDATA[|]]>|"+
	"<title>|</title>|<TITLE\t>|</svg>|<path a=|<path/>|<style>|</style>|<textarea>|</textarea>|<iframe src=x>|</iframe>|"+
	"<noscript>|</noscript>|<plaintext>|<xmp>|</xmp>|<noframes>|</noframes>|<noembed>|</noembed>|</|<|>|/>|/|=|'|\"| |\r\n|\r|\x00|"+
	"&amp;|&|&copy=1|&copy;|&notit;|&#38;|&#x26|&amp|a|b.html?x=1|#f| rel=nofollow | background=u|<td background=|<base href=|"+
	"<lin\u212A href=|<meta http-equiv=refresh content='0;url=|</a x='>'>|</svg a=\">\">|é|<ſcript>", "|")

// TestTokensEqualTokenizer compares readTokens with html.Tokenizer on texts
// that are not HTML at all.
func TestTokensEqualTokenizer(t *testing.T) {
	t.Logf("replay with -seed=%d", *seedFlag)
	dice := rand.New(rand.NewPCG(*seedFlag, 3))
	for range 50 * *pagesFlag {
		var text []byte
		for range 1 + dice.IntN(25) {
			text = append(text, pieces[dice.IntN(len(pieces))]...)
		}
		sameTokens(t, text)
	}
}

func FuzzTokens(f *testing.F) {
	for i := range len(pieces) {
		f.Add([]byte(strings.Join(pieces[i:min(i+8, len(pieces))], "")))
	}
	f.Fuzz(func(t *testing.T, text []byte) { sameTokens(t, text) })
}
