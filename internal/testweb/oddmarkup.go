package testweb

import (
	"fmt"
	"strings"
)

// oddMarkup is a hardship: XML as XML parsers read it, encodings that are named late, headers that
// mean what an element means, and pages whose whole body is in one element.
var oddMarkup = hardship{
	bit: OddMarkup, name: "odd-markup",
	doc: "XHTML, late encodings, links and refreshes in headers, bodies in one element",
	corner: func(c *corners) {
		s := c.site("markup.odd.test")
		s.enter("/")
		add := func(name, contentType, text string) *resource {
			p := s.addListed("/" + name).withType(contentType)
			return p.document(p.titleOf(), []byte(strings.ReplaceAll(text, "TITLE", "<title>"+p.titleOf()+"</title>")))
		}
		const xhtml, namespace = "application/xhtml+xml", `xmlns="http://www.w3.org/1999/xhtml"`
		add("self-closing", xhtml, `<?xml version="1.0"?><html `+namespace+`><head>TITLE<script src="x.js"/></head><body><a href="/beside/self-closing"/></body></html>`)
		add("prefix", xhtml, `<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:head>TITLEX</h:head><h:body><h:a href="/beside/prefix">x</h:a></h:body></h:html>`)
		p := s.resources["/prefix"]
		p.document(p.titleOf(), []byte(strings.Replace(p.rawText(), "<title>"+p.titleOf()+"</title>X", "<h:title>"+p.titleOf()+"</h:title>", 1)))
		add("cdata", xhtml, `<html `+namespace+`><head>TITLE</head><body><![CDATA[<a href="/lost/cdata">x</a>]]><a href="/beside/cdata">x</a></body></html>`)
		s.pages("/beside/self-closing", "/beside/prefix", "/beside/cdata")

		const escaped = "/beside/caf%C3%A9-" // links in ISO 8859-1 name paths in UTF-8
		latin1 := func(name string) string { return "<a href=\"/beside/caf\xe9-" + name + "\">x</a>" }
		add("xml-declaration", "text/html", `<?xml version="1.0" encoding="ISO-8859-1"?><html><head>TITLE</head><body>`+latin1("xml-declaration")+"</body></html>")
		add("xhtml-declaration", xhtml, `<?xml version="1.0" encoding="ISO-8859-1"?><html `+namespace+`><head>TITLE</head><body>`+latin1("xhtml-declaration")+"</body></html>")
		add("late-meta", "text/html", "<!DOCTYPE html><html><head><!--"+strings.Repeat(" ", 1500)+"--><meta charset=iso-8859-1>TITLE</head><body>"+latin1("late-meta")+"</body></html>")
		s.pages(escaped+"xml-declaration", escaped+"xhtml-declaration", escaped+"late-meta")

		const base = `<!DOCTYPE html><html><head>TITLE<base href="/lost/"></head><body><p>There is more.</p></body></html>`
		add("refresh-header", contentHTML, strings.Replace(base, `<base href="/lost/">`, "", 1)).with("Refresh", "5; url=/beside/refresh-header")
		add("link-header", contentHTML, base).with("Link", `</x.css>; rel=preload, <beside/link-header>; title="a, b"; rel="next"`, `<beside/link-header-2>; rel=next`)
		add("link-anchor", contentHTML, base).with("Link", `</lost/link-anchor>; rel=next; anchor="/other"`)
		s.pages("/beside/refresh-header", "/beside/link-header", "/beside/link-header-2")

		for _, element := range []string{"form", "header", "nav", "aside", "footer", "table", "main"} {
			name := "whole-" + element
			const sentence = "The bridge will be built of stone."
			p := add(name, contentHTML, fmt.Sprintf("<!DOCTYPE html><html><head>TITLE</head><body><%[1]s><a href=/beside/%[2]s>x</a><p>%[3]s</p></%[1]s></body></html>",
				element, name, strings.Repeat(sentence+" ", 20)))
			p.want.Text = sentence
			s.pages("/beside/" + name)
		}
	},
}

