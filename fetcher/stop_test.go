package fetcher_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// TestConfigFaults: New reports all faults at once.
func TestConfigFaults(t *testing.T) {
	_, err := newWorker(config{fetcher.Config{Concurrency: -1, Rate: -1, Grace: -1}, policy.Policy{HostConcurrency: -1, Retries: -2,
		Politeness: politeness.Policy{Jitter: 2}, Rules: policy.Rules{MaxDepth: -1}}})
	for _, want := range []string{"Store is nil", "Client is nil", "Scope is nil", "Concurrency is -1", "HostConcurrency is -1",
		"Retries is -2", "Rate is -1", "Grace is -1", "Jitter is 2", "MaxDepth is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	client, err := get.New(get.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fetcher.New(fetcher.Config{}); err == nil || !strings.Contains(err.Error(), "Policy is nil") {
		t.Errorf("New without a policy: %v", err)
	}
	cfg := fetcher.Config{Store: frontiertest.NewMemory(frontiertest.MemoryConfig{}), Client: client}
	if _, err := newWorker(config{cfg, policy.Policy{HostConcurrency: 1, Rules: policy.Rules{Scope: canon.ScopeAny}}}); err != nil {
		t.Errorf("New with the smallest valid config: %v", err)
	}
}

// TestMaxPages: one worker, or two workers together, fetch exactly as many
// pages as the limit.
func TestMaxPages(t *testing.T) {
	t.Parallel()
	rng := dice(t)
	for _, limit := range []uint64{1, 2, 31, 32, 33, 100, 257} {
		for workers := 1; workers <= 2; workers++ {
			synctest.Test(t, func(t *testing.T) {
				web := &randomWeb{salt: rng.Uint64(), hosts: 16, pages: 40}
				w := newWorld(t, &wire{answer: web.answer})
				cfg := w.config()
				cfg.MaxPages, cfg.HostConcurrency, cfg.Rules = limit, 2, anywhere
				cfg.Politeness.LatencyFactor = 0
				w.seed(w.worker(cfg), web.seeds()...)
				var runs sync.WaitGroup
				for range workers {
					crawl := w.worker(cfg)
					runs.Go(func() {
						if end, err := crawl.Run(t.Context()); err != nil || end != fetcher.Limit {
							t.Errorf("Run ended with %q, %v, want %q", end, err, fetcher.Limit)
						}
					})
				}
				runs.Wait()
				w.balanced()
				if stats := w.stats(); stats.Pages != limit || stats.Leased != 0 {
					t.Errorf("%d workers: %d pages, want %d; %d items leased, want 0",
						workers, stats.Pages, limit, stats.Leased)
				}
				// Another run continues the crawl, and has nothing to do.
				before := len(w.wire.log())
				if end, err := w.worker(cfg).Run(t.Context()); err != nil || end != fetcher.Limit || len(w.wire.log()) != before {
					t.Errorf("a later Run ended with %q, %v, after %d requests, want %q after none",
						end, err, len(w.wire.log())-before, fetcher.Limit)
				}
			})
		}
	}
}

