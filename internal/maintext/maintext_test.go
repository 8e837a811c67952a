package maintext_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/bloomfrontier/crawler/internal/maintext"
)

func parse(t testing.TB, text string) *html.Node {
	t.Helper()
	root, err := html.ParseWithOptions(strings.NewReader(text), html.ParseOptionEnableScripting(false))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

const (
	menu     = `<ul><li><a href=/>Home</a><li><a href=/a>All our articles</a><li><a href=/b>About</a></ul>`
	sentence = "The committee met on Tuesday and agreed, after a long debate, that the bridge will be built of stone and not of steel. "
	legal    = `<div><p>All rights reserved.</p><p><a href=/i>Imprint</a> <a href=/p>Privacy</a></p></div>`
)

var paragraph = strings.TrimSpace(strings.Repeat(sentence, 2))

// TestTextIsContent checks which parts of a page are content, with marks such as main and
// article and without them.
func TestTextIsContent(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"main element": {
			"<header>The Paper</header>" + menu + "<main><h1>A bridge</h1><p>" + paragraph + "</p><p>Short.</p></main><footer>" + legal + "</footer>",
			"A bridge\n" + paragraph + "\nShort.",
		},
		"role": {
			"<div role=navigation>" + paragraph + "</div><div role=main><p>" + paragraph + "</div>",
			paragraph,
		},
		"no marks": {
			menu + "<div><h2>A bridge</h2><div>" + paragraph + "</div><p>It is late.</p><p>" + paragraph + "</p></div>" + legal,
			"A bridge\n" + paragraph + "\nIt is late.\n" + paragraph,
		},
		"named": {
			"<div class='left main-menu'>" + paragraph + "</div><div id=content><p>" + strings.Repeat("<p>"+paragraph, 4) + "</div>",
			strings.Repeat(paragraph+"\n", 3) + paragraph,
		},
		"a frame with a name": {
			"<div class='page has-sidebar'><p>" + paragraph + "</p></div>",
			paragraph,
		},
		"teasers": {
			"<div><p>" + paragraph + "</p><p>" + paragraph + "</p></div><article><h3>One</h3></article><article><h3>Two</h3></article>",
			paragraph + "\n" + paragraph,
		},
		"hidden": {
			"<main><p>" + paragraph + "</p><p hidden>x</p><p style='display: none'>y</p><p aria-hidden=true>z</p><script>s</script><noscript>n</noscript></main>",
			paragraph,
		},
		"table and code": {
			"<main><p>" + paragraph + "</p><table><tr><th>a<th>b<tr><td>1<td>2</table><pre>\nif x {\n\ty()\n}\n</pre></main>",
			paragraph + "\na b\n1 2\nif x {\n\ty()\n}",
		},
		"short": {"<nav>Home</nav><p>Not here any more.", "Not here any more."},
		"links only": {
			"<div>" + strings.Repeat("<p><a href=x>"+paragraph+"</a></p>", 3) + "<p>" + paragraph + "</p><p>" + paragraph + "</div>",
			paragraph + "\n" + paragraph,
		},
		"Chinese":     {menu + "<p>" + strings.Repeat("委员会星期二开会，", 20) + "</p>", strings.Repeat("委员会星期二开会，", 20)},
		"line breaks": {"<main>" + strings.TrimSpace(sentence) + "<br>" + strings.TrimSpace(sentence) + "</main>", paragraph},
		"nothing":     {"", ""},
		"NUL":         {"<p>a&#0;b", "a\ufffdb"},
	} {
		if got := maintext.Extract(parse(t, "<!DOCTYPE html><body>"+c.page), nil); got.Text != c.want || got.Cut {
			t.Errorf("%s:\n%q, want\n%q", name, got.Text, c.want)
		}
	}
}

