package localstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// sweeping is a store with some finished keys, whose windows are over.
type sweeping struct {
	*Store
	clock *suite.Clock
	cfg   Config
	items []frontier.Offer
}

// newSweeping returns a store with n done keys in each of two rounds, whose windows ended a minute ago. Two further keys
// have failed, and one more waits.
func newSweeping(t *testing.T, n int) *sweeping {
	t.Helper()
	s := &sweeping{clock: suite.NewClock()}
	live := policy.NewLive(&policy.Policy{MaxPerHost: uint64(max(n, 2))})
	s.cfg = Config{FS: vfs.NewMem(), Now: s.clock.Now, Pure: isPure, Policy: live.Load}
	s.Store = openWindowsWith(t, Open, s.cfg)
	for i := range n {
		s.items = append(s.items, frontier.Offer{URL: fmt.Sprintf("http://a.test/%d", i), Host: "a.test", Class: frontiertest.ClassWindow})
	}
	others := []frontier.Offer{{URL: "http://b.test/1", Host: "b.test", Class: frontiertest.ClassWindow},
		{URL: "http://b.test/2", Host: "b.test", Class: frontiertest.ClassWindow}}
	s.offer(t, others, frontier.Added)
	s.finish(t, frontier.Network)
	for range 2 {
		s.clock.Advance(frontiertest.Window)
		s.offer(t, s.items, frontier.Added)
		s.finish(t, frontier.OK)
	}
	s.clock.Advance(frontiertest.Window)
	s.offer(t, []frontier.Offer{{URL: "http://c.test/", Host: "c.test", Class: frontiertest.ClassWindow}}, frontier.Added)
	return s
}