// TestMaxPagesOfShared: in a crawl whose leases may have more items than the limit permits, the pages
// beyond it are those whose requests were under way when the last page within it was completed: no request
// starts later. A worker without others makes none. All other items go back to the queue, and a run with a
// higher limit goes on.
func TestMaxPagesOfShared(t *testing.T) {
	t.Parallel()
	rng := dice(t)
	for workers := 1; workers <= 3; workers++ {
		synctest.Test(t, func(t *testing.T) {
			web := &randomWeb{salt: rng.Uint64(), hosts: 16, pages: 40}
			answer := func(r *http.Request, url string, try int) (reply, bool) {
				found, ok := web.answer(r, url, try)
				found.wait += time.Second + time.Duration(len(url)%7)*100*time.Millisecond
				return found, ok
			}
			w := newWorldOf(t, &wire{answer: answer}, frontiertest.MemoryConfig{PagesOnly: true})
			limits := &limitedStore{Memory: w.store}
			cfg := w.config()
			cfg.Store, cfg.HostConcurrency, cfg.Rules = limits, 2, anywhere
			cfg.Politeness.LatencyFactor = 0
			w.seed(w.worker(cfg), web.seeds()...)
			for _, limit := range []uint64{1, 33, 100} {
				cfg.MaxPages = limit
				limits.begin(t, limit)
				var runs sync.WaitGroup
				for range workers {
					crawl := w.worker(cfg)
					runs.Go(func() {
						if end, err := crawl.Run(t.Context()); err != nil || end != fetcher.Limit {
							t.Errorf("Run ended with %q, %v, want %q", end, err, fetcher.Limit)
						}
					})
				}
				runs.Wait()
				w.balanced()
				stats := w.stats()
				if stats.Pages < limit || workers == 1 && stats.Pages > limit || stats.Leased != 0 {
					t.Errorf("%d workers: %d pages with limit %d; %d items leased, want 0", workers, stats.Pages, limit, stats.Leased)
				}
				for _, call := range w.wire.log() {
					if call.start.After(limits.reached) {
						t.Errorf("%d workers, limit %d: %s was requested %v after the limit was reached",
							workers, limit, call.url, call.start.Sub(limits.reached))
					}
				}
			}
		})
	}
}

// limitedStore notes when the pages reach a limit.
type limitedStore struct {
	*frontiertest.Memory
	mu      sync.Mutex
	limit   uint64
	reached time.Time
	away    bool // LimitReached fails
}

func (s *limitedStore) begin(t *testing.T, limit uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit, s.reached = limit, time.Time{}
	s.note(t.Context())
}

// note stores the time if the pages have just reached the limit. The caller must hold mu.
func (s *limitedStore) note(ctx context.Context) {
	if stats, _ := s.Stats(ctx); s.reached.IsZero() && stats.Pages >= s.limit {
		s.reached = time.Now()
	}
}

func (s *limitedStore) LimitReached(ctx context.Context, maxPages uint64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return false, frontier.ErrUnavailable
	}
	return s.Memory.LimitReached(ctx, maxPages)
}

func (s *limitedStore) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, host frontier.HostUpdate) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.Memory.Complete(ctx, id, done, host)
	s.note(ctx)
	return err
}

// TestLimitUnknown: while the store cannot say whether the limit is reached, no request starts.
func TestLimitUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{PagesOnly: true})
		limits := &limitedStore{Memory: w.store, away: true}
		cfg := w.config()
		cfg.Store, cfg.MaxPages = limits, 2
		crawl := w.worker(cfg)
		w.seed(crawl, "http://a.test/1", "http://a.test/2", "http://a.test/3")
		end := make(chan fetcher.End, 1)
		go func() {
			got, err := crawl.Run(t.Context())
			if err != nil {
				t.Error(err)
			}
			end <- got
		}()
		time.Sleep(time.Minute)
		if n := len(w.wire.log()); n != 0 {
			t.Errorf("%d requests while the limit is unknown, want 0", n)
		}
		limits.mu.Lock()
		limits.away = false
		limits.mu.Unlock()
		if got := <-end; got != fetcher.Limit {
			t.Errorf("Run ended with %q, want %q", got, fetcher.Limit)
		}
		w.balanced()
	})
}

// TestMaxPagesOfTheDead: the items of a dead worker count against the limit until their
// lease expires. A worker without other work waits until then, and fetches pages up to the
// limit.
func TestMaxPagesOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{LeaseTTL: time.Minute})
		cfg := w.config()
		cfg.MaxPages = 3
		crawl := w.worker(cfg)
		for i := range 4 {
			w.seed(crawl, fmt.Sprintf("http://h%d.test/", i))
		}
		grant, err := w.store.Lease(t.Context(), frontier.LeaseRequest{Worker: "dead", IDs: []frontier.LeaseID{{1}, {2}}})
		if err != nil || len(grant.Leases) != 2 {
			t.Fatalf("Lease returned %d leases, %v, want 2", len(grant.Leases), err)
		}
		if end, err := crawl.Run(t.Context()); err != nil || end != fetcher.Limit {
			t.Errorf("Run ended with %q, %v, want %q", end, err, fetcher.Limit)
		}
		w.balanced()
		if stats := w.stats(); stats.Pages != cfg.MaxPages {
			t.Errorf("%d pages, want %d", stats.Pages, cfg.MaxPages)
		}
	})
}