// oddContexts has links, base elements, robots metas and titles where browsers ignore them. All
// links to /lost are ignored, and those to /beside are found.
func oddContexts(c *corners) {
	s := c.site("contexts.odd.test")
	s.enter("/")
	const lost = `<base href="/lost/"><meta name=robots content=nofollow><title>lost</title><link rel=canonical href="/lost/c"><a href="/lost/a">x</a>`
	for name, around := range inOrder(
		"template", "<template>LOST</template>", "nested-template", "<template><div><template>LOST</template></div></template>",
		"svg", `<svg><base href="/lost/"></base><title>lost</title></svg>`,
		"comment", "<!--LOST-->", "script", "<script>var x = '<a href=/lost/s>';</script>", "textarea", "<textarea>LOST</textarea>",
		"mustache", `<template><a href="/lost/{{id}}">x</a></template>`,
	) {
		p := s.addListed("/" + name)
		p.document(p.titleOf(), []byte("<!DOCTYPE html><html><head><title>"+p.titleOf()+"</title></head><body>"+strings.ReplaceAll(around, "LOST", lost)+
			`<a href="beside/`+name+`">x</a></body></html>`))
		s.pages("/beside/" + name)
	}
	p := s.addListed("/shadow-root")
	p.document(p.titleOf(), []byte("<!DOCTYPE html><html><head><title>"+p.titleOf()+`</title></head><body><div><template shadowrootmode=open><a href="/beside/shadow-root">x</a></template></div></body></html>`))
	s.pages("/beside/shadow-root")
}

// oddDates has calendars without an end, whose next date is too far away, and numbers that are no
// dates.
func oddDates(c *corners) {
	s := c.site("dates.odd.test")
	next := c.year + maxYearsAhead + 1
	s.enter("/", fmt.Sprintf("/about?statisticsYear=%d", next), fmt.Sprintf("/view?cal_d=1&cal_m=1&cal_y=%d", next), "/view?cal_d=1&cal_m=1&cal_y=1899",
		fmt.Sprintf("/view?month&time=%d", (next-1970)*31557600+86400), fmt.Sprintf("/view?time=%d", ((next-1970)*31557600+86400)*1000),
		fmt.Sprintf("/day?date=%d0101", next), fmt.Sprintf("/calendar/%d/01", next), fmt.Sprintf("/termine?datum=1.1.%d", next)).
		refuses("calendar", 8)
	numbers := []string{"/thread/5012/02", "/item/4711/12", "/part/2500-12", "/issue/3456-10", "/paper/1895-03-01/", "/item/20441207", "/call?from=4915112345678",
		"/talk?session_id=17", "/talk?session_id=18"}
	s.enter("/numbers", numbers...)
	s.pages(numbers...)
}

// oddSitemaps has sitemaps and feeds whose role shows only when they arrive.
func oddSitemaps(c *corners) {
	s := c.siteWithMaps("maps.odd.test", "/linked.xml", "/named.html", "/rss.xml", "/atom.xml", "/atom03.xml")
	s.sitemap("/linked.xml", urlsetOf(s.at("/only/linked"))) // a page links to it first
	c.entry(s.at("/linked.xml"))
	s.page("/named.html", "/beside/named").limit = maxSitemapBytes
	s.sitemap("/rss.xml", `<?xml version="1.0"?><rss version="2.0"><channel><title>t</title><link>`+s.at("/")+`</link>`+
		`<item><title>x</title><link>`+s.at("/only/rss")+`</link></item></channel></rss>`).withType("application/rss+xml")
	s.sitemap("/atom.xml", `<feed xmlns="http://www.w3.org/2005/Atom"><title>t</title><entry><link rel="alternate" href="`+s.at("/only/atom")+`"/></entry></feed>`).
		withType("application/atom+xml")
	s.sitemap("/atom03.xml", `<feed version="0.3" xmlns="http://purl.org/atom/ns#"><entry><link rel="alternate" type="text/html" href="`+s.at("/only/atom03")+`"/></entry></feed>`)
	s.pages("/only/linked", "/beside/named", "/only/rss", "/only/atom", "/only/atom03")
}
