package extract

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

const pageURL = "https://www.example.org/dir/page.html?x=1"

// read reads a body that was served from pageURL.
func read(t *testing.T, body, contentType string, opt Options) *Page {
	t.Helper()
	opt.Canon = testCanon(t)
	return HTML([]byte(body), contentType, testURL(t, pageURL), opt)
}

// lines returns the links of a page as text: "a https://… nofollow".
func lines(p *Page) string {
	var b strings.Builder
	for _, l := range p.Links {
		fmt.Fprintf(&b, "%v %s", l.Kind, strings.TrimPrefix(l.URL.String(), "https://www.example.org"))
		if l.Nofollow {
			b.WriteString(" nofollow")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// summary returns everything else about a page as text.
func summary(p *Page) string {
	return fmt.Sprintf("title %q, charset %s, base %s, canonical %q, nofollow %t, many %d",
		p.Title, p.Charset, p.Base, p.Canonical, p.Nofollow, p.TooMany)
}

func TestLinksOfPage(t *testing.T) {
	tests := []struct {
		name, body, want string
		assets           bool
	}{
		{name: "navigational", body: `<a href=a>x</a><map><area href=b></map><iframe src=c></iframe><a name=d><a href>`,
			want: "a /dir/a\narea /dir/b\nframe /dir/c\n"},
		{name: "frameset", body: `<html><frameset><frame src=a><frame src=b></frameset></html>`,
			want: "frame /dir/a\nframe /dir/b\n"},
		{name: "no assets unless asked", want: "link /dir/n\na /dir/a\n",
			body: `<link rel=next href=n><link rel=icon href=no><link rel=canonical href=no><link imagesrcset=no><body background=no><img src=i><script src=s></script><a href=a>`},
		{name: "links to pages", body: `<link rel=prev href=1><link rel="Alternate" hreflang=de href=2><link rel=alternate type="text/HTML; charset=x" href=3>
			<link rel=alternate type=application/rss+xml href=no><link rel="alternate stylesheet" href=no><link rel="license me" href=4 >
			<link rel=search type=application/opensearchdescription+xml href=no><link rel="up nofollow" href=5><link rel="prefetch next" href=6><link rel=next>`,
			want: "link /dir/1\nlink /dir/2\nlink /dir/3\nlink /dir/4\nlink /dir/5 nofollow\nlink /dir/6\n"},
		{name: "references that are no links", body: `<form action=1><button formaction=2></button></form><iframe srcdoc="<a href=3>"></iframe><div style="background:url(4)">`,
			want: "", assets: true},
		{name: "old backgrounds", body: `<body background=1><table background=2><tr><th background=3><td background=4></table>`, assets: true,
			want: "img /dir/1\nimg /dir/2\nimg /dir/3\nimg /dir/4\n"},
		{name: "image sets of links", body: `<link rel=preload as=image imagesrcset="1 1x, 2 2x" href=3>`, assets: true,
			want: "img /dir/1\nimg /dir/2\nresource /dir/3\n"},
		{name: "assets", assets: true, body: `<link rel=next href=1><link rel=stylesheet href=2><link rel="shortcut icon" href=3>
			<link rel=preconnect href=/no><link rel=canonical href=/no><link rel=preload href=4><link rel=modulepreload href=5><link href=6>
			<script src=7></script><img src=8 srcset="9 1x, 10 2x"><video src=11 poster=12><source src=13><track src=14></video>
			<audio src=15></audio><picture><source srcset=16></picture><embed src=17><object data=18></object>
			<input type=IMAGE src=19><input src=no><svg><image xlink:href=20 /></svg><a href=21>`,
			want: "link /dir/1\nstylesheet /dir/2\nimg /dir/3\nresource /dir/4\nscript /dir/5\nresource /dir/6\nscript /dir/7\n" +
				"img /dir/8\nimg /dir/9\nimg /dir/10\nmedia /dir/11\nimg /dir/12\nmedia /dir/13\nmedia /dir/14\nmedia /dir/15\n" +
				"img /dir/16\nobject /dir/17\nobject /dir/18\nimg /dir/19\nimg /dir/20\na /dir/21\n"},
		{name: "distinct by canonical URL", body: `<a href=a><a href=A/../a><a href="a#x"><a href="./a?utm_source=q"><a href=b><a href=a>`,
			want: "a /dir/a\na /dir/b\n"},
		{name: "the most navigational kind", assets: true, body: `<img src=a><img src=b><a href=b><img src=c><a href=./c>`,
			want: "img /dir/a\na /dir/b\na /dir/c\n"},
		{name: "nofollow only if all links have it", body: `<a href=a rel=nofollow><a href=b rel="me NoFollow"><a href=b><a href=c rel=ugc><a href="d" rel=nofollow><a href="./d#x"><a href=e><a href=e rel=nofollow>`,
			want: "a /dir/a nofollow\na /dir/b\na /dir/c\na /dir/d\na /dir/e\n"},
		{name: "the page itself is no link", body: `<a href="#top"><a href=""><a href=" #x "><a href=page.html><a href="?x=1">`,
			want: "a /dir/page.html\na /dir/page.html?x=1\n"},
		{name: "base", body: `<a href=a><base href="/other/"><base href="/no/"><a href="b"><a href="#c">`,
			want: "a /other/a\na /other/b\na /other/\n"},
		{name: "base of another host", body: `<base href="//h.example"><a href=a>`, want: "a https://h.example/a\n"},
		{name: "base that is no http URL", body: `<base href="data:,x"><a href=a>`, want: "a /dir/a\n"},
		{name: "base without href", body: `<base target=x><base href=/y/><a href=a>`, want: "a /y/a\n"},
		{name: "refresh", body: `<meta http-equiv=Refresh content="5; URL='next.html'"><meta http-equiv=refresh content="0;url=no2"><a href=a>`,
			want: "refresh /dir/next.html\nrefresh /dir/no2\na /dir/a\n"},
		{name: "entities and odd spelling", body: "<A HREF='a?b=1&amp;c=2'><a\nhref = \" d\n\" ><a href=e&eacute;><a href='f' href='no'>",
			want: "a /dir/a?b=1&c=2\na /dir/d\na /dir/e%C3%A9\na /dir/f\n"},
		{name: "places that have no links", body: `<!-- <a href=1> --><script>"<a href=2>"</script><style><a href=3></style><textarea><a href=4></textarea><title><a href=5></title><a href=6>`,
			want: "a /dir/6\n"},
		{name: "noscript is read", body: `<head><noscript><link rel=x href=l></noscript></head><noscript><a href=a><img src=i></noscript>`,
			want: "resource /dir/l\na /dir/a\nimg /dir/i\n", assets: true},
		{name: "in svg", body: `<svg><a xlink:href=a></a><a xlink:href=no href=b rel=nofollow></a><a href=c xlink:href=no></a></svg>`,
			want: "a /dir/a\na /dir/b nofollow\na /dir/c\n"},
		{name: "attribute of svg in HTML", body: `<a xlink:href=no></a><a xlink:href=no href=a></a>`, want: "a /dir/a\n"},
		{name: "files in svg", body: `<svg><image href=a /><image xlink:href=b src=no /><script href=c /><img src=d></svg><image src=e href=no>`,
			assets: true, want: "img /dir/a\nimg /dir/b\nscript /dir/c\nimg /dir/d\nimg /dir/e\n"},
		{name: "cut body", body: `<a href=a>x</a><a href="b`, want: "a /dir/a\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			page := read(t, test.body, "text/html; charset=utf-8", Options{Assets: test.assets})
			if diff := cmp.Diff(test.want, lines(page)); diff != "" {
				t.Errorf("links (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusedReferencesAreCountedOnce(t *testing.T) {
	long := strings.Repeat("x", 9000)
	body := `<a href="mailto:a@b"><a href="mailto:a@b"><a href="javascript:void(0)"><a href="http://[">` +
		`<a href="http://["><a href="/` + long + `"><a href=ok>`
	scheme, malformed, tooLong := 0, 0, 0
	count := func(_ string, err error) {
		switch {
		case errors.Is(err, canon.ErrScheme):
			scheme++
		case errors.Is(err, canon.ErrTooLong):
			tooLong++
		default:
			malformed++
		}
	}
	if p := read(t, body, "text/html", Options{OnRefused: count}); len(p.Links) != 1 || p.TooMany != 0 {
		t.Errorf("%d links, %s, want 1 link, none too many", len(p.Links), summary(p))
	}
	if scheme != 2 || malformed != 1 || tooLong != 1 {
		t.Errorf("refused references: %d for their scheme, %d malformed, %d too long, want 2, 1, 1",
			scheme, malformed, tooLong)
	}
	scheme = 0
	if p := read(t, body, "text/html", Options{MaxLinks: 2, OnRefused: count}); p.TooMany != 4 || len(p.Links) != 0 {
		t.Errorf("%d links, %s, want no link, 4 too many", len(p.Links), summary(p))
	}
	if scheme != 2 {
		t.Errorf("%d references refused for their scheme, want 2", scheme)
	}
}

// TestLongBase: the total length of the URLs that a page names is limited too.
func TestLongBase(t *testing.T) {
	var body strings.Builder
	body.WriteString("<base href='/" + strings.Repeat("x", 8000) + "/'>")
	for i := range 10_000 {
		fmt.Fprintf(&body, "<a href=%d>", i)
	}
	page := read(t, body.String(), "text/html", Options{})
	length := 0
	for _, l := range page.Links {
		length += len(l.URL.String())
	}
	if n := len(page.Links); n+page.TooMany != 10_000 || length > MaxLinkBytes+10_000 || length < MaxLinkBytes-10_000 {
		t.Errorf("%d links of %d bytes, %d too many, want about %d bytes", n, length, page.TooMany, MaxLinkBytes)
	}
}

func TestPageFacts(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"title", "<title>\n a &amp;\t b\xff </title><title>no</title>", `title "a & b` + "\ufffd" + `",`},
		{"no title of a drawing", "<svg><title>no</title></svg><title>yes</title>", `title "yes",`},
		{"title after an empty drawing", "<svg/><title>yes</title>", `title "yes",`},
		{"title after empty drawings in a drawing", `<svg><SVG id="x" /><svg/></svg><title>yes</title>`, `title "yes",`},
		{"title after an empty formula", "<math/><title>yes</title>", `title "yes",`},
		{"slash in a value of a drawing", "<svg id=x/><title>no</title></svg><title>yes</title>", `title "yes",`},
		{"long title", "<title>" + strings.Repeat("ä", 600) + "</title>", `title "` + strings.Repeat("ä", 512) + `",`},
		{"canonical", `<link rel="x Canonical" href="/c?utm_source=1#x"><link rel=canonical href=/no>`, `canonical "https://www.example.org/c",`},
		{"canonical behind base", `<link rel=canonical href=c><base href=/d/>`, `canonical "https://www.example.org/d/c",`},
		{"nofollow", `<meta name=Robots content="noarchive, NOFOLLOW">`, "nofollow true"},
		{"noindex", `<meta name=robots content=noindex>`, "nofollow false"},
		{"none", `<meta name=robots content=none>`, "nofollow true"},
		{"our own robots tag", `<meta name=foobot content=nofollow><meta name=robots content=noindex>`, "nofollow true"},
		{"other robots", `<meta name=otherbot content=none><meta content=none><meta name=robots>`, "nofollow false"},
		{"base", `<base href="b/">`, "base https://www.example.org/dir/b/,"},
	} {
		page := read(t, test.body, "text/html; charset=utf-8", Options{ProductToken: "FooBot"})
		if got := summary(page); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestCharsetOfBody(t *testing.T) {
	utf16 := "\xff\xfe" + strings.Join(strings.Split("<a href='?q=%E4'><title>x</title>", ""), "\x00") + "\x00"
	tests := []struct {
		name, contentType, body, charset, title, link string
	}{
		{"header", "text/html; charset=windows-1251", "<title>\xe4\xe0</title><a href='/\xe4?q=\xe4\xe0\u0020b'>", "windows-1251", "да", "/%D0%B4?q=%E4%E0%20b"},
		{"header with a malformed parameter", "text/html; charset=windows-1251; x", "<title>\xe4\xe0</title>", "windows-1251", "да", ""},
		{"header with an empty parameter", `text/html;; Charset="windows-1251"`, "<title>\xe4\xe0</title>", "windows-1251", "да", ""},
		{"two charsets", "text/html; charset=windows-1251; charset=utf-8", "<title>\xe4\xe0</title>", "windows-1251", "да", ""},
		{"mark before header", "text/html; charset=windows-1251", "\xef\xbb\xbf<title>да</title>", "utf-8", "да", ""},
		{"header before meta", "text/html; charset=utf-8", "<meta charset=koi8-r><title>да</title>", "utf-8", "да", ""},
		{"meta", "text/html", "<meta charset=koi8-r><title>\xc4\xc1</title><a href='?\xc4'>", "koi8-r", "да", "/dir/page.html?%C4"},
		{"second bytes that are ASCII", "text/html; charset=shift_jis", "<title>\x96\x7b</title><a href='?\x96\x7b'>", "shift_jis", "本", "/dir/page.html?%96{"},
		{"http-equiv", "", "<meta http-equiv=content-type content='text/html; charset=shift_jis'><title>\x93\xfa</title><a href='?\x93\xfa'>", "shift_jis", "日", "/dir/page.html?%93%FA"},
		{"what the charset lacks", "text/html; charset=iso-8859-1", "<a href='?&#960;'>", "windows-1252", "", "/dir/page.html?%26%23960%3B"},
		{"none, but UTF-8", "text/html", "<title>да</title><a href='?ä'>", "utf-8", "да", "/dir/page.html?%C3%A4"},
		{"none, late UTF-8", "text/html", strings.Repeat(" ", 2000) + "<title>да</title>", "utf-8", "да", ""},
		{"the word, late UTF-8", "text/html", "<!-- charset -->" + strings.Repeat(" ", 2000) + "<title>да</title>", "utf-8", "да", ""},
		{"of a script, late UTF-8", "text/html", "<script charset=latin1 src=x></script>" + strings.Repeat(" ", 2000) + "<title>да</title>", "utf-8", "да", ""},
		{"declared, late UTF-8", "text/html", "<meta charset=latin1>" + strings.Repeat(" ", 2000) + "<title>ä</title>", "windows-1252", "Ã¤", ""},
		{"none, not UTF-8", "text/html", "<title>\xe4</title><a href='?\xe4'>", "windows-1252", "ä", "/dir/page.html?%E4"},
		{"none, ASCII", "text/html", "<title>a</title>", "utf-8", "a", ""},
		{"declared, though UTF-8", "text/html", "<meta charset=latin1><title>ä</title>", "windows-1252", "Ã¤", ""},
		{"unknown", "text/html; charset=martian", "<title>да</title>", "utf-8", "да", ""},
		{"replacement", "text/html; charset=iso-2022-kr", "<title>a</title><a href=/b>", "utf-8", "a", "/b"},
		{"utf-16", "text/html", utf16, "utf-16le", "x", "/dir/page.html?q=%E4"},
		{"iso-2022-jp", "text/html; charset=iso-2022-jp", "<title>\x1b$BF|\x1b(B</title>", "iso-2022-jp", "日", ""},
	}
	for _, test := range tests {
		page, link := read(t, test.body, test.contentType, Options{}), ""
		if len(page.Links) > 0 {
			link = strings.TrimPrefix(page.Links[0].URL.String(), "https://www.example.org")
		}
		if page.Charset != test.charset || page.Title != test.title || link != test.link {
			t.Errorf("%s: charset %q, title %q, link %q, want %q, %q, %q", test.name,
				page.Charset, page.Title, link, test.charset, test.title, test.link)
		}
	}
}

func TestDeepPageLosesNoLink(t *testing.T) {
	var body strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&body, "<div><a href=%d>", i)
	}
	page := read(t, body.String(), "text/html", Options{})
	if page.Lack != LacksNothing || len(page.Links) != 5000 {
		t.Errorf("lack %v, %d links, want LacksNothing, 5000", page.Lack, len(page.Links))
	}
	if n := page.Document().Find("a").Length(); n != 0 || page.Lack != TooDeep {
		t.Errorf("the document of a deep page has %d links, lack %v, want none, TooDeep", n, page.Lack)
	}
}

func TestDocumentIsParsedOnce(t *testing.T) {
	page := read(t, "<p>a<p>b<noscript><p>c</noscript>", "text/html", Options{})
	document := page.Document()
	if n := document.Find("p").Length(); n != 3 {
		t.Errorf("%d paragraphs, want 3", n)
	}
	if page.Document() != document {
		t.Error("the second call of Document returned another document")
	}
}

func TestEmptyBody(t *testing.T) {
	if p := HTML(nil, "", testURL(t, pageURL), Options{Canon: testCanon(t)}); len(p.Links) != 0 {
		t.Errorf("an empty body has %d links", len(p.Links))
	}
}

// TestLateFiles: with Assets, the attributes count that scripts for late loading copy to src, srcset
// and poster. The names are those that the documents of each script give.
func TestLateFiles(t *testing.T) {
	for _, c := range []struct{ script, body, want string }{
		{"lazysizes", `<img class=lazyload src=p.gif data-src=a.jpg data-srcset="b.jpg 1x, c.jpg 2x" data-sizes=auto>`, "img a.jpg, img b.jpg, img c.jpg, img p.gif"},
		{"lazysizes, picture", `<picture><source data-srcset="a.webp 1x" type=image/webp><img data-src=b.jpg></picture>`, "img a.webp, img b.jpg"},
		{"vanilla-lazyload, video", `<video data-poster=a.jpg data-src=b.mp4><source data-src=c.mp4></video>`, "img a.jpg, media b.mp4, media c.mp4"},
		{"lozad, audio", `<audio data-src=a.mp3></audio>`, "media a.mp3"},
		{"WP Rocket, Jetpack", `<img src="data:image/gif;base64,R0" data-lazy-src=a.jpg data-lazy-srcset="b.jpg 2x">`, "img a.jpg, img b.jpg"},
		{"Lazy Load for jQuery", `<img data-original=a.jpg>`, "img a.jpg"},
		{"slick", `<img data-lazy=a.jpg>`, "img a.jpg"},
		{"Flickity", `<img data-flickity-lazyload=a.jpg><img data-flickity-lazyload-src=b.jpg data-flickity-lazyload-srcset="c.jpg 2x">`, "img a.jpg, img b.jpg, img c.jpg"},
		{"unveil", `<img src=p.gif data-src=a.jpg data-src-retina=b.jpg>`, "img a.jpg, img b.jpg, img p.gif"},
		{"echo, Mirage, Slider Revolution", `<img data-echo=a.jpg><img data-cfsrc=b.jpg><img data-lazyload=c.jpg>`, "img a.jpg, img b.jpg, img c.jpg"},
		{"switches", `<img data-lazy=true data-lazyload=1 data-original="" data-id=a.jpg data-large=a.jpg src=a.jpg>`, "img a.jpg"},
		{"other elements", `<div data-src=no.jpg><a data-src=no.jpg href=a.jpg>x</a><iframe data-src=no.html></iframe><script data-src=no.js></script>`, "a a.jpg"},
		{"template", `<template><img data-src=no.jpg></template>`, ""},
	} {
		for _, assets := range []bool{true, false} {
			var found []string
			for _, l := range read(t, c.body, "text/html", Options{Assets: assets}).Links {
				found = append(found, l.Kind.String()+" "+path.Base(l.URL.String()))
			}
			slices.Sort(found)
			want := c.want
			if !assets && !strings.HasPrefix(want, "a ") {
				want = ""
			}
			if got := strings.Join(found, ", "); got != want {
				t.Errorf("%s, assets %t: %s, want %s", c.script, assets, got, want)
			}
		}
	}
}

// TestLinksToFeeds: with Feeds, feeds that a page names are followed, and other data is not.
func TestLinksToFeeds(t *testing.T) {
	const body = `<link rel="alternate" type="application/rss+xml" href="a"><link rel="ALTERNATE home" type="Application/Atom+XML; x=y" href="b">
<link rel=alternate type=application/rdf+xml href=no><link rel=alternate type=text/xml href=no><link rel=search type=application/atom+xml href=no>
<link rel=alternate type=application/json href=no><link rel=alternate href=c>`
	for feeds, want := range map[bool]int{true: 3, false: 1} {
		if got := len(read(t, body, "text/html", Options{Feeds: feeds}).Links); got != want {
			t.Errorf("feeds %t: %d links, want %d", feeds, got, want)
		}
	}
}