// TestHoldKeepsRunning: Run does not end during a Hold, and continues as soon as seeds are
// added.
func TestHoldKeepsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{})
		c := w.worker(w.config())
		release := c.Hold()
		var added time.Time
		var feeding sync.WaitGroup
		feeding.Go(func() {
			time.Sleep(10*time.Minute + 333*time.Millisecond)
			added = time.Now()
			w.seed(c, "http://a.test/1")
			time.Sleep(10 * time.Minute)
			w.seed(c, "http://a.test/2")
			release()
			release()
		})
		if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		feeding.Wait()
		w.balanced()
		if calls := w.wire.log(); len(calls) != 3 || calls[0].start.Sub(added) > 10*time.Millisecond {
			t.Errorf("%d requests, want 3; the first came %v after the seed, want at most 10 ms",
				len(calls), calls[0].start.Sub(added))
		}
	})
}

// TestWakeIsNotLost: a new seed is requested at once, also if it is added at an unlucky
// moment.
func TestWakeIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{})
		cfg := w.config()
		c := w.worker(cfg)
		release := c.Hold()
		var feeding sync.WaitGroup
		feeding.Go(func() {
			defer release()
			for i := range fewer(400) {
				time.Sleep(time.Duration(i) * 1234567 * time.Nanosecond % (40 * time.Millisecond))
				w.seed(c, fmt.Sprintf("http://h%d.test/", i))
				at := time.Now()
				time.Sleep(12 * time.Millisecond)
				calls := w.wire.log()
				if last := calls[len(calls)-1]; last.start.Before(at) {
					t.Fatalf("seed %d was not requested within 12 ms", i)
				}
			}
		})
		if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		feeding.Wait()
	})
}

// TestEmptyEndsRun: a crawl with nothing to do ends without an error.
func TestEmptyEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{})
		w.crawl(w.config())
	})
}

// TestRunOnce: the second Run of a Crawl is an error.
func TestRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{})
		c := w.worker(w.config())
		if _, err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Run(t.Context()); err == nil {
			t.Error("the second Run returned no error")
		}
	})
}

// TestPausedStore: a worker waits while the crawl is paused, and calls the store rarely.
func TestPausedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{})
		counted := &counter{Memory: w.store}
		cfg := w.config()
		cfg.Store = counted
		c := w.worker(cfg)
		w.seed(c, "http://a.test/")
		if err := w.store.Pause(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, func() { _ = w.store.Pause(context.Background(), false) })
		begun := time.Now()
		if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		if at := w.wire.log()[0].start.Sub(begun); at < time.Hour || at > time.Hour+2*time.Second {
			t.Errorf("the first request came after %v, want an hour", at)
		}
		if counted.leases > 4000 {
			t.Errorf("Lease was called %d times in an hour, want at most 4000", counted.leases)
		}
	})
}

// counter counts the calls of Lease.
type counter struct {
	*frontiertest.Memory
	leases int
}

func (c *counter) Lease(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
	c.leases++
	return c.Memory.Lease(ctx, request)
}

// TestIdleWorkerIsQuiet: while a worker waits for its last page, and a limit
// prevents further leases, it calls the store about once a second.
func TestIdleWorkerIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{"http://a.test/1": {wait: 25 * time.Second}}))
		counted := &counter{Memory: w.store}
		cfg := w.config()
		cfg.Store, cfg.MaxPages = counted, 1
		c := w.worker(cfg)
		w.seed(c, "http://a.test/1", "http://a.test/2")
		if end, err := c.Run(t.Context()); err != nil || end != fetcher.Limit {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		if counted.leases > 40 {
			t.Errorf("Lease was called %d times in 27 s, want at most 40", counted.leases)
		}
	})
}

