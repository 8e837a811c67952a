package fetcher_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

// keptEdges keeps the links that it gets, as texts.
type keptEdges struct{ all []string }

func (s *keptEdges) AppendEdges(r *record.Record, edges []record.Edge) error {
	for _, e := range edges {
		s.all = append(s.all, fmt.Sprint(r.URL, " ", e.Target, " ", e.Kind))
	}
	return nil
}

// TestSitemapsKeepLinks: the URLs of a sitemap, and the sitemaps of an index, are links of the kind sitemap, each once.
func TestSitemapsKeepLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/robots.txt": robotsTxt("Sitemap: http://a.test/index.xml"),
			"http://a.test/index.xml":  {body: index("/1.xml", "/gone.xml"), contents: "text/xml"},
			"http://a.test/1.xml":      {body: urlset("/y", "http://other.test/x", "/y", "mailto:x"), contents: "text/xml"},
			"http://a.test/":           links("/y"),
		}))
		cfg := w.config()
		edges := new(keptEdges)
		cfg.Sitemaps, cfg.Edges, cfg.Concurrency = true, edges, 1
		w.crawl(cfg, "http://a.test/")
		slices.Sort(edges.all)
		want := []string{
			"http://a.test/ http://a.test/y a",
			"http://a.test/1.xml http://a.test/y sitemap", "http://a.test/1.xml http://other.test/x sitemap",
			"http://a.test/index.xml http://a.test/1.xml sitemap", "http://a.test/index.xml http://a.test/gone.xml sitemap",
		}
		if diff := cmp.Diff(want, edges.all); diff != "" {
			t.Error(diff)
		}
	})
}

// TestLargeSitemapsCutLinks: the links of a sitemap take limited memory. All its URLs are queued, and its record says
// that links are missing.
func TestLargeSitemapsCutLinks(t *testing.T) {
	t.Parallel()
	const urls = 20_000
	synctest.Test(t, func(t *testing.T) {
		var locs []string
		for i := range urls {
			locs = append(locs, fmt.Sprintf("/%s/%d", strings.Repeat("y", 1000), i))
		}
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/robots.txt": robotsTxt("Sitemap: http://a.test/map.xml"),
			"http://a.test/map.xml":    {body: urlset(locs...), contents: "text/xml"},
			"http://a.test/":           links("/y"),
		}))
		cfg := w.config()
		edges := new(edgeSink)
		cfg.Sitemaps, cfg.Edges, cfg.Memory, cfg.MaxPages = true, edges, 512<<20, 2
		w.crawlWith(w.worker(cfg), fetcher.Limit, "http://a.test/")
		if r := w.sink.recordOf(t, "http://a.test/map.xml"); r.LinksFound != urls || !slices.Equal(r.Cut, []string{"links"}) {
			t.Errorf("the record of the sitemap has %d links and cut %q, want %d, and that links are cut", r.LinksFound, r.Cut, urls)
		}
		if n := edges.links.Load(); n < 10_000 || n >= urls {
			t.Errorf("%d links are kept, want 10,000 or more, but not all", n)
		}
	})
}