// TestWrappers: the text of a page is found although all of it is in an element that is usually
// something other than content. Menus and footers are left out as ever.
func TestWrappers(t *testing.T) {
	nav, foot := "<nav>"+menu+"</nav>", "<footer>"+legal+"</footer>"
	named := func(class string) string { return "<div class='" + class + "'>" + menu + "</div>" }
	content := "<h1>A bridge</h1><p>" + paragraph + "</p><p>Short.</p><p>" + paragraph + "</p>"
	want := "A bridge\n" + paragraph + "\nShort.\n" + paragraph
	login := "<form action=/login><label>Name</label> <input name=n> <label>Password</label> <input name=p> <button>Log in</button></form>"
	for _, c := range []struct{ page, source string }{
		{"<form method=post action=./ id=aspnetForm>" + nav + content + foot + "</form>", "ASP.NET WebForms: one form runat=server around the body"},
		{"<form id=form1><div id=header>" + menu + "</div><div id=content>" + content + "</div><div id=footer>" + legal + "</div></form>", "ASP.NET, with ids"},
		{"<form id=form1><table><tr><td>" + nav + "</td></tr><tr><td>" + content + "</td></tr></table>" + foot + "</form>", "SharePoint: a form and tables"},
		{"<form name=viewns><main>" + content + "</main>" + nav + "</form>", "JSF: h:form around the page"},
		{"<form><nav>" + menu + "</nav>" + login + content + "</form>", "a form in which the parser drops the second"},
		{login + content, "a form to log in"},
		{content + "<form action=/comment><label>Your comment</label><textarea>x</textarea></form>", "a form for comments"},
		{"<header>" + nav + content + "</header>", "a theme that never ends its header"},
		{"<header class=header-wrapper>" + content + "</header>" + foot, "a header around the page"},
		{"<div class=header-wrapper>" + nav + content + "</div>", "a class with a word of a header"},
		{"<div class=sidebar-right-layout>" + content + "<div class=sidebar>" + menu + "</div></div>", "a layout with a side bar"},
		{"<div id=page class='has-sidebar no-footer'>" + content + named("sidebar") + "</div>", "a layout with a side bar"},
		{"<nav>" + content + "</nav>", "a documentation in one nav"},
		{"<aside>" + content + "</aside>" + nav, "the article in an aside"},
		{"<footer>" + content + "<p>Imprint</p></footer>" + nav, "the article in a footer"},
		{"<div role=banner>" + content + "</div>", "a role around the page"},
		{"<div role=form>" + nav + content + "</div>", "a role around the page"},
		{"<div role=navigation>" + menu + "</div><div role=complementary>" + content + "</div>", "a role around the article"},
		{"<div hidden>" + content + "</div>", "a script shows the page"},
		{"<div style='display:none'>" + nav + content + "</div>", "a script shows the page"},
		{"<table><tr><td>" + nav + "<td>" + content + "</table>", "a table around the page"},
		{"<center><table><tr><td class=menu>" + menu + "</td></tr></table>" + content + "</center>", "a page of 1999"},
		{nav + "<main><form>" + content + "</form></main>" + foot, "a form around the content"},
		{nav + "<main>" + content + "</main><form>" + paragraph + paragraph + paragraph + paragraph + "</form>", "a long form beside a main element"},
		{"<form><form><header><nav><aside>" + content + "</aside></nav></header></form></form>", "everything at once"},
		{nav + nav + nav + nav + nav + content, "many menus"},
	} {
		got := maintext.Extract(parse(t, "<!DOCTYPE html><body>"+c.page), nil).Text
		if !strings.Contains(got, want) {
			t.Errorf("%s:\n%q, want in it\n%q", c.source, got, want)
		}
		for _, other := range []string{"All our articles", "Password", "All rights reserved"} {
			if strings.Contains(got, other) {
				t.Errorf("%s:\n%q has %q, which is no content", c.source, got, other)
			}
		}
	}
}

