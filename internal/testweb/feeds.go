package testweb

import (
	"fmt"
	"strings"
)

// feeds is a hardship: pages that only feeds name. With this hardship, a correct crawl reads
// the feeds to which pages link, and requests the pages of their items. It is in no set,
// because a crawl without feeds is correct, too.
var feeds = hardship{
	bit: Feeds, name: "feeds",
	doc: "RSS and Atom feeds of all kinds, and pages that only they name: for crawls with --feeds",
	corner: func(c *corners) {
		s := c.site("feeds.corner.test")
		s.enter("/")
		s.feed("/rss", "application/rss+xml", `<rss version="2.0"><channel><title>t</title><link>/decoy/channel</link>`+
			items("<link>"+s.at("/item/rss")+"</link>", "<link>\n /item/rss2 </link><guid isPermaLink='false'>/decoy/guid</guid>",
				"<link><![CDATA[/item/rss3?a&b]]></link><enclosure url='/decoy/talk.mp3' type='audio/mpeg'/>",
				"<description>&lt;a href='/decoy/description'>x&lt;/a></description>")+"</channel></rss>")
		s.pages("/item/rss", "/item/rss2", "/item/rss3?a&b")

		s.feed("/old", "text/xml", `<rss version="0.91"><channel>`+items("<link>/item/old</link>")+"</channel></rss>")
		s.feed("/rdf", "application/rdf+xml", `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">`+
			`<channel rdf:about="/decoy/about"><link>/decoy/channel</link></channel>`+items("<link>/item/rdf</link>")+"</rdf:RDF>")
		s.pages("/item/old", "/item/rdf")

		const atom = `<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/item/atom/">`
		s.feed("/atom", "text/html", atom+`<link rel="self" href="/decoy/self"/><link rel="alternate" href="/decoy/home"/><link rel="next" href="/atom?page=2"/>`+
			`<entry xml:base="deep/"><link href="er"/></entry><entry><link rel="edit" href="/decoy/edit"/><link rel="alternate" href="alternate"/>`+
			`<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><a href="/decoy/content">x</a></div></content></entry></feed>`)
		s.feed("/atom?page=2", "text/plain", atom+`<entry><link href="last"/></entry></feed>`)
		s.pages("/item/atom/deep/er", "/item/atom/alternate", "/item/atom/last")

		s.feed("/packed", "application/gzip", string(gzipOf([]byte("<rss><channel>"+items("<link>/item/packed</link>")+"</channel></rss>"))))
		s.feed("/latin", "application/xml", `<?xml version="1.0" encoding="windows-1252"?><rss><channel>`+items("<link>/item/caf\xe9</link>")+"</channel></rss>")
		s.pages("/item/packed", "/item/caf%C3%A9")

		s.feed("/cut", "application/rss+xml", "<rss><channel>"+items("<link>/item/cut</link>")+"<item><link>/decoy/cut")
		s.pages("/item/cut")
		s.feed("/no-feed", "application/xml", "<root>"+items("<link>/decoy/root</link>")+"</root>").expects("type", 200)
		s.feed("/nofollow", "application/rss+xml", "<rss><channel>"+items("<link>/decoy/nofollow</link>")+"</channel></rss>").
			refuses("nofollow", 1).header.Set("X-Robots-Tag", "nofollow")
	},
}

// feed adds a feed to which the root page of the site links.
func (s *site) feed(path, contentType, text string) *resource {
	p := s.addListed(path).body([]byte(text)).withType(contentType)
	p.want.Title = "" // records have the titles of pages of HTML only
	return p
}

// items returns an <item> for each text.
func items(texts ...string) string {
	var b strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&b, "<item><title>x</title>%s</item>\n", text)
	}
	return b.String()
}
