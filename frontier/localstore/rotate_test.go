package localstore

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// bulkWindow sets the window of bulk keys as frontiertest.RunBulkWindow needs it.
func bulkWindow(cfg *Config) {
	cfg.Windows, cfg.Generations = suiteWindows, frontiertest.BulkGenerations
	cfg.Windows[frontier.Bulk] = frontiertest.Window
	cfg.Filter = membits.Config{Capacity: 3000, FPR: 1e-9, Shards: 2}
}

func TestBulkWindow(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"journal": bulkWindow, "pure": func(cfg *Config) { bulkWindow(cfg); cfg.Pure = isPure },
		"checkpoints": func(cfg *Config) { bulkWindow(cfg); cfg.CheckpointAdds = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			frontiertest.RunBulkWindow(t, func(t *testing.T, opt frontiertest.Options) frontiertest.Crawl {
				return openWith(t, vfs.NewMem(), "crawl", opt, change)
			})
		})
	}
}

func TestBulkWindowModel(t *testing.T) {
	t.Parallel()
	runs, steps := 8, 2000
	if *proof {
		runs, steps = 60, 10000
	}
	first, runs := suite.FirstSeed(*seed, runs)
	for i := range uint64(runs) {
		frontiertest.BulkWindowModel(t, func(t *testing.T, opt frontiertest.Options) frontiertest.Crawl {
			return openWith(t, vfs.NewMem(), "crawl", opt, func(cfg *Config) {
				bulkWindow(cfg)
				cfg.CheckpointAdds = []int{0, 5, 40}[(first+i)%3]
			})
		}, first+i, steps)
	}
}

// TestSuiteWithBulkWindow: a window that is not over changes nothing.
func TestSuiteWithBulkWindow(t *testing.T) {
	t.Parallel()
	frontiertest.Run(t, func(t *testing.T, opt frontiertest.Options) frontiertest.Crawl {
		if opt.Capacity > 0 {
			t.Skip("needs a filter that does not grow")
		}
		return openWith(t, vfs.NewMem(), "crawl", opt, func(cfg *Config) { cfg.Windows[frontier.Bulk] = 1000 * frontiertest.Window })
	})
}

// TestCarryInSteps: one group carries over some thousand keys. A crash, or the next generation, in between loses none. A
// URL that is finished meanwhile counts as seen for a whole window.
func TestCarryInSteps(t *testing.T) {
	t.Parallel()
	const items, part = 3 * maxCarried, frontiertest.Window / frontiertest.BulkGenerations
	clock := suite.NewClock()
	cfg := Config{Dir: "crawl", FS: vfs.NewMem(), Now: clock.Now}
	bulkWindow(&cfg)
	crawl := &reopener{Store: opened(t, cfg, Open), cfg: cfg}
	defer func() { _ = crawl.Close() }()
	if got := answers(t, crawl.Store, frontier.Bulk, 0, items); got[frontier.Added] != items {
		t.Fatalf("answers are %v, want only added", got)
	}
	last := frontier.Offer{URL: "http://z.test/", Host: "z.test"} // its key is carried over after all others
	answer(t, crawl.Store, last, frontier.Added)
	clock.Advance(part - time.Duration(clock.Now().UnixNano()%int64(part))) // the next generation starts
	grant, err := crawl.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{1}, {2}}})
	if state := crawl.meta.Window; err != nil || len(grant.Leases) != 2 || state.Repeated != maxCarried {
		t.Fatalf("after one group the state is %+v, want %d keys carried over; leases %v, error %v", state, maxCarried, grant.Leases, err)
	}
	l := grant.Leases[0]
	if l.Host != last.Host {
		l = grant.Leases[1]
	}
	done := frontier.Completion{Item: l.Items[0].Fingerprint, Outcome: frontier.OK}
	if err := crawl.Complete(t.Context(), l.ID, []frontier.Completion{done}, frontier.HostUpdate{End: true}); err != nil {
		t.Fatal(err)
	}
	if state := crawl.meta.Window; state.Repeated != 2*maxCarried+1 || state.Carried == state.Newest {
		t.Fatalf("after two groups the state is %+v, want %d keys carried over, and more to come", state, 2*maxCarried+1)
	}
	if _, err := crawl.Crash(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(frontiertest.Window - time.Microsecond) // the next generation starts before all keys are carried over
	answer(t, crawl.Store, last, frontier.Seen)
	for i := range 2 * frontiertest.BulkGenerations {
		if got := answers(t, crawl.Store, frontier.Bulk, 0, items); got[frontier.Seen] != items {
			t.Fatalf("in part %d the answers are %v, want only seen: all items wait", i, got)
		}
		if clock.Advance(part); i%2 == 0 {
			clock.Advance(5 * part)
		}
	}
	checkRecount(t, crawl.Store)
}