// stoppable returns the world, the config and the seeds of a crawl of many hosts. The
// argument slow is the time until a page is answered.
func stoppable(t *testing.T, slow time.Duration) (*world, config, []string) {
	w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
		if strings.HasSuffix(url, "/robots.txt") {
			return reply{}, false
		}
		r := links("/a", "/b", "/c/d", "c")
		r.wait = slow
		return r, true
	}})
	cfg := w.config()
	cfg.HostConcurrency, cfg.Concurrency = 2, 8
	cfg.Politeness.LatencyFactor = 0
	var seeds []string
	for i := range 20 {
		seeds = append(seeds, fmt.Sprintf("http://h%d.test/", i), fmt.Sprintf("http://h%d.test/2", i))
	}
	return w, cfg, seeds
}

// TestSoftStop: requests under way finish and none is started. All other items go back
// unchanged, and a second worker finishes the crawl and keeps each host's delay.
func TestSoftStop(t *testing.T) {
	// After 1.5 s, each host that has a slot has one request under way, and the delay before its
	// second request has not ended. After 10 s, both requests to each host are under way.
	for _, after := range []time.Duration{1500 * time.Millisecond, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w, cfg, seeds := stoppable(t, 20*time.Second)
			c := w.worker(cfg)
			w.seed(c, seeds...)
			stop, cancel := context.WithCancel(t.Context())
			time.AfterFunc(after, cancel)
			begun := time.Now()
			if end, err := c.Run(stop); err != nil || end != fetcher.Stopped {
				t.Fatalf("Run ended with %q, %v", end, err)
			}
			if took := time.Since(begun); took < 20*time.Second || took > 30*time.Second {
				t.Errorf("Run took %v, want 20 s to 30 s: until the requests under way ended", took)
			}
			for _, call := range w.wire.log() {
				if call.aborted || call.start.Sub(begun) > after {
					t.Errorf("%s started %v after Run, aborted %v, want it to start before the stop at %v and to finish",
						call.url, call.start.Sub(begun), call.aborted, after)
				}
			}
			w.given(0)
			w.resume(cfg)
		})
	}
}

// given checks the state after a stop. The argument wantLeased is the number of items that are
// still leased. Other items are queued, and none of these has used up an attempt.
func (w *world) given(wantLeased uint64) {
	w.t.Helper()
	if stats := w.stats(); stats.Leased != wantLeased || stats.Queued == 0 {
		w.t.Errorf("after a stop: %d items leased, want %d; %d queued, want some", stats.Leased, wantLeased, stats.Queued)
	}
	_ = w.store.List(w.t.Context(), frontier.Queued, "", func(item frontier.Item) bool {
		if item.Attempts != 0 || item.Deliveries != 0 {
			w.t.Errorf("after a stop: %s is queued with %d attempts and %d deliveries, want 0",
				item.URL, item.Attempts, item.Deliveries)
		}
		return true
	})
	w.balanced()
}

// resume finishes a crawl that was stopped, and checks the whole crawl.
func (w *world) resume(cfg config) {
	w.t.Helper()
	if end, err := w.worker(cfg).Run(w.t.Context()); err != nil || end != fetcher.Empty {
		w.t.Fatalf("the second Run ended with %q, %v", end, err)
	}
	w.balanced()
	judgeStarts(w.t, w.wire.log(), same(cfg.Politeness))
	if stats := w.stats(); stats.Failed != 0 || stats.Done != stats.Added {
		w.t.Errorf("books %+v, want all added URLs done", stats.Books)
	}
}

