package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/exact/exacttest"
	"github.com/bloomfrontier/crawler/internal/suite"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// endHost leases a host as soon as one is due, and completes the items of the lease: bulk items
// with one outcome, exact items with the other. It returns the items.
func endHost(t *testing.T, s *Store, bulk, isExact frontier.Outcome) []frontier.Item {
	t.Helper()
	var grant frontier.Grant
	for try := 0; len(grant.Leases) == 0; try++ { // the host's delay may not be over
		time.Sleep(grant.Wait)
		var err error
		if grant, err = s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)}); err != nil || try == 1000 {
			t.Fatalf("Lease = %+v, %v, want one lease", grant, err)
		}
	}
	l := grant.Leases[0]
	var ends []frontier.Completion
	for _, item := range l.Items {
		c := finish(item)
		if c.Outcome = isExact; item.Class == frontier.Bulk {
			c.Outcome = bulk
		}
		if c.Outcome != frontier.OK {
			c.Status, c.Page = 500, false
		}
		ends = append(ends, c)
	}
	if err := s.Complete(t.Context(), l.ID, ends, frontier.HostUpdate{End: true}); err != nil {
		t.Fatal(err)
	}
	return l.Items
}

// TestRetrySkipsPromoted: a bulk item fails, and then its URL is promoted, which queues it
// again. Lookup says that the URL is queued, and Retry does not queue the failed item as well.
func TestRetrySkipsPromoted(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	for name, exactSet := range map[string]bool{"bulk": false, "beside exact set": true} {
		t.Run(name, func(t *testing.T) {
			cfg := exactConfig(server)
			if cfg.Name = fmt.Sprintf("test-%t", exactSet); !exactSet {
				cfg.Exact = nil
			}
			s := openStore(t, cfg)
			pages := testPages("a.test", 0, 2)
			mustAdd(t, s, pages)
			endHost(t, s, frontier.ServerError, frontier.ServerError)
			promoted := pages[:1]
			promoted[0].Class = frontier.Exact
			if exactSet {
				mustAddDecided(t, s, exact.Promoted, 0, promoted)
			} else {
				mustAdd(t, s, promoted)
			}
			if status, err := s.Lookup(t.Context(), "a.test", promoted[0].URL); status.State != frontier.Queued || err != nil {
				t.Errorf("Lookup = %+v, %v, want queued", status, err)
			}
			if n, err := s.Retry(t.Context(), frontier.Failures{}); n != 1 || err != nil {
				t.Errorf("Retry = %d, %v, want 1: the other URL was promoted", n, err)
			}
			if stats := wantBooks(t, s); stats.Queued != 2 || stats.Failed != 1 {
				t.Errorf("the books are %+v, want 2 queued, 1 failed", stats.Books)
			}
		})
	}
}

// TestRetryAsksTheSet: a failed item stays failed if the set has begun a later round of its URL. It is offered again if
// its window is over. If the set is away, nothing changes.
func TestRetryAsksTheSet(t *testing.T) {
	t.Parallel()
	cfg, clock := exactConfig(servers.Redis(t, servers.RedisOptions{})), suite.NewClock()
	set := exacttest.NewMemory(exacttest.Options{Now: clock.Now, Windows: exact.Windows{4: time.Hour}})
	away := &deadSet{Set: set}
	cfg.Exact = newClient(away)
	cfg.Exact.End = func(ends []exact.Finished) { _ = set.Finish(t.Context(), ends, nil) }
	s := openStore(t, cfg)
	pages := asExact(testPages("a.test", 0, 4))
	pages[3].Class = 4
	pages = append(pages, testPages("a.test", 4, 5)...)
	mustAdd(t, s, pages)
	endHost(t, s, frontier.ServerError, frontier.ServerError)
	print := s.hasher.Fingerprint(pages[0].URL)
	later := exact.Finished{Ref: exact.Ref{Fingerprint: print, Round: 4}, Class: frontier.Exact, Outcome: frontier.OK}
	if err := set.Finish(t.Context(), []exact.Finished{later}, nil); err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * time.Hour)
	away.err = fmt.Errorf("set: %w", frontier.ErrUnavailable)
	if n, err := s.Retry(t.Context(), frontier.Failures{}); n != 0 || !errors.Is(err, frontier.ErrUnavailable) {
		t.Errorf("Retry while the set is away = %d, %v, want 0 and the error", n, err)
	}
	away.err = nil
	if n, err := s.Retry(t.Context(), frontier.Failures{}); n != 4 || err != nil {
		t.Errorf("Retry = %d, %v, want 4: one item is outdated", n, err)
	}
	if stats := wantBooks(t, s); stats.Queued != 4 || stats.Failed != 2 || stats.Added != 6 {
		t.Errorf("the books are %+v, want 4 queued, one of them added again, and 2 failed", stats.Books)
	}
}

// TestRoundsOfPromotedURL: a bulk item fails and is retried, before its URL is promoted or
// after the promoted item has ended. No two items of the URL end in the same round.
func TestRoundsOfPromotedURL(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	for _, exactSet := range []bool{false, true} {
		for _, retryFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("exact set %t, retry first %t", exactSet, retryFirst), func(t *testing.T) {
				cfg := exactConfig(server)
				if cfg.Name = fmt.Sprintf("test-%t-%t", exactSet, retryFirst); !exactSet {
					cfg.Exact = nil
				}
				s := openStore(t, cfg)
				var rounds []uint32
				end := func() {
					for _, item := range endHost(t, s, frontier.ServerError, frontier.OK) {
						rounds = append(rounds, item.Round)
					}
				}
				retry := func() {
					if n, err := s.Retry(t.Context(), frontier.Failures{}); err != nil {
						t.Fatalf("Retry = %d, %v", n, err)
					} else if n > 0 {
						end()
					}
				}
				page := testPages("a.test", 0, 1)
				mustAdd(t, s, page)
				end()
				if retryFirst {
					retry()
				}
				page[0].Class = frontier.Exact
				if exactSet {
					mustAddDecided(t, s, exact.Promoted, 0, page)
				} else {
					mustAdd(t, s, page)
				}
				end()
				retry()
				if len(rounds) < 2 || len(slices.Compact(slices.Sorted(slices.Values(rounds)))) != len(rounds) {
					t.Errorf("the items of the URL ended in the rounds %v, want at least 2, all different", rounds)
				}
				wantBooks(t, s)
			})
		}
	}
}
