package fetcher_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
)

func robotsTxt(body string) reply { return reply{body: body, contents: "text/plain"} }

func urlset(locs ...string) string {
	return `<?xml version="1.0"?><urlset><url><loc>` + strings.Join(locs, "</loc></url><url><loc>") + "</loc></url></urlset>"
}

func index(locs ...string) string {
	return "<sitemapindex><sitemap><loc>" + strings.Join(locs, "</loc></sitemap><sitemap><loc>") + "</loc></sitemap></sitemapindex>"
}

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestSitemapsAreRead: URLs that are only in sitemaps are crawled. The rules for links apply
// to them.
func TestSitemapsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/robots.txt":     robotsTxt("Sitemap: http://a.test/map/index.xml\nSitemap: http://files.test/a.txt\nUser-agent: *\nDisallow: /private"),
			"http://a.test/map/index.xml":  {body: index("/map/1.xml.gz", "http://a.test/map/broken.xml", "http://other.test/2.xml"), contents: "text/xml"},
			"http://a.test/map/1.xml.gz":   {body: packed(t, urlset("http://a.test/only-here", "http://a.test/private/x", "http://other.test/no", "mailto:x")), contents: "application/gzip"},
			"http://a.test/map/broken.xml": {body: urlset("http://a.test/before", "http://a.test/before2")[:90], contents: "text/xml"},
			"http://files.test/a.txt":      {body: "http://a.test/listed\nhttp://files.test/not-in-scope\n", contents: "text/plain"},
			"http://a.test/only-here":      links("/deeper"),
		}))
		cfg := w.config()
		cfg.Sitemaps = true
		cfg.Rules.MaxDepth = 1
		w.crawl(cfg, "http://a.test/")
		for _, url := range []string{"http://a.test/only-here", "http://a.test/before", "http://a.test/listed", "http://a.test/map/1.xml.gz", "http://other.test/2.xml"} {
			if n := w.wire.count(url); n != 1 {
				t.Errorf("%s was requested %d times, want once", url, n)
			}
		}
		for _, url := range []string{"http://a.test/private/x", "http://files.test/not-in-scope", "http://a.test/deeper", "http://a.test/sitemap.xml"} {
			if n := w.wire.count(url); n != 0 {
				t.Errorf("%s was requested %d times, want never", url, n)
			}
		}
		want := map[frontier.Reason]uint64{frontier.ReasonScope: 2, frontier.ReasonScheme: 1, frontier.ReasonDepth: 1}
		if got := w.stats().Refused; !maps.Equal(got, want) {
			t.Errorf("refused %v, want %v", got, want)
		}
		if r := w.sink.recordOf(t, "http://a.test/map/broken.xml"); !strings.Contains(r.Error, "ends too early") {
			t.Errorf("the record of the broken sitemap has the error %q, want it to name the fault", r.Error)
		}
		if r := w.sink.recordOf(t, "http://a.test/map/index.xml"); r.LinksFound != 3 || r.LinksAdded != 3 {
			t.Errorf("record of the index with %d links found, %d added, want 3 and 3", r.LinksFound, r.LinksAdded)
		}
	})
}

// TestSitemapsAreNotJudgedAsPages: rules that are meant for pages do not apply to the
// sitemaps in an index, or to the target of a sitemap that redirects. They apply to the
// pages that these sitemaps list.
func TestSitemapsAreNotJudgedAsPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/sitemap.xml": redirect("/wp-sitemap.xml"),
			"http://a.test/sitemap_index.xml": {contents: "text/xml", body: index("/sitemap-posts.xml", "/gone.xml",
				"http://files.test/index.xml", "http://a.test:25/x.xml", "/2061/01/02/sitemap.xml")},
			"http://a.test/wp-sitemap.xml":         {body: urlset("http://a.test/blog/1", "http://a.test/shop/1"), contents: "text/xml"},
			"http://a.test/sitemap-posts.xml":      {body: urlset("http://a.test/blog/2", "http://b.test/blog/2"), contents: "text/xml"},
			"http://a.test/2061/01/02/sitemap.xml": {body: urlset("http://a.test/blog/3", "http://a.test/blog/3.xml"), contents: "text/xml"},
			"http://a.test/gone.xml":               redirect("http://b.test/login"),
			"http://files.test/index.xml":          {body: index("/own.xml", "http://b.test/map.xml"), contents: "text/xml"},
			"http://files.test/own.xml":            redirect("/moved.xml"),
			"http://files.test/moved.xml":          {body: urlset("http://a.test/blog/4"), contents: "text/xml"},
		}))
		cfg := w.config()
		cfg.Sitemaps = true
		cfg.Rules.Include, cfg.Rules.Exclude = []*regexp.Regexp{regexp.MustCompile("/blog/")}, []*regexp.Regexp{regexp.MustCompile(`\.xml$`)}
		var got []string
		var mu sync.Mutex
		cfg.OnRefused = func(r fetcher.Refused) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, r.URL+" "+string(r.Reason))
		}
		w.crawl(cfg, "http://a.test/")
		for i := range 4 {
			if url := fmt.Sprintf("http://a.test/blog/%d", i+1); w.wire.count(url) != 1 {
				t.Errorf("%s was requested %d times, want once", url, w.wire.count(url))
			}
		}
		slices.Sort(got)
		want := []string{"http://a.test/blog/3.xml excluded", "http://a.test/shop/1 excluded", "http://a.test:25/x.xml port",
			"http://b.test/blog/2 scope", "http://b.test/login scope", "http://b.test/map.xml scope"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("refused URLs (-want +got):\n%s", diff)
		}
	})
}

