package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestMaxPagesAcrossWorkers: several workers call Lease, Extend and LimitReached at the same time.
// Together they complete MaxPages pages, and at most one more for each worker, which has one
// request under way. All items stay accounted for, and the crawl goes on with a higher limit.
func TestMaxPagesAcrossWorkers(t *testing.T) {
	t.Parallel()
	const workers, hosts, perHost = 4, 30, 20
	server := servers.Redis(t, servers.RedisOptions{})
	var crew [workers]*Store
	for i := range crew {
		crew[i] = openStore(t, config(server))
	}
	for h := range hosts {
		mustAdd(t, crew[0], testPages(fmt.Sprintf("h%d.test", h), 0, perHost))
	}
	for _, limit := range []uint64{1, 100, 250} {
		errs := make([]error, workers)
		var running sync.WaitGroup
		for i, s := range crew {
			running.Go(func() { errs[i] = fetchAll(t.Context(), s, limit) })
		}
		running.Wait()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
		stats, err := crew[0].Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := stats.Pages; got < limit || got > limit+workers {
			t.Errorf("%d pages with limit %d, want at most %d more", got, limit, workers)
		}
		if stats.Leased != 0 || stats.Queued+stats.Done+stats.Failed != hosts*perHost {
			t.Errorf("with limit %d: %+v, want nothing leased and %d items", limit, stats.Books, hosts*perHost)
		}
	}
}

// TestMaxPagesOfTheDead: a worker dies with leases when the limit is reached. The others report the
// limit at once, and the items of the dead worker return to the queue when its leases expire.
func TestMaxPagesOfTheDead(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	cfg.LeaseTTL = 30 * time.Second
	clock := newTestClock()
	cfg.Now = clock.now
	s := openStore(t, cfg)
	for h := range 5 {
		mustAdd(t, s, testPages(fmt.Sprintf("h%d.test", h), 0, 60))
	}
	lease := func(limit uint64) frontier.Grant {
		t.Helper()
		grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(2), MaxPages: limit})
		if err != nil {
			t.Fatal(err)
		}
		return grant
	}
	dead := lease(3).Leases // ends no lease, and completes 3 pages
	var done []frontier.Completion
	for _, item := range dead[0].Items[:3] {
		done = append(done, finish(item))
	}
	if err := s.Complete(t.Context(), dead[0].ID, done, frontier.HostUpdate{}); err != nil {
		t.Fatal(err)
	}
	if grant := lease(3); len(grant.Leases) != 0 || !grant.Limited || !grant.Reached {
		t.Errorf("Lease at the limit = %d hosts, limited %t, reached %t, want 0, true, true", len(grant.Leases), grant.Limited, grant.Reached)
	}
	clock.advance(cfg.LeaseTTL + time.Second)
	if grant := lease(4); len(grant.Leases) == 0 || grant.Limited {
		t.Errorf("Lease with a higher limit = %d hosts, limited %t, want some, false", len(grant.Leases), grant.Limited)
	}
	if audit, err := s.Audit(t.Context()); err != nil || audit.Queued+audit.Leased != 5*60-3 {
		t.Errorf("%d queued and %d leased items, %v, want %d together", audit.Queued, audit.Leased, err, 5*60-3)
	}
}

