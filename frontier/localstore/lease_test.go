package localstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/suite"
)

func openMem(t *testing.T) *Store {
	t.Helper()
	s, err := Open(Config{Dir: "crawl", FS: vfs.NewMem(), Filter: membits.Config{Capacity: 100_000}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func addPages(t *testing.T, s *Store, host string, n int) {
	t.Helper()
	items := make([]frontier.Offer, n)
	for i := range items {
		items[i] = frontier.Offer{URL: fmt.Sprintf("https://%s/%d", host, i), Host: host}
	}
	if _, err := s.Add(t.Context(), items); err != nil {
		t.Fatal(err)
	}
}

// TestLongLeaseStaysSmall works through a large host under one lease. The row of
// the lease and the items that are kept for repeated calls do not grow with the
// number of completed items.
func TestLongLeaseStaysSmall(t *testing.T) {
	t.Parallel()
	s := openMem(t)
	const pages = 5000
	addPages(t, s, "a.test", pages)
	id := frontier.LeaseID{1}
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{id}})
	if err != nil {
		t.Fatal(err)
	}
	items, known := grant.Leases[0].Items, len(grant.Leases[0].Items)
	for len(items) > 0 {
		var done []frontier.Completion
		for _, item := range items {
			done = append(done, frontier.Completion{Item: item.Fingerprint, Outcome: frontier.OK})
		}
		if err := s.Complete(t.Context(), id, done, frontier.HostUpdate{}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second call is a repeat
			extension, err := s.Extend(t.Context(), id, frontier.TopUp{Items: 64, Known: known})
			if err != nil {
				t.Fatal(err)
			}
			items = extension.Items
		}
		known += len(items)
		row, err := s.get(leaseKey(id))
		if err != nil || len(row) > 1000 {
			t.Fatalf("after %d items the lease's row has %d bytes, %v, want at most 1000", known, len(row), err)
		}
	}
	if known != pages {
		t.Errorf("%d items were handed out, want %d", known, pages)
	}
	err = s.submit(t.Context(), &op{grant: func(g *group) error {
		if l := g.leases[id]; len(l.recent) > 2*maxRecent || len(l.held) > 0 {
			return fmt.Errorf("the lease has %d recent items, want at most %d, and holds %d, want 0",
				len(l.recent), 2*maxRecent, len(l.held))
		}
		return nil
	}})
	if err != nil {
		t.Error(err)
	}
}

// TestEndedLeasesAreBounded: the store remembers a limited number of ended leases,
// and forgets the oldest first.
func TestEndedLeasesAreBounded(t *testing.T) {
	t.Parallel()
	var ended endedLeases
	id := func(n int) (id frontier.LeaseID) {
		binary.BigEndian.PutUint64(id[:], uint64(n))
		return id
	}
	settled := make(map[bloomstore.Fingerprint]struct{})
	for n := range 100 {
		settled[bloomstore.Fingerprint{byte(n)}] = struct{}{}
	}
	const leases = 3 * maxEnded
	for n := range leases {
		if ended.add(id(n), settled); ended.byID[id(n)] == nil {
			t.Fatalf("lease %d is forgotten at once", n)
		}
	}
	if len(ended.byID) > maxEndedSettled/100 || len(ended.order) != len(ended.byID) {
		t.Errorf("%d leases of 100 items are kept, want at most %d, and as many in order, got %d",
			len(ended.byID), maxEndedSettled/100, len(ended.order))
	}
	for n := range leases {
		ended.add(id(leases+n), nil)
	}
	if len(ended.byID) != maxEnded || ended.settled != 0 {
		t.Errorf("%d leases without items are kept, with %d settled items; want %d leases, 0 items",
			len(ended.byID), ended.settled, maxEnded)
	}
}

// TestRacersRetryOnce: racing calls of Retry queue each failed item once.
func TestRacersRetryOnce(t *testing.T) {
	t.Parallel()
	s := openMem(t)
	const failed = 2500 // more than one group can queue again
	addPages(t, s, "a.test", failed)
	id := frontier.LeaseID{1}
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{id}})
	if err != nil {
		t.Fatal(err)
	}
	items := grant.Leases[0].Items
	extension, err := s.Extend(t.Context(), id, frontier.TopUp{Items: failed, Known: len(items)})
	if err != nil {
		t.Fatal(err)
	}
	var done []frontier.Completion
	for _, item := range append(items, extension.Items...) {
		done = append(done, frontier.Completion{Item: item.Fingerprint, Outcome: frontier.Network})
	}
	if err := s.Complete(t.Context(), id, done, frontier.HostUpdate{End: true}); err != nil {
		t.Fatal(err)
	}
	var total atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			n, err := s.Retry(t.Context(), frontier.Failures{})
			if err != nil {
				t.Error(err)
			}
			total.Add(int64(n))
		})
	}
	wg.Wait()
	stats, err := s.Stats(t.Context())
	if err != nil || total.Load() != failed || stats.Queued != failed || stats.Balance() != nil {
		t.Errorf("the calls of Retry queued %d items, want %d; Stats: %d queued, balance %v, error %v",
			total.Load(), failed, stats.Queued, stats.Balance(), err)
	}
	for _, fault := range checkTables(s) {
		t.Error(fault)
	}
}

// TestClockNeverGoesBack: if the clock is set back between two runs, no host is due
// earlier, and no host waits longer than before.
func TestClockNeverGoesBack(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	now := suite.NewClock()
	cfg := Config{Dir: "crawl", FS: fs, Policy: every(10 * time.Second), Now: now.Now, Filter: membits.Config{Capacity: 1000}}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	addPages(t, s, "a.test", 5)
	id := frontier.LeaseID{1}
	if grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{id}}); err != nil || len(grant.Leases) != 1 {
		t.Fatal(grant, err)
	}
	if err := s.Complete(t.Context(), id, nil, frontier.HostUpdate{End: true, Due: 10 * time.Second, Delay: 10 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	now.Advance(-time.Hour)
	if s, err = Open(cfg); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, tc := range []struct {
		wait time.Duration
		due  time.Duration
	}{{0, 10 * time.Second}, {9 * time.Second, time.Second}, {time.Second, 0}} {
		now.Advance(tc.wait)
		status, err := s.Lookup(t.Context(), "a.test", "https://a.test/1")
		if err != nil || status.HostDueIn != tc.due {
			t.Errorf("the host is due in %v, %v, want %v", status.HostDueIn, err, tc.due)
		}
	}
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{2}}})
	if err != nil || len(grant.Leases) != 1 {
		t.Errorf("%d leases when the host is due, %v, want 1", len(grant.Leases), err)
	}
	if err := s.Complete(t.Context(), frontier.LeaseID{3}, nil, frontier.HostUpdate{}); !errors.Is(err, frontier.ErrLeaseLost) {
		t.Errorf("Complete of a lease that was never granted = %v, want ErrLeaseLost", err)
	}
}
