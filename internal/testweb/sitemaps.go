package testweb

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
)

// sitemaps is a hardship: pages that only sitemaps name. There are indexes inside
// indexes, and sitemaps that are compressed, in plain text, broken, on another host, or with
// URLs of other hosts. With this hardship, a correct crawl reads sitemaps. It is allowed to look for sitemaps of hosts that have none.
var sitemaps = hardship{
	bit: Sitemaps, name: "sitemaps",
	doc: "sitemaps of all kinds, and pages that only they name: for crawls with --sitemaps",
	corner: func(c *corners) {
		c.site("sitemaps.test").add("/all.xml", optional).html().expects("client_error", 404).status = 404 // two robots.txt files name it

		s := c.siteWithMaps("maps-named.corner.test", "/maps/index.xml", "/list.txt")
		s.sitemap("/maps/index.xml", indexOf(s.at("/maps/inner.xml"), s.at("/maps/b.xml.gz")))
		s.sitemap("/maps/inner.xml", indexOf(s.at("/maps/a.xml")))
		s.sitemap("/maps/a.xml", urlsetOf(s.at("/only/a"), s.at("/only/a?x=1&y=2"), s.at("/closed")))
		s.sitemap("/maps/b.xml.gz", string(gzipOf([]byte(urlsetOf(s.at("/only/b")))))).withType("application/gzip")
		s.sitemap("/list.txt", "\ufeff"+s.at("/only/c")+"\r\n\r\n"+s.at("/only/d")).withType("text/plain")
		s.pages("/only/a", "/only/a?x=1&y=2", "/only/b", "/only/c", "/only/d")
		s.addClosed("/closed")

		s = c.site("maps-place.corner.test")
		s.enter("/")
		s.sitemap("/sitemap.xml", `<?xml version="1.0"?><sm:urlset xmlns:sm="http://www.sitemaps.org/schemas/sitemap/0.9"><sm:url><sm:loc><![CDATA[ `+
			s.at("/only/place?a&b")+" ]]></sm:loc></sm:url></sm:urlset>").withType("text/html")
		s.pages("/only/place?a&b")

		abroad, store := c.site("maps-abroad.corner.test"), c.site("maps-store.corner.test")
		abroad.robots("User-agent: *\nAllow: /\nsitemap: " + store.at("/abroad.xml") + "\n")
		abroad.enter("/")
		store.sitemap("/abroad.xml", urlsetOf(abroad.at("/only/abroad"), store.at("/only/store"), "ftp://maps-store.corner.test/decoy", "http://[::1"))
		store.resources["/abroad.xml"].refuses("scheme", 1).refuses("malformed", 1)
		abroad.pages("/only/abroad")
		store.pages("/only/store")

		s = c.siteWithMaps("maps-broken.corner.test", "/broken.xml", "/cut.xml", "/none.xml", "/gone.xml")
		s.sitemap("/broken.xml", "<urlset><url><loc>"+s.at("/only/broken1")+"</loc>\n</lost><<& &undefined; \x00\xff<url>"+
			"<loc>"+s.at("/only/broken2")+"</loc></url>\n<b><!-- <url><loc>"+s.at("/decoy")+"</loc></url>")
		s.sitemap("/cut.xml", "<urlset><url><loc>"+s.at("/only/cut")+"</loc></url><url><loc>"+s.at("/decoy"))
		s.page("/none.xml", "/only/named") // what arrives is a page, whatever robots.txt calls it
		s.missing("/gone.xml")
		s.pages("/only/broken1", "/only/broken2", "/only/cut", "/only/named")
	},
}

// largeSitemaps is a hardship: sitemaps of which a correct crawl reads only a part, up to 50 MB.
// Reading them takes longer than all other corners. They are made only together with the hardship Sitemaps.
var largeSitemaps = hardship{
	bit: LargeSitemaps, name: "large-sitemaps",
	doc: "with sitemaps: some with too many entries, some that are endless, or 1.1 GB when unpacked",
	corner: func(c *corners) {
		if !c.sitemaps {
			return
		}
		s := c.siteWithMaps("maps-many.corner.test", "/many.xml", "/endless.xml")
		many := s.sitemap("/many.xml", "").stream(func(out io.Writer) error { return s.manyEntries(out) })
		many.refuses("too_many", 1).limit = maxSitemapBytes
		begin := strings.TrimSuffix(urlsetOf(s.at("/only/before")), "</urlset>\n")
		s.sitemap("/endless.xml", "").stream(func(out io.Writer) error {
			return endlessly(out, begin, "<url><loc>"+s.at("/")+"</loc></url>\n")
		}).want.isRead = false // crawlers can stop at different points
		s.pages("/only/first", "/only/last", "/only/before")
		s.trap = func(path string) *resource {
			if path == "/only/beyond" {
				return newResource().html()
			}
			return nil
		}

		bomb := c.siteWithMaps("maps-bomb.corner.test", "/bomb.xml.gz")
		entry := []byte(strings.TrimSuffix(urlsetOf(bomb.at("/only/bomb")), "</urlset>\n"))
		bomb.sitemap("/bomb.xml.gz", "").withType("application/gzip").stream(func(out io.Writer) error { return gzipBomb(entry, out) })
		bomb.pages("/only/bomb")
	},
}

// The limits of one sitemap (sitemaps.org). A correct crawl ignores what is beyond
// them.
const (
	maxSitemapBytes   = 50 << 20
	maxSitemapEntries = 50_000
)

// isSitemapPath reports whether crawlers look for sitemaps at path.
func isSitemapPath(path string) bool {
	return slices.Contains([]string{"/sitemap.xml", "/sitemap_index.xml", "/sitemap.xml.gz", "/sitemap.txt"}, path)
}

// siteWithMaps returns a site whose robots.txt names the sitemaps at paths and
// disallows /closed.
func (c *corners) siteWithMaps(host string, paths ...string) *site {
	s := c.site(host)
	var robots strings.Builder
	for _, path := range paths {
		fmt.Fprintf(&robots, "Sitemap: %s\n", s.at(path))
	}
	s.robots(robots.String() + "User-agent: *\nDisallow: /closed\n")
	s.enter("/")
	return s
}

func (s *site) at(path string) string { return "http://" + s.host + path }

func (s *site) sitemap(path, text string) *resource {
	p := s.add(path, sought).body([]byte(text)).withType("application/xml")
	p.limit = maxSitemapBytes
	return p
}

func urlsetOf(urls ...string) string { return listOf("urlset", "url", urls) }
func indexOf(urls ...string) string  { return listOf("sitemapindex", "sitemap", urls) }

func listOf(list, entry string, urls []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<%s xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n", list)
	for _, url := range urls {
		fmt.Fprintf(&b, "<%s><loc>%s</loc></%s>\n", entry, html.EscapeString(url), entry)
	}
	fmt.Fprintf(&b, "</%s>\n", list)
	return b.String()
}

// manyEntries writes a sitemap with one entry more than the limit. Nearly all entries
// name the same page, because a crawl of that many pages would take long.
func (s *site) manyEntries(out io.Writer) error {
	text := urlsetOf(slices.Concat([]string{s.at("/only/first")}, slices.Repeat([]string{s.at("/")}, maxSitemapEntries-2),
		[]string{s.at("/only/last"), s.at("/only/beyond")})...)
	_, err := io.WriteString(out, text)
	return err
}
