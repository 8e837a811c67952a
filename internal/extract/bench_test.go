package extract

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// typicalPage is a page of 14 KB with 60 links, 50 of them distinct.
func typicalPage() []byte {
	var b strings.Builder
	b.WriteString(`<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>A typical page</title>
<link rel="stylesheet" href="/style.css"><link rel="canonical" href="https://www.example.org/docs/a/page.html">
<script src="/app.js"></script><script>if (a < b) { document.write("<a href=no>no</a>") }</script></head><body><nav>`)
	for i := range 10 {
		fmt.Fprintf(&b, `<li class="menu-item"><a class="menu-link" href="/section-%d/">Section %d</a></li>`, i, i)
	}
	b.WriteString("</nav><main>")
	for i := range 30 {
		fmt.Fprintf(&b, `<h2 id="s%d">Heading %d</h2><p class="text">Some words that mean <em>little</em> &amp; fill the page,
with <a href="../b/page-%d.html?view=full&amp;n=%d#part">one link</a>, <code>some_code(%d)</code> and more of the text that
pages are made of, for this is what most of the bytes of a page really are in the wild, whatever else they may hold, and <img src="/img/%d.png" alt="x"> pictures too.</p>
`, i, i, i, i, i, i)
	}
	b.WriteString("</main><footer>")
	for i := range 10 {
		fmt.Fprintf(&b, `<a href="https://www.example.org/about/%d">About</a> <a href="/section-%d/">again</a> `, i, i)
	}
	b.WriteString("</footer></body></html>")
	return []byte(b.String())
}

func testCanon(t testing.TB) *canon.Canonicalizer {
	t.Helper()
	c, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func testURL(t testing.TB, raw string) canon.URL {
	t.Helper()
	u, err := testCanon(t).Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// BenchmarkHTML reports the time of each stage of reading a page.
func BenchmarkHTML(b *testing.B) {
	body := typicalPage()
	base := testURL(b, "https://www.example.org/docs/a/page.html")
	opt := Options{Canon: testCanon(b)}
	stages := []struct {
		name string
		run  func()
	}{
		{"decode", func() { charset, _ := charsetOf(body, "text/html; charset=utf-8"); decode(body, charset, nil) }},
		{"weigh", func() { weigh(body) }},
		{"parse", func() { _, _ = html.Parse(bytes.NewReader(body)) }},
		{"tokens", func() { readTokens(body, newCollector(opt)) }},
		{"tokens-finish", func() {
			found := newCollector(opt)
			readTokens(body, found)
			found.finish(&Page{}, base, nil)
		}},
		{"all", func() { _ = HTML(body, "text/html; charset=utf-8", base, opt) }},
		{"all-texts", func() {
			texts := opt
			texts.LinkTexts = true
			_ = HTML(body, "text/html; charset=utf-8", base, texts)
		}},
		{"all-document", func() { HTML(body, "text/html; charset=utf-8", base, opt).Document() }},
	}
	for _, stage := range stages {
		b.Run("stage="+stage.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				stage.run()
			}
		})
	}
}

// BenchmarkQueries reads a page of a megabyte whose links have long queries, in
// ASCII and in other charsets. The number of characters is the same in each
// charset.
func BenchmarkQueries(b *testing.B) {
	base := testURL(b, "https://www.example.org/docs/a/page.html")
	for _, bench := range []struct{ charset, word string }{
		{"us-ascii", "perechen"},
		{"windows-1251", "\xef\xe5\xf0\xe5\xf7\xe5\xed\xfc"},
		{"iso-8859-1", "\xe4\xf6\xfc\xdf\xe9\xe8\xe0\xe7"},
		{"gb18030", "\xd6\xd0\xb9\xfa\xc8\xcb\xc3\xf1"},
		{"shift_jis", "\x93\xfa\x96\x7b\x8c\xea\x8e\x96"},
		{"iso-2022-jp", "\x1b$BF|K\\\x1b(B"},
	} {
		var body bytes.Buffer
		for i := 0; body.Len() < 1<<20; i++ {
			fmt.Fprintf(&body, "<a href='?q=%d+%s'>x</a>\n", i, strings.Repeat(bench.word, 12))
		}
		b.Run("charset="+bench.charset, func(b *testing.B) {
			opt := Options{Canon: testCanon(b)}
			b.ReportAllocs()
			b.SetBytes(int64(body.Len()))
			for b.Loop() {
				_ = HTML(body.Bytes(), "text/html; charset="+bench.charset, base, opt)
			}
		})
	}
}
