package fetcher_test

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// TestTrapsAreRefused: a path that repeats itself and a calendar without end are not
// followed beyond the limits.
func TestTrapsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/":                     links("/a/b/", "/cal/2031-11", "?"),
			"http://a.test/a/b/":                 links("a/b/"),
			"http://a.test/a/b/a/b/":             links("a/b/"),
			"http://a.test/a/b/a/b/a/b/":         links("a/b/"),
			"http://a.test/a/b/a/b/a/b/a/b/":     links("a/b/"),
			"http://a.test/cal/2031-11":          links("/cal/2031-12"),
			"http://a.test/cal/2031-12":          links("/cal/2032-01"),
			"http://a.test/a/b/a/b/a/b/a/b/a/b/": page("not reached"),
		}))
		cfg := w.config()
		cfg.Rules.Trap.LastYear = 2031
		w.crawl(cfg, "http://a.test/")
		want := map[frontier.Reason]uint64{frontier.ReasonRepeats: 1, frontier.ReasonCalendar: 1}
		if got := w.stats().Refused; !maps.Equal(got, want) {
			t.Errorf("refused %v, want %v", got, want)
		}
	})
}

// TestMaxHosts: the crawl fetches the first hosts of a domain with endless hosts,
// and every seed.
func TestMaxHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/":      links("http://1.a.test/", "http://2.a.test/", "http://3.a.test/", "http://1.a.test/x", "http://b.test/", "http://www.a.test/y"),
			"http://seed.a.test/": redirect("http://www.a.test/"),
			"http://www.a.test/":  links("http://4.a.test/", "http://a.test/z"),
			"http://b.test/":      links("http://1.b.test/"),
		}))
		cfg := w.config()
		cfg.Rules.Scope = canon.ScopeAny
		if _, err := newWorker(func() config { c := cfg; c.Rules.MaxHosts = 1; return c }()); err == nil {
			t.Error("New with MaxHosts and without a Quota returned no error")
		}
		cfg.Rules.MaxHosts, cfg.Quota = 4, w.store
		w.crawl(cfg, "http://a.test/", "http://seed.a.test/")
		_, hosts, err := w.store.Reserved(t.Context(), "a.test", "")
		// The target of a seed's redirect, www.a.test, is added even beyond the limit.
		if err != nil || hosts < 4 || hosts > 5 {
			t.Errorf("%d hosts of a.test (%v), want 4 or 5", hosts, err)
		}
		if w.wire.count("http://www.a.test/") != 1 || w.wire.count("http://www.a.test/y")+w.wire.count("http://a.test/z") == 0 {
			t.Errorf("www.a.test, the host of a seed, is not crawled: requests %q", w.wire.urls())
		}
		if n := w.stats().Refused[frontier.ReasonDomain]; n < 1 || n > 4 {
			t.Errorf("%d links refused for ReasonDomain, want 1 to 4", n)
		}
		if w.wire.count("http://b.test/") != 1 || w.wire.count("http://1.b.test/") != 1 {
			t.Errorf("the limit applies to another domain, b.test: requests %q", w.wire.urls())
		}
	})
}

// quotaCalls is a Quota that counts its calls and keys.
type quotaCalls struct {
	frontier.Quota
	calls int
	keys  []string
}

func (c *quotaCalls) Reserve(ctx context.Context, keys []frontier.QuotaKey, most uint64) ([]bool, error) {
	c.calls++
	for _, k := range keys {
		c.keys = append(c.keys, k.Key)
	}
	return c.Quota.Reserve(ctx, keys, most)
}

// TestHostsOfAPageAreReservedTogether: a page makes one call of Reserve, without the hosts
// of refused links.
func TestHostsOfAPageAreReservedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/": links("http://1.a.test/", "http://2.a.test/", "http://1.a.test/x", "http://3.a.test/private", "http://b.test/"),
		}))
		cfg, quota := w.config(), &quotaCalls{Quota: w.store}
		cfg.Rules.Scope, cfg.Rules.MaxDepth = canon.ScopeAny, 1
		cfg.Rules.Exclude = []*regexp.Regexp{regexp.MustCompile("private")}
		cfg.Rules.MaxHosts, cfg.Quota = 10, quota
		cfg.Concurrency = 1
		w.crawl(cfg, "http://a.test/")
		want := []string{"a.test", "1.a.test", "2.a.test", "b.test"}
		if quota.calls != 2 || !slices.Equal(quota.keys, want) {
			t.Errorf("%d calls of Reserve with the keys %q, want 2 (for the seed and the page) with %q",
				quota.calls, quota.keys, want)
		}
		if has, _, err := w.store.Reserved(t.Context(), "a.test", "3.a.test"); err != nil || has {
			t.Errorf("3.a.test, which only an excluded link names, is counted: %t, %v", has, err)
		}
	})
}
