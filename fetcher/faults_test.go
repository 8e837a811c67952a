package fetcher_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
)

// TestStoreFaults crawls over a store that often fails, in every way that the
// contract allows. Each URL is still finished and recorded once, and each
// host's delay is kept.
func TestStoreFaults(t *testing.T) {
	t.Parallel()
	rng := dice(t)
	for _, share := range []float64{0.05, 0.4} {
		for workers := 1; workers <= 2; workers++ {
			plan, salt := rng.Uint64(), rng.Uint64()
			t.Run(fmt.Sprintf("share=%v/workers=%d", share, workers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					web := &randomWeb{salt: salt, hosts: 16, pages: fewer(20)}
					w := newWorldOf(t, &wire{answer: web.answer}, frontiertest.MemoryConfig{Delay: time.Second})
					cfg := w.config()
					cfg.Rules = anywhere
					w.seed(w.worker(cfg), web.seeds()...)
					faulty := frontiertest.NewFaulty(w.store, frontiertest.Random(plan, share, 200*time.Millisecond))
					cfg.Store = faulty
					var runs sync.WaitGroup
					for range workers {
						c := w.worker(cfg)
						runs.Go(func() {
							if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
								t.Errorf("Run ended with %q, %v", end, err)
							}
						})
					}
					runs.Wait()
					w.balanced()
					stats := w.stats()
					if faulty.Faults() < fewer(50) || stats.Done < uint64(fewer(150)) || stats.Queued+stats.Leased != 0 {
						t.Errorf("%d faults, want at least %d; stats %+v, want at least %d done and none waiting",
							faulty.Faults(), fewer(50), stats, fewer(150))
					}
					if n := stats.Outcomes[frontier.WorkerLost]; n > 0 {
						t.Errorf("%d items have the outcome WorkerLost, want 0", n)
					}
					judgeGaps(t, w.wire.log(), cfg.Politeness.Delay)
				})
			})
		}
	}
}

// judgeGaps checks that two requests to one host start at least minGap apart. It does not
// check longer delays, because a host's state can be lost together with a lease.
func judgeGaps(t *testing.T, calls []call, minGap time.Duration) {
	t.Helper()
	if minGap == 0 {
		minGap = time.Second
	}
	last := map[string]time.Time{}
	for _, c := range calls {
		if before, asked := last[c.host]; asked && c.start.Sub(before) < minGap {
			t.Errorf("%s started %v after the request before it, want at least %v", c.url, c.start.Sub(before), minGap)
		}
		last[c.host] = c.start
	}
}

// TestLateReplies: if a reply is lost after the call took effect, no lease has
// to expire and no page is requested again.
func TestLateReplies(t *testing.T) {
	for _, op := range []frontiertest.Op{frontiertest.OpLease, frontiertest.OpComplete, frontiertest.OpExtend} {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, &wire{})
				cfg := w.config()
				var seeds []string
				for i := range 100 {
					seeds = append(seeds, fmt.Sprintf("http://a.test/%d", i))
				}
				cfg.Store = frontiertest.NewFaulty(w.store, func(at frontiertest.Op, call int) frontiertest.Fault {
					if at == op && call%2 == 0 {
						return frontiertest.Fault{Err: frontier.ErrUnavailable, Late: true}
					}
					return frontiertest.Fault{}
				})
				c := w.worker(cfg)
				w.seed(c, seeds...)
				begun := time.Now()
				if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
					t.Fatalf("Run ended with %q, %v", end, err)
				}
				w.balanced()
				if n := len(w.wire.log()); n != 101 || c.Progress().LeasesLost > 0 {
					t.Errorf("%d requests, want 101; %d leases lost, want 0", n, c.Progress().LeasesLost)
				}
				if took := time.Since(begun); took > 110*time.Second {
					t.Errorf("Run took %v, want about 100 s", took)
				}
				judgeGaps(t, w.wire.log(), 0)
			})
		})
	}
}