// TestSitemapsAtWellKnownPlaces: if robots.txt names no sitemaps, the well-known paths are
// requested once for each origin. Without Policy.Sitemaps they are never requested.
func TestSitemapsAtWellKnownPlaces(t *testing.T) {
	for _, on := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, pages(map[string]reply{
				"http://a.test/":            links("/1", "/2", "http://a.test:8080/3"),
				"http://a.test/sitemap.xml": {body: urlset("http://a.test/listed"), contents: "application/xml"},
			}))
			cfg := w.config()
			cfg.Sitemaps = on
			w.crawl(cfg, "http://a.test/")
			want := 0
			if on {
				want = 1
			}
			for _, url := range []string{"http://a.test/sitemap.xml", "http://a.test:8080/sitemap.xml", "http://a.test/listed"} {
				if n := w.wire.count(url); n != want {
					t.Errorf("with Sitemaps=%t, %s was requested %d times, want %d", on, url, n, want)
				}
			}
		})
	}
}

// TestSitemapsNestWithAnEnd: a long chain of indexes is followed as far as a chain of
// redirects.
func TestSitemapsNestWithAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/robots.txt": robotsTxt("Sitemap: /0.xml"),
			"http://a.test/0.xml":      {body: index("/1.xml"), contents: "text/xml"},
			"http://a.test/1.xml":      {body: index("/2.xml"), contents: "text/xml"},
			"http://a.test/2.xml":      {body: index("/3.xml"), contents: "text/xml"},
			"http://a.test/3.xml":      redirect("/4.xml"),
			"http://a.test/4.xml":      {body: index("/5.xml"), contents: "text/xml"},
			"http://a.test/5.xml":      {body: index("/6.xml"), contents: "text/xml"},
			"http://a.test/6.xml":      {body: urlset("http://a.test/too-deep"), contents: "text/xml"},
		}))
		cfg := w.config()
		cfg.Sitemaps = true
		w.crawl(cfg, "http://a.test/")
		if w.wire.count("http://a.test/5.xml") != 1 || w.wire.count("http://a.test/6.xml") != 0 {
			t.Errorf("requested %q, want up to 5.xml", w.wire.urls())
		}
		if n := w.stats().Refused[frontier.ReasonHops]; n != 1 {
			t.Errorf("%d URLs refused for ReasonHops, want 1", n)
		}
	})
}

// TestRobotsTagHeader: the X-Robots-Tag header has the effect of the robots meta element if
// the header is addressed to this crawler.
func TestRobotsTagHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tagged := func(tag string, refs ...string) reply {
			r := links(refs...)
			r.header = map[string]string{"X-Robots-Tag": tag}
			return r
		}
		named := links("/e")
		named.body = `<meta name="OurBot" content="nofollow">` + named.body
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/":       links("/all", "/ours", "/theirs", "/index", "/meta"),
			"http://a.test/all":    tagged("nofollow", "/a"),
			"http://a.test/ours":   tagged("ourbot: none", "/b"),
			"http://a.test/theirs": tagged("otherbot: nofollow", "/c"),
			"http://a.test/index":  tagged("noindex", "/d"),
			"http://a.test/meta":   named,
		}))
		cfg := w.config()
		cfg.Client = clientOf(t, get.Config{Transport: w.wire, UserAgent: "OurBot/1.0"})
		var rules []string
		cfg.OnRefused = func(r fetcher.Refused) { rules = append(rules, r.URL+" "+r.Rule) }
		w.crawl(cfg, "http://a.test/")
		slices.Sort(rules)
		want := []string{"http://a.test/a X-Robots-Tag header", "http://a.test/b X-Robots-Tag header", "http://a.test/e robots meta tag"}
		if !slices.Equal(rules, want) {
			t.Errorf("refused %q, want %q", rules, want)
		}
		if w.wire.count("http://a.test/c") != 1 || w.wire.count("http://a.test/d") != 1 {
			t.Errorf("requested %q, want /c and /d among them", w.wire.urls())
		}
	})
}

// TestAssetsAreCrawled: with Policy.Assets, embedded URLs are queued after the pages.
func TestAssetsAreCrawled(t *testing.T) {
	for _, on := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, pages(map[string]reply{
				"http://a.test/": page(`<img src=/i.png srcset="/j.png 2x"><script src=/s.js></script><link rel=stylesheet href=/c.css><a href=/z>z</a>`),
			}))
			cfg := w.config()
			cfg.Assets = on
			w.crawl(cfg, "http://a.test/")
			got := w.wire.urls()
			want := []string{"http://a.test/robots.txt", "http://a.test/", "http://a.test/z"}
			if on {
				slices.Sort(got[3:])
				want = append(want, "http://a.test/c.css", "http://a.test/i.png", "http://a.test/j.png", "http://a.test/s.js")
			}
			if !slices.Equal(got, want) {
				t.Errorf("with Assets=%t: requested %q, want %q", on, got, want)
			}
		})
	}
}