// TestGraceIsOver: requests that take longer than the grace are aborted.
func TestGraceIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, cfg, seeds := stoppable(t, 25*time.Second)
		cfg.Grace = 5 * time.Second
		c := w.worker(cfg)
		w.seed(c, seeds...)
		stop, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		begun := time.Now()
		if end, err := c.Run(stop); err != nil || end != fetcher.Stopped {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		if took := time.Since(begun); took != 15*time.Second {
			t.Errorf("Run took %v, want 15s", took)
		}
		w.given(0)
		w.resume(cfg)
	})
}

// TestAbortEndsRequests: an abort ends requests at once, with or without a soft stop
// before. The context of OnPage ends. If OnPage then returns an error, the page has not
// failed.
func TestAbortEndsRequests(t *testing.T) {
	for _, inHandler := range []bool{false, true} {
		for _, soft := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				slow := 25 * time.Second
				if inHandler {
					slow = 0
				}
				w, cfg, seeds := stoppable(t, slow)
				if inHandler {
					cfg.OnPage = func(ctx context.Context, _ *fetcher.Page) error { return wait(ctx, time.Hour) }
				}
				c := w.worker(cfg)
				w.seed(c, seeds...)
				stop, cancel := context.WithCancel(t.Context())
				defer cancel()
				if soft {
					time.AfterFunc(5*time.Second, cancel)
				}
				time.AfterFunc(10*time.Second, c.Abort)
				begun := time.Now()
				if end, err := c.Run(stop); err != nil || end != fetcher.Stopped {
					t.Fatalf("Run ended with %q, %v", end, err)
				}
				if took := time.Since(begun); took != 10*time.Second {
					t.Errorf("Run took %v, want 10s", took)
				}
				w.given(0)
				cfg.OnPage = nil
				w.resume(cfg)
			})
		}
	}
}

// TestDeadlineWithLowRate: a run whose context has a deadline lasts until the
// deadline, even if the rate allows the next request only later.
func TestDeadlineWithLowRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, cfg, seeds := stoppable(t, 0)
		cfg.Rate = 0.1
		counted := &counter{Memory: w.store}
		cfg.Store = counted
		c := w.worker(cfg)
		w.seed(c, seeds...)
		stop, cancel := context.WithTimeout(t.Context(), 95*time.Second)
		defer cancel()
		if end, err := c.Run(stop); err != nil || end != fetcher.Stopped {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		if n := len(w.wire.log()); n != 10 || counted.leases > 200 {
			t.Errorf("%d requests, want 10; %d calls of Lease, want at most 200", n, counted.leases)
		}
		w.given(0)
	})
}

// TestSeedAnswers: Seeds returns one answer for each text, in order. The answer for a text
// that cannot be a seed has the reason.
func TestSeedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{})
		c := w.worker(w.config())
		answers, err := c.Seeds(t.Context(), []string{"a.test/x#y", "ftp://a.test/", "http://[", "https://a.test/x", ""})
		if err != nil {
			t.Fatal(err)
		}
		want := []frontier.Verdict{{Answer: frontier.Added}, {Answer: frontier.Refused, Reason: frontier.ReasonScheme},
			{Answer: frontier.Refused, Reason: frontier.ReasonMalformed}, {Answer: frontier.Seen}, {Answer: frontier.Refused, Reason: frontier.ReasonMalformed}}
		for i, a := range answers {
			if a.Verdict != want[i] || (a.Err == nil) != (a.URL != "") {
				t.Errorf("%q: %+v, want %v", a.Raw, a, want[i])
			}
		}
		faulty := w.config()
		faulty.Store = frontiertest.NewFaulty(w.store, frontiertest.Script(map[frontiertest.Op][]frontiertest.Fault{
			frontiertest.OpAdd: {{Err: frontier.ErrFull}},
		}))
		if _, err := w.worker(faulty).Seeds(t.Context(), []string{"http://b.test/"}); !errors.Is(err, frontier.ErrFull) {
			t.Errorf("error %v, want ErrFull", err)
		}
	})
}
