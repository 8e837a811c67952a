package fetcher_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// classNotes is a store that notes the class with which each URL was first offered.
type classNotes struct {
	frontier.Store
	rules *exact.Rules

	mu    sync.Mutex
	first map[string]string
}

func (n *classNotes) note(items []frontier.Offer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, item := range items {
		if _, known := n.first[item.URL]; !known {
			n.first[item.URL] = n.rules.Name(item.Class)
		}
	}
}

func (n *classNotes) Add(ctx context.Context, items []frontier.Offer) ([]frontier.Verdict, error) {
	n.note(items)
	return n.Store.Add(ctx, items)
}

func (n *classNotes) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, host frontier.HostUpdate) error {
	for i := range done {
		n.note(done[i].Links)
	}
	return n.Store.Complete(ctx, id, done, host)
}

// TestClassesOfLinks: a URL has the class of the first rule that it matches.
// Rules about the form of a URL come before rules about how the URL was found.
// Redirects pass the class on.
func TestClassesOfLinks(t *testing.T) {
	site := map[string]reply{
		"http://a.test/robots.txt": robotsTxt("Sitemap: http://a.test/old.xml"),
		"http://a.test/old.xml":    redirect("/map.xml"),
		"http://a.test/map.xml":    {body: urlset("http://a.test/listed", "http://a.test/product/listed"), contents: "text/xml"},
		"http://a.test/listed":     redirect("/moved"),
		"http://a.test/":           redirect("/home"),
		"http://a.test/home":       links("/near", "/product/1"),
		"http://a.test/near":       links("/far"),
		"http://a.test/far":        {},
	}
	for text, want := range map[string]map[string]string{
		"": {"http://a.test/": "seeds", "http://a.test/home": "seeds", "http://a.test/near": "bulk", "http://a.test/far": "bulk",
			"http://a.test/product/1": "bulk", "http://a.test/old.xml": "sitemap-files", "http://a.test/map.xml": "sitemap-files",
			"http://a.test/listed": "bulk", "http://a.test/moved": "bulk", "http://a.test/product/listed": "bulk"},
		"sitemaps,seeds,depth<=1,re=/product/": {"http://a.test/": "seeds", "http://a.test/home": "seeds", "http://a.test/near": "depth<=1",
			"http://a.test/far": "bulk", "http://a.test/product/1": "re=/product/", "http://a.test/old.xml": "sitemap-files",
			"http://a.test/map.xml": "sitemap-files", "http://a.test/listed": "sitemaps", "http://a.test/moved": "sitemaps",
			"http://a.test/product/listed": "re=/product/"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, pages(site))
			cfg := w.config()
			cfg.Sitemaps = true
			rules, err := exact.ParseTexts([]string{"seeds"})
			if text != "" {
				rules, err = exact.ParseTexts([]string{text})
				cfg.Exact = rules
			}
			if err != nil {
				t.Fatal(err)
			}
			notes := &classNotes{Store: w.store, rules: rules, first: make(map[string]string)}
			cfg.Store = notes
			w.crawl(cfg, "http://a.test/")
			if !maps.Equal(notes.first, want) {
				t.Errorf("--exact %q: classes %v, want %v", text, notes.first, want)
			}
		})
	}
}
