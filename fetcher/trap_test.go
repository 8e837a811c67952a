package fetcher_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// TestNumbered crawls the archives, forums and shops of the test web, and its endless calendars, shops and counters.
// The judge knows that the former are crawled whole, and of the latter at most 100 pages of each series.
func TestNumbered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store  frontiertest.MemoryConfig
		change func(*config)
	}{
		"one after the other": {frontiertest.MemoryConfig{Delay: time.Second}, func(*config) {}},
		"four at once":        {frontiertest.MemoryConfig{Delay: time.Second}, func(c *config) { c.HostConcurrency = 4 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				web := corners(t, testweb.Numbered, 0)
				w := newWorldOf(t, &wire{}, c.store)
				cfg := w.cornerConfig(web)
				cfg.Sitemaps = false
				c.change(&cfg)
				w.crawl(cfg, web.Seeds()...)
				judge(t, w, web, testweb.Manners{Delay: time.Second, Tolerance: time.Nanosecond})
				if causes := w.stats().Causes; causes["trap"] == 0 || causes["trap"] != w.stats().Outcomes[frontier.Dropped] {
					t.Errorf("causes %v and outcomes %v, want a cause for each dropped item", causes, w.stats().Outcomes)
				}
			})
		})
	}
}

// TestTrapsByManyWorkers: the state of a series travels with its host, from one worker to the next. Each worker stops
// after a few pages, and most leases have one page.
func TestTrapsByManyWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, calendar(), frontiertest.MemoryConfig{Delay: time.Second, LeaseTTL: 20 * time.Second})
		cfg := w.config()
		w.seed(w.worker(cfg), "http://a.test/")
		for range 60 {
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			_, _ = w.worker(cfg).Run(ctx)
			stop()
		}
		w.balanced()
		if n := w.wire.count("http://a.test/"); n != 1 || len(w.wire.urls()) > 110 {
			t.Errorf("%d requests, want at most 110", len(w.wire.urls()))
		}
		stats := w.stats()
		if stats.Outcomes[frontier.Dropped] == 0 || stats.Books.Queued > 0 {
			t.Errorf("outcomes %v, %d URLs wait, want some dropped and none waiting", stats.Outcomes, stats.Books.Queued)
		}
	})
}

// anySeries allows all series.
var anySeries = []*regexp.Regexp{regexp.MustCompile("")}

// calendar is a site without an end.
func calendar() *wire {
	return &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
		path := strings.TrimPrefix(url, "http://a.test/")
		n, err := strconv.Atoi(path)
		if path != "" && err != nil {
			return reply{}, false
		}
		answer := links(fmt.Sprintf("/%d", n+1), fmt.Sprintf("/%d", max(n-1, 0)))
		answer.wait = 100 * time.Millisecond // the lease waits only for this page, and ends with it
		return answer, true
	}}
}

// TestTrapIsNamed: the record of a dropped page names the series and the setting that allows it, which a change of
// the policy can be. Seeds are requested even if their series is a trap.
func TestTrapIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calendar())
		cfg := w.config()
		w.crawl(cfg, "http://a.test/")
		dropped := 0
		for _, r := range w.sink.records {
			if r.Outcome != string(frontier.Dropped) {
				continue
			}
			dropped++
			const want = `a trap: pages of the series http://a.test/# say nothing new (--allow-series '^http://a\.test/[\w-]+' allows it)`
			if r.Error != want {
				t.Errorf("the record of %s says %q, want %q", r.URL, r.Error, want)
			}
		}
		if dropped == 0 {
			t.Fatal("no page is dropped")
		}
		asked := len(w.wire.urls())
		w.crawl(cfg, "http://a.test/1000")
		if w.wire.count("http://a.test/1000") != 1 || len(w.wire.urls()) != asked+1 {
			t.Errorf("a seed and %d other pages of the trap are requested, want only the seed", len(w.wire.urls())-asked-1)
		}
		cfg.AllowSeries = []*regexp.Regexp{regexp.MustCompile(`^http://a\.test/[\w-]+`)}
		cfg.MaxPages = uint64(asked) + 100
		if _, err := w.store.Retry(t.Context(), frontier.Failures{}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.worker(cfg).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(w.wire.urls()); n < asked+90 {
			t.Errorf("%d requests after the series is allowed, want %d", n, asked+100)
		}
	})
}

// TestTrapsOf: the blob of a host names its traps.
func TestTrapsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calendar())
		w.crawl(w.config(), "http://a.test/")
		w.seed(w.worker(w.config()), "http://a.test/1000")
		grant, err := w.store.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{1}}})
		if err != nil || len(grant.Leases) != 1 {
			t.Fatal(grant, err)
		}
		traps, err := fetcher.TrapsOf(grant.Leases[0].Blob)
		if err != nil || len(traps) != 1 || traps[0] != "http://a.test/#" {
			t.Errorf("TrapsOf = %q, %v, want the series http://a.test/#", traps, err)
		}
	})
}