// TestLeaseLost: a worker drops the requests of a lost lease. Their pages are
// requested again under the next lease and counted once.
func TestLeaseLost(t *testing.T) {
	for _, op := range []frontiertest.Op{frontiertest.OpComplete, frontiertest.OpExtend} {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, pages(map[string]reply{
					"http://a.test/1": {wait: 20 * time.Second, body: links("/3").body},
				}), frontiertest.MemoryConfig{Delay: time.Second})
				cfg := w.config()
				cfg.Store = frontiertest.NewFaulty(w.store, frontiertest.Script(map[frontiertest.Op][]frontiertest.Fault{
					op: {{Err: frontier.ErrLeaseLost}},
				}))
				c := w.worker(cfg)
				w.seed(c, "http://a.test/1", "http://a.test/2")
				if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
					t.Fatalf("Run ended with %q, %v", end, err)
				}
				w.balanced()
				if lost := c.Progress().LeasesLost; lost != 1 {
					t.Errorf("%d leases lost, want 1", lost)
				}
				if n := w.wire.count("http://a.test/1"); n != 2 || w.stats().Done != 3 {
					t.Errorf("%d requests for the page of the lost lease, want 2; books %+v, want 3 done",
						n, w.stats().Books)
				}
				judgeGaps(t, w.wire.log(), 0)
			})
		})
	}
}

// frozen is a store that delays its first lease by the time in the field naps, as if the
// worker had been frozen while it waited for the lease.
type frozen struct {
	*frontiertest.Memory
	naps time.Duration
}

func (f *frozen) Lease(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
	grant, err := f.Memory.Lease(ctx, request)
	if len(grant.Leases) > 0 {
		time.Sleep(f.naps)
		f.naps = 0
	}
	return grant, err
}

// TestFrozenWorker: if a worker was frozen until its lease was over, it starts no
// request under that lease. The same is true if the worker wakes up in the last
// second of the lease.
func TestFrozenWorker(t *testing.T) {
	for _, nap := range []time.Duration{29*time.Second + time.Millisecond, 30 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{Delay: time.Second})
			cfg := w.config()
			cfg.Store = &frozen{w.store, nap}
			thawed := w.worker(cfg)
			w.seed(thawed, "http://a.test/")
			begun := time.Now()
			if end, err := thawed.Run(t.Context()); err != nil || end != fetcher.Empty {
				t.Fatalf("Run ended with %q, %v", end, err)
			}
			w.balanced()
			if at := w.wire.log()[0].start.Sub(begun); at < nap || at > max(nap, 30*time.Second)+2*time.Second {
				t.Errorf("nap of %v: the first request came %v after the start, want %v to %v",
					nap, at, nap, max(nap, 30*time.Second)+2*time.Second)
			}
			lost := thawed.Progress().LeasesLost
			if want := map[bool]uint64{true: 1, false: 0}[nap >= 30*time.Second]; lost != want {
				t.Errorf("nap of %v: %d leases lost, want %d", nap, lost, want)
			}
		})
	}
}

// TestFatalErrors: an error of the store that is not an outage or a lost lease ends
// Run soon, and Run returns it. This also holds while Run is stopping.
func TestFatalErrors(t *testing.T) {
	fatal := errors.New("the disk is gone")
	for _, op := range []frontiertest.Op{frontiertest.OpLease, frontiertest.OpExtend, frontiertest.OpComplete} {
		for _, stopped := range []bool{false, true} {
			if stopped && op == frontiertest.OpLease {
				continue // a worker that is stopping leases no host
			}
			t.Run(fmt.Sprintf("%s/stopped=%t", op, stopped), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, cfg, seeds := stoppable(t, 25*time.Second)
					stop, cancel := context.WithCancel(t.Context())
					defer cancel()
					cfg.Store = frontiertest.NewFaulty(w.store, func(at frontiertest.Op, call int) frontiertest.Fault {
						// The run is stopped while the call is under way,
						// before the call fails.
						if at == op && call >= 1 {
							if stopped {
								cancel()
							}
							return frontiertest.Fault{Err: fatal}
						}
						return frontiertest.Fault{}
					})
					c := w.worker(cfg)
					w.seed(c, seeds...)
					begun := time.Now()
					if end, err := c.Run(stop); !errors.Is(err, fatal) || end != "" {
						t.Errorf("Run ended with %q, %v, want the store's error", end, err)
					}
					if took := time.Since(begun); took > 2*time.Minute {
						t.Errorf("Run took %v, want at most 2 minutes", took)
					}
				})
			})
		}
	}
}

