package fetcher_test

import (
	"testing"
	"testing/synctest"
)

// TestWhatArrivesDecidesTheRole: with Sitemaps, a sitemap is read although a page linked to it or it
// is a seed, and the links of a page are followed although it was named as a sitemap.
func TestWhatArrivesDecidesTheRole(t *testing.T) {
	for _, sitemaps := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, pages(map[string]reply{
				"http://h.test/robots.txt": robotsTxt("Sitemap: http://h.test/page"),
				"http://h.test/":           links("/child.xml", "/packed", "/text.txt"),
				"http://h.test/child.xml":  {body: urlset("/a"), contents: "text/xml"},
				"http://h.test/packed":     {body: packed(t, urlset("/b")), contents: "application/x-gzip"},
				"http://h.test/seed.xml":   {body: index("/more.xml"), contents: "application/xml"},
				"http://h.test/more.xml":   {body: urlset("/c"), contents: "text/html"},
				"http://h.test/text.txt":   {body: "http://h.test/never", contents: "text/plain"},
				"http://h.test/page":       links("/d"),
			}))
			cfg := w.config()
			cfg.Sitemaps = sitemaps
			w.crawl(cfg, "http://h.test/", "http://h.test/seed.xml")
			want := 0
			if sitemaps {
				want = 1
			}
			for _, path := range []string{"a", "b", "c", "d"} {
				if n := w.wire.count("http://h.test/" + path); n != want {
					t.Errorf("sitemaps %t: %d requests for /%s, want %d", sitemaps, n, path, want)
				}
			}
			if n := w.wire.count("http://h.test/never"); n != 0 {
				t.Errorf("%d requests for a URL in a text", n)
			}
		})
	}
}
