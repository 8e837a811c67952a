package fetcher_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
)

// slowStore is a store that takes 10 ms for each call with many links. It counts the links
// and does not store them.
type slowStore struct {
	*frontiertest.Memory
	most, links, refused atomic.Int64
	heap                 func()
}

func (s *slowStore) take(items []frontier.Offer) bool {
	for n, last := int64(len(items)), s.most.Load(); n > last && !s.most.CompareAndSwap(last, n); {
		last = s.most.Load()
	}
	if len(items) < 100 {
		return false
	}
	s.links.Add(int64(len(items)))
	time.Sleep(10 * time.Millisecond)
	s.heap()
	return true
}

func (s *slowStore) Add(ctx context.Context, items []frontier.Offer) ([]frontier.Verdict, error) {
	if s.take(items) {
		verdicts := make([]frontier.Verdict, len(items))
		for i := range verdicts {
			verdicts[i].Answer = frontier.Added
		}
		return verdicts, nil
	}
	return s.Memory.Add(ctx, items)
}

func (s *slowStore) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	for i := range done {
		for _, r := range done[i].Refused {
			s.refused.Add(int64(r.Count))
		}
		if s.take(done[i].Links) {
			done[i].Links = nil
		}
	}
	return s.Memory.Complete(ctx, id, done, update)
}

// TestSitemapsInBoundedMemory reads 30 sitemaps, with 100,000 URLs each, at the same time.
// Besides the bodies, whose size is limited, the worker holds some thousand URLs of each
// sitemap. If it held the first 50,000 URLs of each sitemap, these would take 80 MiB. The
// URLs after the first 50,000 are only counted, as refused.
func TestSitemapsInBoundedMemory(t *testing.T) {
	const entries, taken = 100_000, 50_000
	files := fewer(30)
	synctest.Test(t, func(t *testing.T) {
		var body strings.Builder
		body.WriteString("<urlset>")
		for i := range entries {
			fmt.Fprintf(&body, "<url><loc>/section/the-title-of-an-article-%d.html</loc></url>", i)
		}
		body.WriteString("</urlset>")
		var names []string
		for i := range files {
			names = append(names, fmt.Sprintf("http://%d.test/map.xml", i))
		}
		w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
			switch {
			case url == "http://a.test/robots.txt":
				return robotsTxt("Sitemap: /index.xml"), true
			case strings.HasSuffix(url, "/robots.txt"):
				return robotsTxt("Sitemap: http://a.test/index.xml"), true
			case url == "http://a.test/index.xml":
				return reply{body: index(names...), contents: "text/xml"}, true
			case strings.HasSuffix(url, "/map.xml"):
				return reply{body: body.String(), contents: "text/xml"}, true
			}
			return reply{}, false
		}})
		cfg := w.config()
		cfg.Sitemaps, cfg.Rules.Scope, cfg.Concurrency = true, canon.ScopeAny, 2*files
		room := fetcher.LeastMemory(cfg.Client)
		cfg.Memory = room
		var before, now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		highest, looks := before.HeapAlloc, 0
		var mu sync.Mutex
		store := &slowStore{Memory: w.store, heap: func() {
			mu.Lock()
			defer mu.Unlock()
			if looks++; looks%20 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&now)
				highest = max(highest, now.HeapAlloc)
			}
		}}
		cfg.Store = store
		c := w.worker(cfg)
		w.seed(c, "http://a.test/")
		if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		if n := store.links.Load(); n != int64(files*taken) {
			t.Errorf("the store was offered %d URLs, want %d", n, files*taken)
		}
		if n := store.refused.Load(); n != int64(files*(entries-taken)) {
			t.Errorf("%d URLs are refused, want %d", n, files*(entries-taken))
		}
		if n := store.most.Load(); n > 5000 {
			t.Errorf("one call offers %d URLs, want at most 5,000", n)
		}
		if grown := (highest - before.HeapAlloc) >> 20; grown > 40 {
			t.Errorf("the heap has grown by %d MiB, want at most 40", grown)
		}
		if r := w.sink.recordOf(t, names[0]); !strings.Contains(r.Error, "too many entries") {
			t.Errorf("the record of a sitemap has the error %q, want too many entries", r.Error)
		}
	})
}

