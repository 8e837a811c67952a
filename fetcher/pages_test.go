package fetcher_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// queueOf returns a wire that gives its answers to the requests for pages, in the order in which they start,
// and a config of a crawl in which leased items do not count towards maxPages.
func queueOf(t *testing.T, maxPages uint64, answers ...reply) (w *world, store *counter, cfg config) {
	var mu sync.Mutex
	w = newWorldOf(t, &wire{answer: func(_ *http.Request, url string, _ int) (next reply, found bool) {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasSuffix(url, "/robots.txt") && len(answers) > 0 {
			next, answers = answers[0], answers[1:]
			return next, true
		}
		return reply{}, false
	}}, frontiertest.MemoryConfig{PagesOnly: true})
	store = &counter{Memory: w.store}
	cfg = w.config()
	cfg.Store, cfg.MaxPages, cfg.Retries = store, maxPages, 0
	return w, store, cfg
}

// sixHosts are seeds on six hosts.
var sixHosts = []string{"http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/", "http://e.test/", "http://f.test/"}

// pageCalls returns the calls for pages, in the order of their starts.
func (w *world) pageCalls() (calls []call) {
	for _, c := range w.wire.log() {
		if !c.robots() {
			calls = append(calls, c)
		}
	}
	return calls
}

// TestVisitWaitsForLimit: if all visits under way could become pages up to the limit, the next one waits
// until one of them is completed. It begins if that was no page.
func TestVisitWaitsForLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, store, cfg := queueOf(t, 2,
			reply{wait: 10 * time.Second, broken: errBroken}, reply{wait: 25 * time.Second}, reply{wait: 5 * time.Second, broken: errBroken}, reply{wait: 2 * time.Second})
		w.crawlTo(fetcher.Limit, cfg, sixHosts...)
		calls := w.pageCalls()
		if stats := w.stats(); stats.Pages != 2 || stats.Leased != 0 || len(calls) != 4 {
			t.Fatalf("%d pages after %d requests, %d items leased, want 2, 4, 0", stats.Pages, len(calls), stats.Leased)
		}
		for i, before := range map[int]int{2: 0, 3: 2} {
			if wait := calls[i].start.Sub(calls[before].end); wait < 0 || wait > 10*time.Millisecond {
				t.Errorf("request %d started %v after the end of request %d, want at once", i, wait, before)
			}
		}
		if store.leases > 40 {
			t.Errorf("Lease was called %d times in 26 s, want at most 40", store.leases)
		}
	})
}

// TestWaitForLimitStops: a stop ends the wait of visits for others.
func TestWaitForLimitStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, cfg := queueOf(t, 1, reply{wait: 20 * time.Second})
		stop, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		c := w.worker(cfg)
		w.seed(c, sixHosts...)
		begun := time.Now()
		end, err := c.Run(stop)
		if took := time.Since(begun); err != nil || end != fetcher.Stopped || took > 22*time.Second {
			t.Errorf("Run ended with %q, %v after %v, want %q after the only request", end, err, took, fetcher.Stopped)
		}
		w.given(0)
		if calls := w.pageCalls(); len(calls) != 1 {
			t.Errorf("%d requests, want 1", len(calls))
		}
	})
}

// TestLimitRaised: a visit that waits for others begins soon after a new policy has a higher limit.
func TestLimitRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, cfg := queueOf(t, 1, reply{wait: 20 * time.Second}, reply{wait: 20 * time.Second})
		changed := w.changing(fetcher.Limit, cfg, sixHosts, []time.Duration{5 * time.Second}, func(p *policy.Policy) { p.MaxPages = 2 })
		calls := w.pageCalls()
		if len(calls) != 2 || w.stats().Pages != 2 {
			t.Fatalf("%d requests, %d pages, want 2, 2", len(calls), w.stats().Pages)
		}
		if wait := calls[1].start.Sub(changed[0]); wait < 0 || wait > 1100*time.Millisecond {
			t.Errorf("the second request started %v after the new policy, want 1 s at most", wait)
		}
	})
}