// TestPagesAreCountedAnew: a count of pages is not used if the other workers may have reached the
// limit since it was read.
func TestPagesAreCountedAnew(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	s, other := openStore(t, config(server)), openStore(t, config(server))
	mustAdd(t, s, testPages("a.test", 0, 40))
	var grant frontier.Grant
	for request := (frontier.LeaseRequest{IDs: leaseIDs(1)}); len(grant.Leases) == 0; { // s may be in charge of the partition
		var err error
		if grant, err = other.Lease(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	reached := func(limit uint64, want bool) *totals {
		t.Helper()
		if got, err := s.LimitReached(t.Context(), limit); err != nil || got != want {
			t.Errorf("LimitReached(%d) = %t, %v, want %t", limit, got, err, want)
		}
		return s.lastTotals.Load()
	}
	for n, item := range grant.Leases[0].Items[:20] {
		reached(uint64(n+1), false)
		if err := other.Complete(t.Context(), grant.Leases[0].ID, []frontier.Completion{finish(item)}, frontier.HostUpdate{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(pageTime)
		reached(uint64(n+1), true)
	}
	if first := reached(1<<40, false); first != reached(1<<40, false) && time.Since(first.at) < pagesAge {
		t.Error("far from the limit, a new count was read for each call")
	}
	s.lastTotals.Store(&totals{at: time.Now().Add(-pagesAge)})
	if got := reached(1<<40, false); got.pages != 20 {
		t.Errorf("after %v, the count of pages is %d, want a new one, 20", pagesAge, got.pages)
	}
}

// TestOwnPagesCount: the pages that a store has completed since the last count are added to it.
func TestOwnPagesCount(t *testing.T) {
	t.Parallel()
	s := openStore(t, config(servers.Redis(t, servers.RedisOptions{})))
	mustAdd(t, s, testPages("a.test", 0, 3))
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)})
	if err != nil || len(grant.Leases) != 1 || len(grant.Leases[0].Items) < 2 {
		t.Fatalf("%+v, %v, want a lease of two items or more", grant, err)
	}
	l := grant.Leases[0]
	noPage := finish(l.Items[1])
	noPage.Outcome, noPage.Page = frontier.Robots, false
	if err := s.Complete(t.Context(), l.ID, []frontier.Completion{finish(l.Items[0]), noPage}, frontier.HostUpdate{}); err != nil {
		t.Fatal(err)
	}
	if got := s.completed.Load(); got != 1 {
		t.Errorf("%d completed pages are counted, want 1", got)
	}
	const limit = 2 * uint64(pagesAge/pageTime) // so that a count is used for as long as possible
	s.lastTotals.Store(&totals{at: time.Now(), completed: s.completed.Load()})
	s.completed.Add(limit)
	if reached, err := s.LimitReached(t.Context(), limit); err != nil || reached || s.lastTotals.Load().pages != 1 {
		t.Errorf("LimitReached = %t, %v, with a count of %d pages, want false, and a new count: 1",
			reached, err, s.lastTotals.Load().pages)
	}
}

// fetchAll leases items and completes them as pages, one after the other, until the limit is reached.
func fetchAll(ctx context.Context, s *Store, limit uint64) error {
	for {
		grant, err := s.Lease(ctx, frontier.LeaseRequest{IDs: leaseIDs(3), MaxPages: limit})
		switch {
		case err != nil:
			return err
		case grant.Empty:
			return errors.New("the crawl is empty before the limit of pages is reached")
		case grant.Reached:
			return nil
		}
		for _, l := range grant.Leases {
			more, err := s.Extend(ctx, l.ID, frontier.TopUp{Items: 40, Known: len(l.Items), MaxPages: limit})
			if err != nil {
				return err
			}
			for _, item := range append(l.Items, more.Items...) {
				if reached, err := s.LimitReached(ctx, limit); err != nil {
					return err
				} else if reached {
					break
				}
				c := finish(item)
				if item.Fingerprint[0]%3 == 0 { // not a page, so another item can be fetched instead
					c.Outcome, c.Page = frontier.Robots, false
				}
				if err := s.Complete(ctx, l.ID, []frontier.Completion{c}, frontier.HostUpdate{}); err != nil {
					return err
				}
			}
			if err := s.Complete(ctx, l.ID, nil, frontier.HostUpdate{End: true}); err != nil {
				return err
			}
		}
	}
}

// TestEmptyIsNeverEarly: each page has a link to one new URL, in another partition. The crawl
// must not be reported as empty before its last page is done.
func TestEmptyIsNeverEarly(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, servers.ClusterOptions{NodeTimeout: calm})
	cfg := Config{Redis: &redis.UniversalOptions{Addrs: cluster.Addrs()}, Name: "empty", Partitions: 12, Capacity: 10_000}
	const steps = 1000
	walker := openStore(t, cfg)
	watcher, err := Inspect(t.Context(), cfg) // not a worker, so that it is in charge of no partition
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	walker.durable = 0
	page := func(n int) []frontier.Offer { return testPages(fmt.Sprintf("h%d.test", n%61), n, n+1) }
	mustAdd(t, walker, page(0))
	walked := make(chan error, 1)
	go func() { walked <- walk(t.Context(), walker, steps, page) }()
	for looks := 1; ; looks++ {
		empty, err := watcher.empty(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-walked:
			if err != nil {
				t.Fatal(err)
			}
			if empty, err := watcher.empty(t.Context()); err != nil || !empty {
				t.Errorf("at the end: empty %t, %v, want true", empty, err)
			}
			return
		default:
			if left := watcher.counter(t, fieldDone); empty && left < steps {
				t.Fatalf("look %d: empty with %d of %d pages done", looks, left, steps)
			}
		}
	}
}

// walk completes one page after another, each with a link to the next.
func walk(ctx context.Context, s *Store, steps int, page func(int) []frontier.Offer) error {
	for n := 0; n < steps; {
		grant, err := s.Lease(ctx, frontier.LeaseRequest{IDs: leaseIDs(1)})
		if err != nil {
			return err
		}
		for _, l := range grant.Leases {
			done := finish(l.Items[0])
			if n++; n < steps {
				done.Links = page(n)
			}
			if err := s.Complete(ctx, l.ID, []frontier.Completion{done}, frontier.HostUpdate{End: true}); err != nil {
				return err
			}
		}
	}
	return nil
}
