package redisstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// numberedItems returns items with the numbers first to end-1.
func numberedItems(first, end int) (items []*heldItem) {
	for n := first; n < end; n++ {
		items = append(items, &heldItem{number: int64(n), item: frontier.Item{URL: fmt.Sprint(n), Fingerprint: bloomstore.Fingerprint{byte(n), byte(n >> 8)}}})
	}
	return items
}

// TestHoldingReceives: the replies to two top-ups have some items in common, and the later
// reply arrives first. Each item is received once.
func TestHoldingReceives(t *testing.T) {
	h := newHeldLease(frontier.LeaseID{1}, nil, "a.test")
	h.grant(numberedItems(1, 4), nil, time.Time{})
	h.receive(numberedItems(3, 8))
	h.receive(numberedItems(4, 6))
	if got, want := urlsOf(h.since(1)), []string{"2", "3", "4", "5", "6", "7"}; !slices.Equal(got, want) {
		t.Errorf("items after the first: %q, want %q", got, want)
	}
	if h.next() != 8 || h.open() != 7 {
		t.Errorf("next number is %d, want 8; %d items are open, want 7", h.next(), h.open())
	}
}

// TestTwoRoundsOfOneURL: a queued bulk URL is queued again as an exact one. The two items
// have the same fingerprint, and a completion names its item by fingerprint. So they must not
// be in one lease. The test checks that each (URL, round) gets one record, both when the
// items come with the first grant and when Extend adds them to a lease.
func TestTwoRoundsOfOneURL(t *testing.T) {
	t.Run("leased first", func(t *testing.T) { testTwoRounds(t, 3) })
	t.Run("added later", func(t *testing.T) { testTwoRounds(t, 40) })
}

func testTwoRounds(t *testing.T, urls int) {
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.OpenOutput = func(frontier.Identity, frontier.Position) (frontier.Output, error) { return unsynced{}, nil }
	s := openStore(t, cfg)
	pages := testPages("a.test", 0, urls)
	mustAdd(t, s, pages)
	pages[urls-2].Class = frontier.Exact
	mustAdd(t, s, pages[urls-2:urls-1])
	records := make(map[string]int)
	for n, end := byte(1), time.Now().Add(20*time.Second); len(records) <= urls && time.Now().Before(end); n++ {
		id := frontier.LeaseID{n}
		grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{id}})
		if err != nil {
			t.Fatal(err)
		}
		if len(grant.Leases) == 0 {
			time.Sleep(max(grant.Wait, time.Millisecond))
			continue
		}
		items := grant.Leases[0].Items
		for known := len(items); len(items) > 0; known += len(items) {
			for _, it := range items {
				done := frontier.Completion{Item: it.Fingerprint, Outcome: frontier.OK, Status: 200, Page: true, Record: func(frontier.LinkCounts) error {
					records[fmt.Sprintf("%s round %d", it.URL, it.Round)]++
					return nil
				}}
				if err := s.Complete(t.Context(), id, []frontier.Completion{done}, frontier.HostUpdate{}); err != nil {
					t.Fatal(err)
				}
			}
			extension, err := s.Extend(t.Context(), id, frontier.TopUp{Items: 10, Known: known})
			if err != nil {
				t.Fatal(err)
			}
			items = extension.Items
		}
		if err := s.Complete(t.Context(), id, nil, frontier.HostUpdate{End: true}); err != nil {
			t.Fatal(err)
		}
	}
	if len(records) != urls+1 {
		t.Errorf("%d rounds of URLs have records, want %d", len(records), urls+1)
	}
	for name, n := range records {
		if n != 1 {
			t.Errorf("%s has %d records, want 1", name, n)
		}
	}
	if stats, err := s.Stats(t.Context()); err != nil || int(stats.Done) != urls+1 || stats.Queued+stats.Leased != 0 {
		t.Errorf("Stats = %+v, %v, want %d done and nothing left", stats, err, urls+1)
	}
}

// TestLateAnswerOfExtend: a lease is extended, but the answer comes after the old deadline,
// when a call of Lease has removed the lease from the table. A completion under the lease
// succeeds nevertheless.
func TestLateAnswerOfExtend(t *testing.T) {
	t.Parallel()
	clock := newTestClock()
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.LeaseTTL, cfg.Now = 10*time.Second, clock.now
	s := openStore(t, cfg)
	mustAdd(t, s, testPages("a.test", 0, 3))
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)})
	if err != nil || len(grant.Leases) != 1 {
		t.Fatalf("Lease = %+v, %v, want one lease", grant, err)
	}
	l := grant.Leases[0]
	h := s.held.get(l.ID)
	clock.advance(9 * time.Second)
	s.held.sweep(clock.now().Add(2 * time.Second))
	if _, err := s.extend(t.Context(), h, 0, 3); err != nil {
		t.Fatal(err)
	}
	clock.advance(2 * time.Second)
	done := []frontier.Completion{finish(l.Items[0])}
	if err := s.Complete(t.Context(), l.ID, done, frontier.HostUpdate{}); err != nil {
		t.Errorf("Complete under a lease that was extended = %v, want nil", err)
	}
}

// unsynced is an output without files.
type unsynced struct{}

func (unsynced) Sync() (frontier.Position, error) { return nil, nil }

// TestHoldingsSweep: leases are removed at their deadline, not before.
func TestHoldingsSweep(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	var table heldLeases
	for n := range 5 {
		h := newHeldLease(frontier.LeaseID{byte(n)}, nil, "a.test")
		h.grant(nil, nil, now.Add(time.Duration(n)*time.Second))
		table.put(h)
	}
	table.get(frontier.LeaseID{4}).settle(nil, frontier.HostUpdate{End: true})
	if got := table.live(now); got != 3 {
		t.Errorf("%d leases are live, want 3: one ran out, one ended", got)
	}
	table.sweep(now.Add(2 * time.Second))
	for n := range 5 {
		if kept := table.get(frontier.LeaseID{byte(n)}) != nil; kept != (n > 2) {
			t.Errorf("after 2s a lease of %ds is kept: %t, want %t", n, kept, n > 2)
		}
	}
}