// TestRecordsFail: Run ends with the error of a record that cannot be written.
func TestRecordsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{})
		cfg := w.config()
		full := errors.New("no space left")
		cfg.Sink = failingSink{full}
		c := w.worker(cfg)
		w.seed(c, "http://a.test/")
		if _, err := c.Run(t.Context()); !errors.Is(err, full) {
			t.Errorf("Run ended with %v, want the sink's error", err)
		}
		if stats := w.stats(); stats.Done != 0 {
			t.Errorf("a page without a record is done: %+v", stats.Books)
		}
	})
}

// TestOutageOfStore: the store is unreachable for an hour in the middle of the
// crawl. Nothing is lost, no request starts without a lease, and a stop during
// the outage still ends the run.
func TestOutageOfStore(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, cfg, seeds := stoppable(t, 3*time.Second)
			from := time.Now().Add(5 * time.Second)
			cfg.Store = frontiertest.NewFaulty(w.store, func(frontiertest.Op, int) frontiertest.Fault {
				if since := time.Since(from); since >= 0 && since < time.Hour {
					return frontiertest.Fault{Err: frontier.ErrUnavailable}
				}
				return frontiertest.Fault{}
			})
			c := w.worker(cfg)
			setUp := cfg
			setUp.Store = w.store
			w.seed(w.worker(setUp), seeds...)
			stop, cancel := context.WithCancel(t.Context())
			defer cancel()
			want := fetcher.Empty
			if stopped {
				want = fetcher.Stopped
				time.AfterFunc(20*time.Minute, cancel)
			}
			begun := time.Now()
			if end, err := c.Run(stop); err != nil || end != want {
				t.Fatalf("Run ended with %q, %v", end, err)
			}
			if took := time.Since(begun); stopped && took > 21*time.Minute {
				t.Errorf("Run took %v, want at most 20 minutes and the grace", took)
			}
			for _, call := range w.wire.log() {
				if after := call.start.Sub(from); after > 30*time.Second && after < time.Hour {
					t.Errorf("%s started %v after the outage began, want none between 30 s and its end", call.url, after)
				}
			}
			time.Sleep(2 * time.Hour)
			w.resume(setUp)
		})
	}
}

// TestOutageHoldsUpRequests: while no page can be completed, the worker fetches only as many
// pages as fit into maxBacklog bytes, and at most one more for each host.
func TestOutageHoldsUpRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const hosts, pages, refs = 4, 6, 2000
		many := make([]string, refs)
		for i := range many {
			many[i] = fmt.Sprintf("/%d/%s", i, strings.Repeat("x", 2000))
		}
		full := links(many...)
		w := newWorld(t, &wire{answer: func(r *http.Request, url string, _ int) (reply, bool) {
			return full, strings.HasSuffix(url, "/seed")
		}})
		cfg := w.config()
		cfg.Rules.MaxDepth = 0
		var seeds []string
		for i := range hosts * pages {
			seeds = append(seeds, fmt.Sprintf("http://h%d.test/%d/seed", i%hosts, i/hosts))
		}
		w.seed(w.worker(cfg), seeds...)
		begun := time.Now()
		cfg.Store = frontiertest.NewFaulty(w.store, func(op frontiertest.Op, _ int) frontiertest.Fault {
			if op == frontiertest.OpComplete && time.Since(begun) < 10*time.Minute {
				return frontiertest.Fault{Err: frontier.ErrUnavailable}
			}
			return frontiertest.Fault{}
		})
		cfg.OnRefused = func(fetcher.Refused) {}
		var log logLines
		cfg.Logger = log.logger()
		c := w.worker(cfg)
		wait := inBackground(t, c)
		time.Sleep(9 * time.Minute)
		if p := c.Progress(); !p.StoreFull || p.StoreWaiting == 0 {
			t.Errorf("during the outage: StoreFull %t, %d pages wait; want true and some", p.StoreFull, p.StoreWaiting)
		}
		wait()
		if p := c.Progress(); p.StoreFull || p.StoreAway > 0 {
			t.Errorf("at the end: StoreFull %t, StoreAway %v, want false and 0", p.StoreFull, p.StoreAway)
		}
		log.wants(t, map[string]int{`msg="store unavailable"`: 1, `no request starts until the store answers`: 1, `msg="store answers again"`: 1})
		w.balanced()
		early := 0
		for _, c := range w.wire.log() {
			if !c.robots() && c.start.Sub(begun) < 9*time.Minute {
				early++
			}
		}
		// Each page has 4 MB of URLs, and each host had at most one request under way
		// when the backlog was full.
		if least, most := 64/5, 64/4+hosts; early < least || early > most {
			t.Errorf("%d pages were requested in the first 9 minutes of the outage, want %d to %d", early, least, most)
		}
	})
}