func (s *sweeping) offer(t *testing.T, items []frontier.Offer, want frontier.Answer) {
	t.Helper()
	verdicts, err := s.Add(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range verdicts {
		if v.Answer != want {
			t.Fatalf("Add of %s: %v, want %v", items[i].URL, v, want)
		}
	}
}

// finish completes all items, and returns their rounds by URL.
func (s *sweeping) finish(t *testing.T, outcome frontier.Outcome) map[string]uint32 {
	t.Helper()
	rounds := make(map[string]uint32)
	for n := 0; ; n++ {
		id := frontier.LeaseID{byte(n), byte(n >> 8), byte(s.now()), byte(s.now() >> 8), byte(s.now() >> 16), byte(s.now() >> 24)}
		grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{id}})
		if err != nil {
			t.Fatal(err)
		}
		if len(grant.Leases) == 0 {
			return rounds
		}
		var done []frontier.Completion
		for _, it := range grant.Leases[0].Items {
			rounds[it.URL] = it.Round
			done = append(done, frontier.Completion{Item: it.Fingerprint, Outcome: outcome})
		}
		if err := s.Complete(t.Context(), id, done, frontier.HostUpdate{End: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// sweepAll makes calls until no key is due.
func (s *sweeping) sweepAll(t *testing.T) (calls int) {
	t.Helper()
	for s.due(t).Due > 0 {
		if calls++; calls > 100 {
			t.Fatal("100 calls did not sweep all keys")
		}
		s.clock.Advance(100 * time.Millisecond)
		if err := s.Pause(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	return calls
}

func (s *sweeping) due(t *testing.T) frontier.Expired {
	t.Helper()
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stats.Expired
}

func rowsOf(t *testing.T, s *Store, letter byte) (n int) {
	t.Helper()
	if err := s.scan(s.db, letter, func(_, _ []byte) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSweep: the rows of done keys are deleted in small steps. Keys that failed or wait keep theirs. A key that is found
// again is added, beyond MaxPerHost, in a round that it has not had, also after a kill and in a rebuilt filter.
func TestSweep(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(Config) (*Store, error){"killed": Open, "rebuilt": Rebuild} {
		t.Run(name, func(t *testing.T) {
			const n = 1200
			s := newSweeping(t, n)
			if due := s.due(t); due.Due != n-maxSwept || due.Lag < 0 {
				t.Errorf("after one step %+v keys are due, want %d", due, n-maxSwept)
			}
			s.clock.Advance(time.Minute)
			if due := s.due(t); due.Lag < time.Minute || due.Lag > 2*time.Minute {
				t.Errorf("the oldest key is due for %v, want about a minute", due.Lag)
			}
			s.guard.fail(errKilled)
			_ = s.Close()
			s.Store = openWindowsWith(t, open, s.cfg)
			checkRecount(t, s.Store)
			if calls := s.sweepAll(t); calls < 1 {
				t.Errorf("%d calls swept %d keys, want at least 1", calls, n-maxSwept)
			}
			checkRecount(t, s.Store)
			for letter, want := range map[byte]int{tableExpiry: 0, tableOutcome: 2, tableFailed: 2, tableExact: 3} {
				if got := rowsOf(t, s.Store, letter); got != want {
					t.Errorf("table %c has %d rows, want %d", letter, got, want)
				}
			}
			if name == "killed" {
				s.offer(t, s.items, frontier.Added)
			} else { // a new filter does not know the keys, so they count towards MaxPerHost again
				s.cfg.Policy = nil
				_ = s.Close()
				s.Store = openWindowsWith(t, open, s.cfg)
				s.offer(t, s.items, frontier.Added)
			}
			if at, err := s.Locate(t.Context(), "a.test", s.items[0].URL); err != nil || name == "killed" && at.HostAdded != n {
				t.Errorf("the host has %d items (%v), want %d", at.HostAdded, err, n)
			}
			s.offer(t, s.items, frontier.Seen)
			checkRecount(t, s.Store)
			for url, round := range s.finish(t, frontier.OK) {
				if url != "http://c.test/" && round != 2 {
					t.Fatalf("%s is added in round %d, want 2", url, round)
				}
			}
			checkRecount(t, s.Store)
			s.clock.Advance(frontiertest.Window)
			s.sweepAll(t)
			checkRecount(t, s.Store)
			if n, err := s.Retry(t.Context(), frontier.Failures{}); err != nil || n != 2 {
				t.Errorf("Retry = %d (%v), want 2", n, err)
			}
			stats, err := s.Stats(t.Context())
			if err != nil || stats.Shadow.Forgotten+stats.Shadow.Lost > 0 {
				t.Errorf("the shadow sample is %+v (%v), want no lost or forgotten key", stats.Shadow, err)
			}
		})
	}
}

// TestSweepKeepsRenewedKeys: a key that is offered in the group that would sweep it is renewed.
func TestSweepKeepsRenewedKeys(t *testing.T) {
	t.Parallel()
	s := newSweeping(t, 1)
	s.offer(t, s.items, frontier.Added)
	s.finish(t, frontier.OK)
	s.clock.Advance(frontiertest.Window)
	s.offer(t, s.items, frontier.Added)
	if rounds := s.finish(t, frontier.OK); rounds[s.items[0].URL] != 3 {
		t.Errorf("rounds are %v, want 3", rounds)
	}
	checkRecount(t, s.Store)
}

// TestMarkSeenKeepsWindows: MarkSeen does not change a key that has an outcome, also not after the key was swept.
func TestMarkSeenKeepsWindows(t *testing.T) {
	t.Parallel()
	s := newSweeping(t, 1)
	s.offer(t, s.items, frontier.Added)
	s.finish(t, frontier.OK)
	if _, err := s.MarkSeen(t.Context(), []bloomstore.Fingerprint{s.hasher.Fingerprint(s.items[0].URL)}); err != nil {
		t.Fatal(err)
	}
	s.clock.Advance(frontiertest.Window)
	s.sweepAll(t)
	s.offer(t, s.items, frontier.Added)
}

// TestRecountFindsKeysThatAreNotSwept: the audit names a key whose rows would stay for ever.
func TestRecountFindsKeysThatAreNotSwept(t *testing.T) {
	t.Parallel()
	s := newSweeping(t, maxSwept+1)
	c := &auditedCrawl{Store: s.Store}
	key, _ := c.first(t, tableExpiry, nil)
	c.remove(t, key)
	if r, err := s.Recount(t.Context()); err != nil || len(r.Faults) != 2 {
		t.Errorf("faults are %q (%v), want two", r.Faults, err)
	}
}