// TestSitemapInPieces: each URL of a large sitemap is queued, or counted and reported as
// refused, whatever the store answers while the sitemap is read.
func TestSitemapInPieces(t *testing.T) {
	const entries, excluded = 12_000, 500
	var urls []string
	for i := range entries {
		urls = append(urls, fmt.Sprintf("http://a.test/%d", i))
	}
	for i := range excluded {
		urls = append(urls, fmt.Sprintf("http://other.test/%d", i))
	}
	urls = append(urls, "http://a.test/"+strings.Repeat("x", 100_000))
	unavailable := func(op frontiertest.Op, _ int) (f frontiertest.Fault) {
		if op == frontiertest.OpAdd {
			f.Err = frontier.ErrUnavailable
		}
		return f
	}
	for name, plan := range map[string]frontiertest.Plan{
		"no fault": func(frontiertest.Op, int) frontiertest.Fault { return frontiertest.Fault{} },
		"unavailable for a while": func(op frontiertest.Op, call int) (f frontiertest.Fault) {
			if call >= 2 && call < 5 {
				f = unavailable(op, call)
			}
			return f
		},
		"an answer is lost": func(op frontiertest.Op, call int) (f frontiertest.Fault) {
			if call == 3 {
				f = unavailable(op, call)
				f.Late = true
			}
			return f
		},
		"full": func(op frontiertest.Op, call int) (f frontiertest.Fault) {
			if op == frontiertest.OpAdd && call >= 3 {
				f.Err = frontier.ErrFull
			}
			return f
		},
		"another error": func(op frontiertest.Op, call int) (f frontiertest.Fault) {
			if op == frontiertest.OpAdd && call >= 3 {
				f.Err = errors.New("broken")
			}
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pages(map[string]reply{
					"http://a.test/robots.txt": robotsTxt("Sitemap: /map.xml"),
					"http://a.test/map.xml":    {body: urlset(urls...), contents: "text/xml"},
				}))
				cfg := w.config()
				faulty := frontiertest.NewFaulty(w.store, plan)
				cfg.Store, cfg.Sitemaps, cfg.MaxPages = faulty, true, 2
				told := 0
				cfg.OnRefused = func(fetcher.Refused) { told++ }
				w.crawlTo(fetcher.Limit, cfg, "http://a.test/")
				stats := w.stats()
				if n := stats.Added; n != entries+2 {
					t.Errorf("%d URLs are added, want %d", n, entries+2)
				}
				if stats.Refused[frontier.ReasonScope] != excluded || stats.Refused[frontier.ReasonTooLong] != 1 {
					t.Errorf("refused %v, want %d out of scope and 1 too long", stats.Refused, excluded)
				}
				if told != excluded {
					t.Errorf("OnRefused was called %d times, want %d", told, excluded)
				}
				r := w.sink.recordOf(t, "http://a.test/map.xml")
				if r.LinksFound != entries+excluded+1 || r.LinksAdded != entries && name != "an answer is lost" {
					t.Errorf("record with %d links found, %d added, want %d and %d",
						r.LinksFound, r.LinksAdded, entries+excluded+1, entries)
				}
			})
		})
	}
}

// TestSitemapsTakeTurns: the sitemaps of one host are read one after another,
// even if its policy allows several requests at once. Those of other hosts are
// read meanwhile.
func TestSitemapsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := map[string]reply{}
		for _, host := range []string{"http://a.test", "http://b.test"} {
			var names []string
			for i := range 5 {
				name := fmt.Sprintf("%s/%d.xml", host, i)
				names = append(names, name)
				answers[name] = reply{body: urlset(name + "/page"), contents: "text/xml", wait: time.Second}
			}
			answers[host+"/robots.txt"] = robotsTxt("Sitemap: /index.xml")
			answers[host+"/index.xml"] = reply{body: index(names...), contents: "text/xml"}
		}
		w := newWorld(t, pages(answers))
		cfg := w.config()
		cfg.Sitemaps, cfg.HostConcurrency = true, 8
		cfg.Politeness.Delay, cfg.Politeness.LatencyFactor = 0, 0
		begun := time.Now()
		w.crawl(cfg, "http://a.test/", "http://b.test/")
		if stats := w.stats(); stats.Done != 2*(1+1+5+5) {
			t.Errorf("%d URLs are done, want 24", stats.Done)
		}
		last := map[string]time.Time{}
		for _, c := range w.wire.log() {
			if strings.HasSuffix(c.url, ".xml") {
				if c.start.Before(last[c.host]) {
					t.Errorf("%s was requested before the answer for the previous sitemap of its host", c.url)
				}
				last[c.host] = c.end
			}
		}
		if took := time.Since(begun); took > 8*time.Second {
			t.Errorf("two hosts with 5 sitemaps of a second each took %v, want at most 8 s", took)
		}
	})
}
