package fetcher_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/extract"
)

// measured is a store that measures the offers of each call, and the memory that the worker
// has taken during the calls.
type measured struct {
	frontiertest.Crawl
	worker     *fetcher.Crawl
	offers     atomic.Int64 // most bytes of URLs in one call
	bytes      atomic.Int64 // most bytes of all URLs in calls at the same time
	now        atomic.Int64
	unreserved atomic.Int64 // calls while less memory was taken than the URLs of all calls have
}

func (m *measured) measure(offers []frontier.Offer) (done func()) {
	bytes := int64(0)
	for i := range offers {
		bytes += int64(len(offers[i].URL))
	}
	raise(&m.offers, bytes)
	now := m.now.Add(bytes)
	raise(&m.bytes, now)
	if bytes > 1<<20 && m.worker.MemoryTaken() < bytes {
		m.unreserved.Add(1)
	}
	time.Sleep(time.Second) // so that calls overlap
	return func() { m.now.Add(-bytes) }
}

func raise(most *atomic.Int64, n int64) {
	for last := most.Load(); n > last && !most.CompareAndSwap(last, n); {
		last = most.Load()
	}
}

func (m *measured) Add(ctx context.Context, offers []frontier.Offer) ([]frontier.Verdict, error) {
	defer m.measure(offers)()
	return m.Crawl.Add(ctx, offers)
}

func (m *measured) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	for i := range done {
		defer m.measure(done[i].Links)()
	}
	return m.Crawl.Complete(ctx, id, done, update)
}

// edgeSink counts the links that it gets.
type edgeSink struct{ links atomic.Int64 }

func (s *edgeSink) AppendEdges(_ *record.Record, edges []record.Edge) error {
	s.links.Add(int64(len(edges)))
	return nil
}

// TestHostileLinksStayInMemory crawls pages whose links become 70 times as long as the pages,
// with the least memory. All links are offered, none is refused, and the URLs that the store gets
// at the same time were reserved: they take less than the memory.
func TestHostileLinksStayInMemory(t *testing.T) {
	t.Parallel()
	const hosts, links = 8, 6000
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		fmt.Fprintf(&b, `<base href="/%s/">`, strings.Repeat("y", 1900))
		for i := range links {
			fmt.Fprintf(&b, `<a href=%d>text</a>`, i)
		}
		w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
			return reply{body: b.String()}, strings.HasSuffix(url, ".test/")
		}})
		cfg := w.config()
		cfg.Memory = fetcher.LeastMemory(cfg.Client)
		cfg.Rules.Scope, cfg.Concurrency, cfg.MaxPages = canon.ScopeAny, hosts, hosts
		edges := new(edgeSink)
		cfg.Edges = edges
		store := &measured{Crawl: w.store}
		cfg.Store = store
		c := w.worker(cfg)
		store.worker = c
		var seeds []string
		for i := range hosts {
			seeds = append(seeds, fmt.Sprintf("http://%d.test/", i))
		}
		w.crawlWith(c, fetcher.Limit, seeds...)
		if stats := w.stats(); stats.Added != hosts*(1+links) || len(stats.Refused) != 0 {
			t.Errorf("books %+v, want %d added and none refused", stats.Books, hosts*(1+links))
		}
		for _, url := range seeds {
			if r := w.sink.recordOf(t, url); r.LinksFound != links || r.LinksAdded != links || len(r.Cut) != 1 || r.Cut[0] != "links" {
				t.Errorf("%s: %d links found, %d added, cut %q, want %d, and that the links of Config.Edges are cut", url, r.LinksFound, r.LinksAdded, r.Cut, links)
			}
		}
		if n := edges.links.Load(); n == 0 || n >= hosts*links {
			t.Errorf("%d links are kept, want some, but not all", n)
		}
		if one, all := store.offers.Load(), store.bytes.Load(); one > extract.PieceBytes || all > cfg.Memory || store.unreserved.Load() > 0 {
			t.Errorf("one call has %d bytes of URLs, all calls at once %d, want at most %d and %d; %d calls were not reserved",
				one, all, extract.PieceBytes, cfg.Memory, store.unreserved.Load())
		}
		if c.MemoryTaken() != 0 {
			t.Errorf("%d bytes are taken at the end, want 0", c.MemoryTaken())
		}
	})
}

// TestRulesStayInMemory crawls hosts whose robots.txt files are so long that the rules of only
// two hosts fit. All rules are obeyed, and all pages that they allow are fetched.
func TestRulesStayInMemory(t *testing.T) {
	t.Parallel()
	const hosts, lines = 12, 20_000
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		b.WriteString("User-agent: *\nDisallow: /private\n")
		for i := range lines {
			fmt.Fprintf(&b, "Disallow: /%d/\n", i)
		}
		rules := robotsTxt(b.String())
		w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
			if strings.HasSuffix(url, "/robots.txt") {
				return rules, true
			}
			return links("/private", "/public", "/7/x"), strings.HasSuffix(url, ".test/")
		}})
		cfg := w.config()
		cfg.Memory = fetcher.LeastMemory(cfg.Client)
		cfg.Rules.Scope, cfg.Concurrency = canon.ScopeAny, hosts
		c := w.worker(cfg)
		var most atomic.Int64
		cfg.OnPage = nil
		w.wire.answer = func(next func(*http.Request, string, int) (reply, bool)) func(*http.Request, string, int) (reply, bool) {
			return func(r *http.Request, url string, try int) (reply, bool) {
				raise(&most, c.RulesTaken())
				return next(r, url, try)
			}
		}(w.wire.answer)
		var seeds []string
		for i := range hosts {
			seeds = append(seeds, fmt.Sprintf("http://%d.test/", i))
		}
		w.crawlWith(c, fetcher.Empty, seeds...)
		if stats := w.stats(); stats.Outcomes[frontier.OK] != 2*hosts || stats.Outcomes[frontier.Robots] != 2*hosts {
			t.Errorf("outcomes %v, want %d ok and %d robots", stats.Outcomes, 2*hosts, 2*hosts)
		}
		if n, limit := most.Load(), cfg.Memory/8; n == 0 || n > limit || c.RulesTaken() != 0 {
			t.Errorf("rules took at most %d bytes, want at most %d; %d at the end, want 0", n, limit, c.RulesTaken())
		}
	})
}
