package localstore

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// TestMaxPagesOfFirstVisits: with a Recrawl, only first visits count towards MaxPages. Pages are visited again after the limit
// is reached, also those behind URLs that were not fetched yet, and a higher limit lets these go.
func TestMaxPagesOfFirstVisits(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	p := &policy.Policy{MaxPages: 3, Recrawl: revisit.Aim{Every: time.Hour}}
	s, err := Open(Config{
		Dir: "crawl", FS: vfs.NewMem(), Filter: membits.Config{Capacity: 100_000}, Policy: func() *policy.Policy { return p }, Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	addPages(t, s, "a.test", 2500) // more than one call of Lease looks at
	addPages(t, s, "b.test", 1)
	var id byte
	var finished []frontier.Finished
	// visit leases until there is nothing, completes all items, and returns how many of them were first and later visits.
	visit := func() (first, again int) {
		t.Helper()
		for range 10 {
			id++
			now = now.Add(time.Minute)
			grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{id}, {id, 1}}, MaxPages: p.MaxPages})
			if err != nil {
				t.Fatal(err)
			}
			if grant.Limited || grant.Reached {
				t.Errorf("the grant %+v says that the crawl is at its limit", grant)
			}
			for _, l := range grant.Leases {
				if len(l.Items) == 0 {
					t.Errorf("a lease of %s without items", l.Host)
				}
				var done []frontier.Completion
				for _, item := range l.Items {
					if item.Round == 0 {
						first++
					} else {
						again++
					}
					done = append(done, frontier.Completion{Item: item.Fingerprint, Outcome: frontier.OK, Status: 200, Page: true})
					finished = append(finished, frontier.Finished{Offer: item.Offer(), Round: item.Round})
				}
				extension, err := s.Extend(t.Context(), l.ID, frontier.TopUp{Items: len(l.Items) + 5, Known: len(l.Items), MaxPages: p.MaxPages})
				if err != nil || len(extension.Items) > 0 && p.MaxPages > 0 {
					t.Errorf("at the limit a lease got %d more items, %v", len(extension.Items), err)
				}
				if err := s.Complete(t.Context(), l.ID, done, frontier.HostUpdate{End: true}); err != nil {
					t.Fatal(err)
				}
			}
		}
		return first, again
	}
	recheck := func() {
		t.Helper()
		if n, err := s.Recheck(t.Context(), finished); err != nil || n != len(finished) {
			t.Fatalf("queued %d of %d, %v", n, len(finished), err)
		}
		finished = nil
	}
	if first, again := visit(); first != 3 || again != 0 {
		t.Fatalf("%d first and %d later visits, want 3 and none", first, again)
	}
	recheck()
	if first, again := visit(); first != 0 || again != 3 {
		t.Errorf("at the limit there were %d first and %d later visits, want none and 3", first, again)
	}
	recheck()
	p = &policy.Policy{MaxPages: 5, Recrawl: p.Recrawl}
	if first, again := visit(); first != 2 || again != 3 {
		t.Errorf("with a higher limit there were %d first and %d later visits, want 2 and 3", first, again)
	}
	p = &policy.Policy{Recrawl: p.Recrawl}
	if first, again := visit(); first < 100 || again != 0 {
		t.Errorf("without a limit there were %d first and %d later visits, want many and none", first, again)
	}
	stats, err := s.Stats(t.Context())
	if err != nil || stats.PagesAgain != 6 || stats.Balance() != nil {
		t.Errorf("the counters are %+v, %v, want 6 pages again", stats, err)
	}
}