// partAway is a store that cannot complete some items for a while.
type partAway struct {
	*frontiertest.Memory
	affected map[bloomstore.Fingerprint]bool
	away     func() bool
}

func (s *partAway) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	hit := slices.ContainsFunc(done, func(c frontier.Completion) bool { return s.affected[c.Item] })
	if hit && s.away() {
		return fmt.Errorf("exact set: %w", frontier.ErrUnavailable)
	}
	return s.Memory.Complete(ctx, id, done, update)
}

// TestStorePartAway: while the store cannot complete the items of many hosts, for much longer than a lease,
// these pages wait. All other hosts go on, no page is requested twice, and the outage is logged once.
func TestStorePartAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts, pagesOfHost = 10, 30
		w := newWorld(t, &wire{answer: func(r *http.Request, url string, _ int) (reply, bool) {
			return reply{wait: 100 * time.Millisecond}, strings.HasPrefix(r.URL.Host, "single") && !strings.HasSuffix(url, "/robots.txt")
		}})
		cfg := w.config()
		cfg.Concurrency = 2
		var log logLines
		cfg.Logger = log.logger()
		begun := time.Now()
		store := &partAway{w.store, map[bloomstore.Fingerprint]bool{}, func() bool { return time.Since(begun) < 20*time.Minute }}
		cfg.Store = store
		c := w.worker(cfg)
		var parts, others []string
		for n := range hosts * pagesOfHost {
			host, i := n%hosts, n/hosts
			url := fmt.Sprintf("http://part%d.test/%d", host, i)
			store.affected[w.store.Hasher().Fingerprint(url)] = true
			parts, others = append(parts, url), append(others, fmt.Sprintf("http://other%d.test/%d", host, i))
		}
		for i := range hosts { // the only page of its host ends the lease
			url := fmt.Sprintf("http://single%d.test/", i)
			store.affected[w.store.Hasher().Fingerprint(url)] = true
			parts = append(parts, url)
		}
		w.seed(c, parts...)
		wait := inBackground(t, c)
		time.Sleep(2 * time.Minute) // now the pages of these hosts wait
		w.seed(c, others...)
		time.Sleep(17 * time.Minute)
		stats, err := w.store.Stats(t.Context())
		if err != nil || stats.Done+stats.Failed != hosts*pagesOfHost {
			t.Errorf("%d items are finished during the outage (%v), want the %d of the other hosts", stats.Done+stats.Failed, err, hosts*pagesOfHost)
		}
		if p := c.Progress(); p.StoreWaiting == 0 || p.StoreFull || p.LeasesLost > 0 || p.StoreAway < 18*time.Minute {
			t.Errorf("during the outage %d pages wait for %v, StoreFull %t, %d leases are lost; want some for 19m, false and 0", p.StoreWaiting, p.StoreAway, p.StoreFull, p.LeasesLost)
		}
		wait()
		w.balanced()
		times := map[string]int{}
		for _, call := range w.wire.log() {
			if times[call.url]++; times[call.url] > 1 && !call.robots() {
				t.Errorf("%s was requested %d times", call.url, times[call.url])
			}
		}
		log.wants(t, map[string]int{`msg="store unavailable"`: 1, `msg="store answers again"`: 1})
	})
}

// blobs is a store that keeps the blobs (frontier.HostUpdate.Blob, the encoded state of a
// host) with which Complete is called.
type blobs struct {
	frontiertest.Crawl
	mu  sync.Mutex
	got [][]byte
}

func (b *blobs) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	b.mu.Lock()
	b.got = append(b.got, update.Blob)
	b.mu.Unlock()
	return b.Crawl.Complete(ctx, id, done, update)
}

