package fetcher_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
)

// TestFeedsAreSourcesOfLinks: with Feeds, a feed is followed and read wherever its URL was found, and
// whatever its type is.
func TestFeedsAreSourcesOfLinks(t *testing.T) {
	answers := map[string]reply{
		"http://h.test/": page(`<link rel=alternate type="application/rss+xml" href=/rss><link rel="alternate home" type="application/atom+xml; charset=utf-8" href=/atom>
<link rel=alternate type=application/rdf+xml href=/never/data><a href=/rdf>x</a><a href=/packed>x</a><a href=/broken>x</a><a href=/no.xml>x</a>`),
		"http://h.test/rss": {contents: "application/rss+xml", body: `<rss><channel><link>/never/home</link><item><link>/a</link><enclosure url="/a.mp3"/></item>
<item xml:base="http://h.test/sub/"><link>b</link></item><item><link>mailto:x@h.test</link></item></channel></rss>`},
		"http://h.test/atom": {contents: "text/html", body: `<feed xml:base="/x/y/"><link rel="self" href="/never/self"/><link rel="next" href="/atom?p=2"/>
<entry xml:base="z/"><link href="c"/><content type="html">&lt;a href="/never/content"&gt;</content></entry></feed>`},
		"http://h.test/atom?p=2": {contents: "text/plain", body: `<feed><entry><link href="/d"/></entry></feed>`},
		"http://h.test/rdf":      {contents: "application/rdf+xml", body: `<rdf:RDF xmlns="http://purl.org/rss/1.0/"><item><link>/e</link></item></rdf:RDF>`},
		"http://h.test/packed":   {contents: "application/gzip", body: packed(t, `<?xml version="1.0" encoding="shift_jis"?><rss><item><link>/`+"\x93\xfa"+`</link></item></rss>`)},
		"http://h.test/broken":   {contents: "text/xml", body: `<rss><item><link>/f</link></item><item><link>/never/whole`},
		"http://h.test/no.xml":   {contents: "text/xml", body: `<root><item><link>/never/root</link></item></root>`},
		"http://h.test/nofollow": {contents: "text/xml", header: map[string]string{"X-Robots-Tag": "nofollow"}, body: `<rss><item><link>/never/nofollow</link></item></rss>`},
	}
	inFeeds := []string{"/a", "/sub/b", "/x/y/z/c", "/d", "/e", "/%E6%97%A5", "/f", "/rss", "/atom", "/atom?p=2"}
	for _, c := range []struct{ feeds, sitemaps, assets bool }{{}, {feeds: true}, {feeds: true, sitemaps: true}, {feeds: true, assets: true}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, pages(answers))
			cfg := w.config()
			cfg.Feeds, cfg.Sitemaps, cfg.Assets = c.feeds, c.sitemaps, c.assets
			if c.assets {
				client, err := get.New(get.Config{Transport: w.wire, Types: []string{get.AnyType}})
				if err != nil {
					t.Fatal(err)
				}
				cfg.Client = client
			}
			w.crawl(cfg, "http://h.test/", "http://h.test/nofollow")
			for _, path := range inFeeds {
				asked := w.wire.count("http://h.test"+path) == 1
				if asked != c.feeds {
					t.Errorf("%+v: %s requested: %t", c, path, asked)
				}
			}
			if asked := w.wire.count("http://h.test/a.mp3") == 1; asked != c.assets {
				t.Errorf("%+v: enclosure requested: %t", c, asked)
			}
			for url := range answers {
				if w.wire.count(url) > 1 {
					t.Errorf("%+v: %s requested %d times", c, url, w.wire.count(url))
				}
			}
			if i := slices.IndexFunc(w.wire.urls(), func(url string) bool { return len(url) > 19 && url[13:20] == "/never/" }); i >= 0 && !c.assets {
				t.Errorf("%+v: %s requested", c, w.wire.urls()[i])
			}
			w.balanced()
			if !c.feeds {
				return
			}
			found := uint64(3)
			if c.assets {
				found++
			}
			if r := w.sink.recordOf(t, "http://h.test/rss"); r.Outcome != "ok" || r.Depth != 1 || r.LinksFound != found || r.Error != "" {
				t.Errorf("%+v: record %+v", c, r)
			}
			if r := w.sink.recordOf(t, "http://h.test/a"); r.Depth != 2 {
				t.Errorf("%+v: depth %d of an item of a feed at depth 1, want 2", c, r.Depth)
			}
			if r := w.sink.recordOf(t, "http://h.test/broken"); r.Outcome != "ok" || r.Error != "read the feed: sitemap: ends too early" {
				t.Errorf("%+v: outcome %s, error %q of a feed that breaks off", c, r.Outcome, r.Error)
			}
			if r := w.sink.recordOf(t, "http://h.test/no.xml"); !c.assets && r.Outcome != "type" {
				t.Errorf("%+v: outcome %s of XML that is no feed, want type", c, r.Outcome)
			}
		})
	}
}

// TestFeedsThatAreSitemaps: a feed that robots.txt names as a sitemap stays one, and other feeds are
// read as pages.
func TestFeedsThatAreSitemaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := func(item string) reply {
			return reply{contents: "application/rss+xml", body: "<rss><item><link>" + item + "</link></item></rss>"}
		}
		w := newWorld(t, pages(map[string]reply{
			"http://h.test/robots.txt": robotsTxt("Sitemap: http://h.test/named"),
			"http://h.test/":           links("/linked"),
			"http://h.test/named":      feed("/a"),
			"http://h.test/linked":     feed("/b"),
		}))
		cfg := w.config()
		cfg.Feeds, cfg.Sitemaps = true, true
		w.crawl(cfg, "http://h.test/")
		if named, linked := w.sink.recordOf(t, "http://h.test/a"), w.sink.recordOf(t, "http://h.test/b"); named.Depth != 1 || linked.Depth != 2 {
			t.Errorf("depths %d and %d of the items, want 1 and 2", named.Depth, linked.Depth)
		}
	})
}

// TestFeedsWaitForMemory: the memory for reading a feed is reserved before the feed is read. While an
// older page leaves less than that, the feed waits.
func TestFeedsWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://old.test/":      page("x"),
			"http://feed.test/":     {contents: "application/rss+xml", body: `<rss><channel><item><link>/item</link></item></channel></rss>`},
			"http://feed.test/item": page("x"),
		}))
		cfg := w.config()
		cfg.Feeds, cfg.Concurrency = true, 4
		cfg.Memory = fetcher.LeastMemory(cfg.Client) + 2<<20 // room for the bodies, and for one share that is larger
		var c *fetcher.Crawl
		cfg.OnPage = func(_ context.Context, page *fetcher.Page) error {
			if page.Item.Host != "old.test" {
				return nil
			}
			w.seed(c, "http://feed.test/")
			c.Wake()
			time.Sleep(time.Minute)
			if feeds, items := w.wire.count("http://feed.test/"), w.wire.count("http://feed.test/item"); feeds != 1 || items != 0 {
				t.Errorf("%d requests for the feed, %d for its item, want 1 and 0", feeds, items)
			}
			return nil
		}
		c = w.worker(cfg)
		w.crawlWith(c, fetcher.Empty, "http://old.test/")
		if w.wire.count("http://feed.test/item") != 1 {
			t.Error("the item of the feed was not requested")
		}
	})
}