// TestBulkWindowRates: the rate of all generations that are asked stays below the configured one, the number of swallowed
// URLs is as expected, the sample forgets nothing, and a rebuild gives every key its generation.
func TestBulkWindowRates(t *testing.T) {
	t.Parallel()
	const keys, p = 20_000, 0.01
	clock := suite.NewClock()
	cfg := Config{Dir: "crawl", FS: vfs.NewMem(), Now: clock.Now}
	bulkWindow(&cfg)
	cfg.Filter = membits.Config{Capacity: keys, FPR: p, Shards: 8}
	s := opened(t, cfg, Open)
	defer func() { _ = s.Close() }()
	const perPart = keys / frontiertest.BulkGenerations
	swallowed, next := 0, 0
	for part := range 9 {
		for end := next + perPart; next < end; next += 500 {
			swallowed += answers(t, s, frontier.Bulk, next, min(next+500, end))[frontier.Seen]
		}
		if part < 8 {
			finishAll(t, s, clock)
			clock.Advance(frontiertest.Window / frontiertest.BulkGenerations)
		}
		all, err := s.Stats(t.Context())
		if err != nil || all.Filter.FPR > p {
			t.Errorf("in part %d the rate is %.3g, want at most %g (error %v)", part, all.Filter.FPR, p, err)
		}
	}
	all, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lost := all.Filter.Window.Lost
	t.Logf("%d of %d new URLs were swallowed, %.1f expected; shadow %+v; rate %.4g", swallowed, next, lost, all.Shadow, all.Filter.FPR)
	if d := float64(swallowed) - lost; d*d > 25*lost || lost < 100 || all.Shadow.Forgotten > 0 || all.Shadow.Lost > 10 {
		t.Errorf("%d of %d new URLs were swallowed, want %.1f ± 5σ; shadow %+v", swallowed, next, lost, all.Shadow)
	}
	checkRecount(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, cfg, Rebuild)
	checkRecount(t, s)
	again, err := s.Stats(t.Context())
	if err != nil || again.Filter.Window.Lost != lost || again.Filter.Keys+again.Filter.Keys/50 < all.Filter.Keys || again.Filter.Keys > all.Filter.Keys {
		t.Errorf("the rebuilt filter is %+v, want about %+v (error %v)", again.Filter, all.Filter, err)
	}
}

// finishAll fetches everything that waits.
func finishAll(t *testing.T, s *Store, clock *suite.Clock) {
	t.Helper()
	for {
		clock.Advance(time.Microsecond)
		id := frontier.LeaseID(bloomstore.NewKey())
		grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{id}})
		if err != nil || len(grant.Leases) == 0 {
			if err != nil || stats(t, s).Queued > 0 {
				t.Fatalf("Lease: %+v, %v", grant, err)
			}
			return
		}
		var done []frontier.Completion
		for _, item := range grant.Leases[0].Items {
			done = append(done, frontier.Completion{Item: item.Fingerprint, Outcome: frontier.OK})
		}
		if err := s.Complete(t.Context(), id, done, frontier.HostUpdate{End: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBulkWindowSample: a URL that was swallowed is in the sample as long as the generation that claimed it is asked. Keys of
// MarkSeen are seen for ever.
func TestBulkWindowSample(t *testing.T) {
	t.Parallel()
	clock := suite.NewClock()
	cfg := Config{Dir: "crawl", FS: vfs.NewMem(), Now: clock.Now}
	bulkWindow(&cfg)
	cfg.Filter = membits.Config{Capacity: 20_000, FPR: 0.5, Shards: 8}
	s := opened(t, cfg, Open)
	defer func() { _ = s.Close() }()
	knowPages(t, s, 1_000_000, 1_000_100)
	for part := range 8 {
		for first := 0; first < 20_000; first += 1000 {
			answers(t, s, frontier.Bulk, first, first+1000)
			answers(t, s, frontier.Bulk, (part+2)*20_000+first, (part+2)*20_000+first+300)
		}
		finishAll(t, s, clock)
		clock.Advance(frontiertest.Window / frontiertest.BulkGenerations)
	}
	if shadow := stats(t, s).Shadow; shadow.Forgotten > 0 || shadow.Lost < 5 {
		t.Errorf("the sample is %+v, want no forgotten keys, and some that were swallowed", shadow)
	}
	if got := answers(t, s, frontier.Bulk, 1_000_000, 1_000_100); got[frontier.Seen] != 100 {
		t.Errorf("keys of MarkSeen are answered %v, want seen", got)
	}
}
