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

// TestMaxPagesAcrossWorkers: several workers call Lease and Extend at the same time. Together
// they complete exactly MaxPages pages.
func TestMaxPagesAcrossWorkers(t *testing.T) {
	t.Parallel()
	const workers, hosts, limit = 4, 30, 100
	server := servers.Redis(t, servers.RedisOptions{})
	var crew [workers]*Store
	for i := range crew {
		crew[i] = openStore(t, config(server))
	}
	for h := range hosts {
		mustAdd(t, crew[0], testPages(fmt.Sprintf("h%d.test", h), 0, 20))
	}
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
	if got := crew[0].counter(t, fieldPages); got != limit {
		t.Errorf("%d pages, want %d", got, limit)
	}
}

// TestMaxPagesOfTheDead: the leases of a dead worker do not count after they have
// expired.
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
	ids := leaseIDs(5)
	lease := func(ids []frontier.LeaseID) []frontier.Lease {
		t.Helper()
		grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: ids})
		if err != nil || len(grant.Leases) != len(ids) {
			t.Fatalf("Lease = %d hosts, %v, want %d", len(grant.Leases), err, len(ids))
		}
		return grant.Leases
	}
	lease(ids[:4])
	clock.advance(cfg.LeaseTTL / 2)
	alive := lease(ids[4:])[0]
	clock.advance(cfg.LeaseTTL/2 + time.Second)
	has := len(alive.Items)
	more, err := s.Extend(t.Context(), alive.ID, frontier.TopUp{Items: has + 20, Known: has, MaxPages: uint64(has + 10)})
	if err != nil || len(more.Items) != 10 {
		t.Errorf("Extend = %d more items, %v, want 10", len(more.Items), err)
	}
}

// fetchAll leases items and completes them as pages, until the limit is reached.
func fetchAll(ctx context.Context, s *Store, limit uint64) error {
	for {
		grant, err := s.Lease(ctx, frontier.LeaseRequest{IDs: leaseIDs(3), MaxPages: limit})
		if err != nil {
			return err
		}
		if grant.Empty {
			return errors.New("the crawl is empty before the limit of pages is reached")
		}
		for _, l := range grant.Leases {
			more, err := s.Extend(ctx, l.ID, frontier.TopUp{Items: 40, Known: len(l.Items), MaxPages: limit})
			if err != nil {
				return err
			}
			var done []frontier.Completion
			for _, item := range append(l.Items, more.Items...) {
				c := finish(item)
				if item.Fingerprint[0]%3 == 0 { // not a page, so another item can be fetched instead
					c.Outcome, c.Page = frontier.Robots, false
				}
				done = append(done, c)
			}
			if err := s.Complete(ctx, l.ID, done, frontier.HostUpdate{End: true}); err != nil {
				return err
			}
		}
		if len(grant.Leases) > 0 || !grant.Limited {
			continue
		}
		sum, err := s.readTotals(ctx)
		if err != nil || sum.pages >= limit {
			return err
		}
	}
}

// TestEmptyIsNeverEarly: each page has a link to one new URL, in another partition. The crawl
// must not be reported as empty before its last page is done.
func TestEmptyIsNeverEarly(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, servers.ClusterOptions{NodeTimeout: calm})
	for _, exactSet := range []bool{false, true} { // if true, each link goes through the outbox
		t.Run(fmt.Sprintf("exactSet=%t", exactSet), func(t *testing.T) {
			emptyIsNeverEarly(t, Config{
				Redis: &redis.UniversalOptions{Addrs: cluster.Addrs()}, Name: fmt.Sprint(exactSet),
				ExactSet: exactSet, Partitions: 12, FilterCapacity: 10_000, Delay: NoDelay,
			})
		})
	}
}

func emptyIsNeverEarly(t *testing.T, cfg Config) {
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
			if s.cfg.ExactSet {
				done.Links = decided(frontier.Later, 0, done.Links)
			}
			if err := s.Complete(ctx, l.ID, []frontier.Completion{done}, frontier.HostUpdate{End: true}); err != nil {
				return err
			}
			if err := forwardOne(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// forwardOne queues the first note of an outbox, if there is one.
func forwardOne(ctx context.Context, s *Store) error {
	if !s.cfg.ExactSet {
		return nil
	}
	batch, err := s.Notes(ctx, 1)
	if err != nil || len(batch.Notes) == 0 {
		return err
	}
	if _, err := s.Add(ctx, decided(frontier.New, 0, []frontier.Offer{batch.Notes[0].Item.Offer()})); err != nil {
		return err
	}
	_, err = s.Delivered(ctx, batch, 0, nil)
	return err
}

// TestPagesLock: the lock has one holder at a time. The lock of a dead holder expires, and
// a former holder cannot release the lock of the next one.
func TestPagesLock(t *testing.T) {
	t.Parallel()
	s := openStore(t, config(servers.Redis(t, servers.RedisOptions{})))
	asked := time.Now()
	until, unlock, err := s.lockPages(t.Context())
	if err != nil || unlock == nil {
		t.Fatalf("lockPages of a free lock: %v", err)
	}
	ttl := s.client.PTTL(t.Context(), s.cfg.pagesKey()).Val()
	if left := until.Sub(asked); ttl <= 0 || left >= ttl {
		t.Errorf("the holder uses the lock for %v, but it expires in %v, want it used for less", left, ttl)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, second, err := s.lockPages(ctx); err == nil || second != nil {
		t.Error("lockPages gave a lock to a second holder")
	}
	s.client.Set(t.Context(), s.cfg.pagesKey(), "another's", 0) // as if the lock had expired
	unlock()
	if got := s.client.Get(t.Context(), s.cfg.pagesKey()).Val(); got != "another's" {
		t.Errorf("after a former holder has called unlock, the lock of the next is %q, want another's", got)
	}
	s.client.Del(t.Context(), s.cfg.pagesKey())
	if _, unlock, err = s.lockPages(t.Context()); err != nil || unlock == nil {
		t.Fatalf("lockPages after unlock: %v", err)
	}
	unlock()
	if n := s.client.Exists(t.Context(), s.cfg.pagesKey()).Val(); n != 0 {
		t.Error("the key of the lock exists after unlock")
	}
}

// TestFenceOfLimits: the limit of a call is valid until a certain time. A call that arrives
// later leases nothing.
func TestFenceOfLimits(t *testing.T) {
	t.Parallel()
	b := newScriptBench(t)
	b.add(0, 40, 0)
	late := func(c *call) *call {
		c.args[len(c.args)-1] = b.clock.now().UnixMilli() - 1
		b.runAll(t.Context(), []*call{c})
		return c
	}
	if c := late(b.leaseCall(frontier.LeaseID{9})); c.err != nil || integer(at(list(c.reply), 0)) != 0 {
		t.Errorf("lease.lua after its limit has expired: reply %v, error %v, want no lease", c.reply, c.err)
	}
	id := b.lend()
	c := late(b.call(extendScript, nil, id[:], 10_000, 11, 20, 100, ""))
	if c.err != nil || integer(at(list(c.reply), 0)) != 1 || len(list(c.reply)) != 1 {
		t.Errorf("extend.lua after its limit has expired: reply %v, error %v, want a longer lease without items",
			c.reply, c.err)
	}
	b.must(b.call(extendScript, nil, id[:], 10_000, 11, 20, 100, b.clock.now().UnixMilli()), "extend.lua before its limit expires")
	if got := b.counter(t, fieldLeased); got != 20 {
		t.Errorf("%d items are leased, want 20", got)
	}
}