// TestLanguageAuthorDate: language, author and date are found in all places where pages
// give them.
func TestLanguageAuthorDate(t *testing.T) {
	for _, c := range []struct{ head, lang, author, published string }{
		{``, "", "", ""},
		{`<meta http-equiv=Content-Language content="de-AT, en">`, "de-AT", "", ""},
		{`<meta property=og:locale content=pt_BR>`, "pt-BR", "", ""},
		{`<meta http-equiv=content-language content="not a language!">`, "", "", ""},
		{`<meta name=author content="Ann  Bee"><meta name=author content="C. Dee"><meta name=Author content="Ann Bee">`, "", "Ann Bee, C. Dee", ""},
		{`<meta name=author content="https://example.org/ann">`, "", "", ""},
		{`<meta property=article:published_time content="2026-01-02T03:04:05+01:00">`, "", "", "2026-01-02T02:04:05Z"},
		{`<script type="application/ld+json">{"@type":"NewsArticle","author":[{"name":"Ann Bee"},{"name":"C. Dee"}],"datePublished":"2026-01-02"}</script>`, "", "Ann Bee, C. Dee", "2026-01-02"},
		{`<script type="application/ld+json">{"@graph":[{"@type":"WebPage","datePublished":"2026-01-02"}]}</script>`, "", "", "2026-01-02"},
		{`<meta name=date content="soon"><meta name=dc.date content=2026-01-02>`, "", "", "2026-01-02"},
	} {
		got := maintext.Extract(parse(t, "<head>"+c.head+"</head><p>x"), nil)
		if got.Lang != c.lang || got.Author != c.author || got.Published != c.published {
			t.Errorf("%s: %+v, want the language %q, author %q, date %q", c.head, got, c.lang, c.author, c.published)
		}
	}
	body := `<html lang=en><body><article itemscope itemtype="https://schema.org/Article"><b itemprop=author itemscope><i itemprop=name>Ann Bee</i></b>
		<time itemprop=datePublished datetime=2026-01-02>yesterday</time>` + paragraph + `</article>`
	if got := maintext.Extract(parse(t, body), nil); got.Lang != "en" || got.Author != "Ann Bee" || got.Published != "2026-01-02" {
		t.Errorf("microdata: %+v, want en, Ann Bee, 2026-01-02", got)
	}
	if got := maintext.Extract(parse(t, body), func() bool { return true }); got.Text == "" {
		t.Errorf("after giving up at once: %+v, want some text", got)
	}
}

// TestBoundsOfText: very large and strange pages are read in bounded memory, and the
// length of their text is bounded.
func TestBoundsOfText(t *testing.T) {
	const size = 256 << 10
	for _, piece := range []string{
		"<p>x</p>", "<div>x</div>", "<a href=x>y</a>", "<p><b><i>", "x<br>", "<li>x", "<td>x", "<pre>x\n</pre>", "<nav class='menu nav ad'>x</nav>",
		"x ", "\u4e2d", "<meta name=author content=x>", "<div class=nav>x</div>", "<p itemprop='author author' itemscope>x</p>", "<article><time datetime=x>y</time></article>", "<h1>x</h1>",
	} {
		root := parse(t, strings.Repeat(piece, size/len(piece)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		found := maintext.Extract(root, nil)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		taken := after.TotalAlloc - before.TotalAlloc
		t.Logf("%q: %v, %d MB allocated, %d bytes of text, cut %v",
			piece, took.Round(time.Millisecond), taken>>20, len(found.Text), found.Cut)
		if len(found.Text) > maintext.MaxTextBytes || taken > 128<<20 {
			t.Errorf("%q: %d bytes of text, want at most %d; %d MB allocated, want at most 128",
				piece, len(found.Text), maintext.MaxTextBytes, taken>>20)
		}
	}
	if found := maintext.Extract(parse(t, "<p>"+strings.Repeat("word ", 5<<20/5)), nil); !found.Cut {
		t.Error("the text of a page of 5 MB is not cut")
	}
}

func ExampleExtract() {
	root, _ := html.Parse(strings.NewReader(`<html lang=en><nav><a href=/>Home</a></nav><main><h1>A bridge</h1>
		<p>The committee met on Tuesday and agreed, after a long debate, that the bridge will be built of stone.</p></main>`))
	found := maintext.Extract(root, nil)
	fmt.Println(found.Lang)
	fmt.Println(found.Text)
	// Output:
	// en
	// A bridge
	// The committee met on Tuesday and agreed, after a long debate, that the bridge will be built of stone.
}