// TestBlobOutlivesOutage: if the completion that carried a host's blob fails,
// the next completion carries the blob again.
func TestBlobOutlivesOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/robots.txt": crawlDelay("0"),
			"http://a.test/1":          page("one"), "http://a.test/2": page("two"), "http://a.test/3": page("three"),
		}))
		cfg := w.config()
		heard := &blobs{Crawl: w.store}
		cfg.Store = frontiertest.NewFaulty(heard, frontiertest.Script(map[frontiertest.Op][]frontiertest.Fault{
			frontiertest.OpComplete: {{Err: frontier.ErrUnavailable}},
		}))
		w.crawl(cfg, "http://a.test/1", "http://a.test/2", "http://a.test/3")
		if len(heard.got) < 3 || heard.got[0] == nil {
			t.Errorf("the store got %d completions, want at least 3, of which the first carries a blob", len(heard.got))
		}
	})
}

type failingSink struct{ err error }

func (f failingSink) Append(*record.Record) error { return f.err }

// badScope is a scope whose first calls fail with err. The initial value of the field
// failures is the number of these calls.
type badScope struct {
	frontier.Scope
	failures int
	err      error
	mu       sync.Mutex
}

func (s *badScope) fail() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures--
	if s.failures >= 0 {
		return s.err
	}
	return nil
}

func (s *badScope) Admit(ctx context.Context, keys []string) error {
	if err := s.fail(); err != nil {
		return err
	}
	return s.Scope.Admit(ctx, keys)
}

func (s *badScope) Admitted(ctx context.Context, keys []string) ([]bool, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	return s.Scope.Admitted(ctx, keys)
}

// TestScopeFails: a page is not completed until its links can be judged.
func TestScopeFails(t *testing.T) {
	web := map[string]reply{
		"http://a.test/":     redirect("http://www.test/"),
		"http://www.test/":   links("/page"),
		"http://other.test/": links("/page"),
	}
	synctest.Test(t, func(t *testing.T) { // the scope fails for a while
		w := newWorld(t, pages(web))
		cfg := w.config()
		w.seed(w.worker(cfg), "http://a.test/", "http://other.test/")
		cfg.Scope = &badScope{Scope: w.store, failures: 9, err: frontier.ErrUnavailable}
		c := w.worker(cfg)
		if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		w.balanced()
		if n, lost := len(w.wire.log()), c.Progress().LeasesLost; n != 8 || lost != 0 {
			t.Errorf("requests %q, want 8; %d leases lost, want 0", w.wire.urls(), lost)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the scope fails always
		w := newWorld(t, pages(web))
		cfg := w.config()
		w.seed(w.worker(cfg), "http://a.test/", "http://other.test/")
		gone := errors.New("gone")
		cfg.Scope = &badScope{Scope: w.store, failures: 1 << 30, err: gone}
		if _, err := w.worker(cfg).Run(t.Context()); !errors.Is(err, gone) {
			t.Errorf("Run ended with %v, want the scope's error", err)
		}
		if stats := w.stats(); stats.Done != 0 {
			t.Errorf("pages are done though their links could not be judged: %+v", stats.Books)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the scope fails while the run is stopping
		w := newWorld(t, pages(web))
		cfg := w.config()
		w.seed(w.worker(cfg), "http://a.test/", "http://other.test/")
		cfg.Scope = &badScope{Scope: w.store, failures: 1 << 30, err: frontier.ErrUnavailable}
		stop, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if end, err := w.worker(cfg).Run(stop); err != nil || end != fetcher.Stopped {
			t.Errorf("Run ended with %q, %v", end, err)
		}
		w.given(0)
	})
}

// TestWorkerLost: an item whose workers died too often is finished without a
// request.
func TestWorkerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{})
		cfg := w.config()
		c := w.worker(cfg)
		w.seed(c, "http://a.test/")
		for range frontier.MaxDeliveries {
			if _, err := w.store.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{byte(time.Now().Unix())}}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(31 * time.Second)
		}
		if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		got := w.sink.recordOf(t, "http://a.test/")
		if got.Outcome != string(frontier.WorkerLost) || len(w.wire.log()) != 0 || !strings.Contains(got.Error, "workers") {
			t.Errorf("record %+v, want the outcome WorkerLost; requests %v, want none", got, w.wire.urls())
		}
	})
}
