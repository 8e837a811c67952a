package redisstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// lostReply is a crawl whose server is behind a proxy that can lose replies. The test sets the
// clock of the crawl.
type lostReply struct {
	*testing.T
	*Store
	proxy *servers.ProxyServer
	clock *testClock
	out   countingOutput
}

type countingOutput struct{ records, syncs int }

// countOutput opens an output that only counts.
func countOutput(frontier.Identity, frontier.Position) (frontier.Output, error) {
	return new(countingOutput), nil
}

func (o *countingOutput) Sync() (frontier.Position, error) {
	o.syncs++
	return nil, nil
}

func (o *countingOutput) write(frontier.LinkCounts) error {
	o.records++
	return nil
}

func newLostReply(t *testing.T, configs ...func(*servers.RedisServer) Config) *lostReply {
	c := &lostReply{T: t, clock: newTestClock()}
	server := servers.Redis(t, servers.RedisOptions{})
	c.proxy = servers.Proxy(t, server.Addr())
	cfg := append(configs, config)[0](server)
	cfg.Redis = &redis.UniversalOptions{Addrs: []string{c.proxy.Addr()}}
	cfg.Now = c.clock.now
	cfg.LeaseTTL = 10 * time.Second
	cfg.OpenOutput = func(frontier.Identity, frontier.Position) (frontier.Output, error) { return &c.out, nil }
	c.Store = openStore(t, cfg)
	return c
}

// lose makes the proxy lose the reply to the script's next run. Then it calls action,
// which must return frontier.ErrUnavailable.
func (c *lostReply) lose(sc *script, action func(context.Context) error) {
	c.Helper()
	hash := []byte(c.nodes.single.epoch.Load().sha[sc])
	dropped := c.proxy.DropReply(func(request []byte) bool { return bytes.Contains(request, hash) })
	if err := action(c.Context()); !errors.Is(err, frontier.ErrUnavailable) {
		c.Fatalf("the call whose reply to %s was lost returned %v, want %v", sc.name, err, frontier.ErrUnavailable)
	}
	select {
	case <-dropped:
	case <-time.After(5 * time.Second):
		c.Fatalf("no reply to %s was lost", sc.name)
	}
}

func (c *lostReply) grant(ids ...frontier.LeaseID) frontier.Grant {
	c.Helper()
	grant, err := c.Lease(c.Context(), frontier.LeaseRequest{IDs: ids, InFlight: 1})
	if err != nil {
		c.Fatal(err)
	}
	return grant
}

func (c *lostReply) leaseOf(host string) frontier.Lease {
	c.Helper()
	for _, l := range c.grant(leaseIDs(4)...).Leases {
		if l.Host == host {
			return l
		}
	}
	c.Fatalf("%s is not handed out", host)
	return frontier.Lease{}
}

// counter returns the sum of a counter over all partitions.
func (s *Store) counter(t testing.TB, field string) (sum int64) {
	t.Helper()
	for _, p := range s.parts {
		n, err := s.client.HGet(t.Context(), p.meta, field).Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// want checks counters. The arguments are fields, each followed by its wanted value.
func (c *lostReply) want(counters ...any) {
	c.Helper()
	for i := 0; i < len(counters); i += 2 {
		field, want := counters[i].(string), int64(counters[i+1].(int))
		if got := c.counter(c, field); got != want {
			c.Errorf("counter %q is %d, want %d", field, got, want)
		}
	}
}

func urlsOf(items []frontier.Item) (urls []string) {
	for _, item := range items {
		urls = append(urls, item.URL)
	}
	return urls
}

func leaseIDs(n int) []frontier.LeaseID {
	ids := make([]frontier.LeaseID, n)
	for i := range ids {
		_, _ = rand.Read(ids[i][:])
	}
	return ids
}

// TestLostReplies loses the reply to each script once, after the script has run.
// The caller repeats the call, and the effect happens once.
func TestLostReplies(t *testing.T) {
	for name, check := range map[string]func(*lostReply){
		"peek":             lostPeek,
		"lease":            lostLease,
		"extend":           lostExtend,
		"complete":         lostComplete,
		"complete and end": lostEnd,
		"expire":           lostExpire,
		"ready":            lostReady,
		"retry":            lostRetry,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(newLostReply(t))
		})
	}
}

func lostPeek(c *lostReply) {
	mustAdd(c, c.Store, testPages("a.test", 0, 3))
	ids := leaseIDs(1)
	c.lose(peekScript, func(ctx context.Context) error {
		_, err := c.Lease(ctx, frontier.LeaseRequest{IDs: ids})
		return err
	})
	c.want(fieldLeased, 0)
	if grant := c.grant(ids...); len(grant.Leases) != 1 {
		c.Errorf("after a lost reply to peek: %d leases, want 1", len(grant.Leases))
	}
}

func lostLease(c *lostReply) {
	for n := range 4 {
		mustAdd(c, c.Store, testPages(fmt.Sprintf("h%d.test", n), 0, 3))
	}
	ids := leaseIDs(1)
	c.lose(leaseScript, func(ctx context.Context) error {
		_, err := c.Lease(ctx, frontier.LeaseRequest{IDs: ids})
		return err
	})
	c.want(fieldLeased, 3)
	c.clock.advance(4 * time.Second)
	grant := c.grant(ids...)
	if len(grant.Leases) != 1 || len(grant.Leases[0].Items) != 3 || grant.Leases[0].TTL != 6*time.Second {
		c.Fatalf("the repeat of a Lease whose reply was lost got %+v, want the three items of one host for 6s", grant.Leases)
	}
	c.want(fieldLeased, 3, fieldQueued, 9)
}

func lostExtend(c *lostReply) {
	mustAdd(c, c.Store, testPages("a.test", 0, 50))
	l := c.leaseOf("a.test")
	c.clock.advance(9 * time.Second)
	topUp := frontier.TopUp{Items: 40, Known: len(l.Items)}
	c.lose(extendScript, func(ctx context.Context) error {
		_, err := c.Extend(ctx, l.ID, topUp)
		return err
	})
	c.want(fieldLeased, 40)
	got, err := c.Extend(c.Context(), l.ID, topUp)
	same := func(item frontier.Item, offer frontier.Offer) bool { return item.URL == offer.URL }
	if want := testPages("a.test", 32, 40); err != nil || !slices.EqualFunc(got.Items, want, same) {
		c.Errorf("the repeat of a lost Extend: items %q, %v, want %d items from the 33rd on", urlsOf(got.Items), err, len(want))
	}
	c.want(fieldLeased, 40, fieldQueued, 10)
	c.clock.advance(9 * time.Second)
	if err := c.Complete(c.Context(), l.ID, []frontier.Completion{finish(l.Items[0])}, frontier.HostUpdate{}); err != nil {
		c.Errorf("Complete within the extended lease: %v", err)
	}
}

func finish(item frontier.Item) frontier.Completion {
	return frontier.Completion{Item: item.Fingerprint, Outcome: frontier.OK, Status: 200, Page: true}
}

// pageOf returns the completion of an item as a page with links and a record.
func (c *lostReply) pageOf(item frontier.Item) frontier.Completion {
	done := finish(item)
	done.Links = append(testPages("b.test", 0, 3), testPages("a.test", 0, 2)...)
	done.Refused = []frontier.Refusal{{Reason: frontier.ReasonScope, Count: 2}}
	done.Record = func(counts frontier.LinkCounts) error {
		if want := (frontier.LinkCounts{Found: 7, Added: 3, Seen: 2, Refused: 2}); counts != want {
			c.Errorf("the record got the link counts %+v, want %+v", counts, want)
		}
		return c.out.write(counts)
	}
	done.Void = func() error { c.Error("Void was called, want the record kept"); return nil }
	return done
}

func lostComplete(c *lostReply) {
	mustAdd(c, c.Store, testPages("a.test", 0, 5))
	l := c.leaseOf("a.test")
	done := []frontier.Completion{
		c.pageOf(l.Items[0]),
		{Item: l.Items[1].Fingerprint, Outcome: frontier.Network},
		{Item: l.Items[2].Fingerprint, Disposition: frontier.Retry, RetryIn: time.Minute},
		{Item: l.Items[3].Fingerprint, Disposition: frontier.GiveBack},
	}
	complete := func(ctx context.Context) error {
		return c.Complete(ctx, l.ID, done, frontier.HostUpdate{Delay: time.Second})
	}
	c.lose(completeScript, complete)
	for range 2 {
		if err := complete(c.Context()); err != nil {
			c.Fatal(err)
		}
	}
	c.wantOnce(1)
	c.want(fieldRetries, 1, fieldFailed, 1, fieldLeased, 1, fieldQueued, 5, fieldOutcome+"network", 1)
}

// wantOnce checks that the effects of n pages happened once.
func (c *lostReply) wantOnce(n int) {
	c.Helper()
	c.want(fieldDone, n, fieldPages, n, fieldRecords, n, fieldOther, 4*n, fieldSeen, 2*n, fieldRefused+"scope", 2*n)
	if c.out.records != n || c.out.syncs == 0 {
		c.Errorf("%d records written, %d syncs, want %d records, at least 1 sync", c.out.records, c.out.syncs, n)
	}
}

func lostEnd(c *lostReply) {
	mustAdd(c, c.Store, testPages("a.test", 0, 3))
	l := c.leaseOf("a.test")
	done := []frontier.Completion{c.pageOf(l.Items[0])}
	complete := func(ctx context.Context) error {
		return c.Complete(ctx, l.ID, done, frontier.HostUpdate{Due: time.Second, End: true})
	}
	c.lose(completeScript, complete)
	c.clock.advance(time.Second)
	next := c.leaseOf("a.test") // another lease of the host does not affect the repeat
	for range 2 {
		if err := complete(c.Context()); err != nil {
			c.Fatal(err)
		}
	}
	c.wantOnce(1)
	c.want(fieldLeased, 2+3, fieldQueued, 0)
	if _, err := c.Extend(c.Context(), l.ID, frontier.TopUp{}); !errors.Is(err, frontier.ErrLeaseLost) {
		c.Errorf("Extend of a lease that ended = %v, want ErrLeaseLost", err)
	}
	other := []frontier.Completion{finish(l.Items[1])}
	if err := c.Complete(c.Context(), l.ID, other, frontier.HostUpdate{}); !errors.Is(err, frontier.ErrLeaseLost) {
		c.Errorf("a new completion under the ended lease = %v, want ErrLeaseLost", err)
	}
	if _, err := c.Extend(c.Context(), next.ID, frontier.TopUp{}); err != nil {
		c.Errorf("Extend of the next lease: %v", err)
	}
}

func lostExpire(c *lostReply) {
	mustAdd(c, c.Store, testPages("a.test", 0, 3))
	c.leaseOf("a.test")
	c.clock.advance(10 * time.Second)
	c.lose(expireScript, func(ctx context.Context) error {
		_, err := c.Lease(ctx, frontier.LeaseRequest{})
		return err
	})
	l := c.leaseOf("a.test")
	for i, want := range []uint8{1, 0, 0} {
		if got := l.Items[i].Deliveries; got != want {
			c.Errorf("item %d has %d deliveries, want %d", i, got, want)
		}
	}
	c.want(fieldLeased, 3, fieldQueued, 0)
}

func lostReady(c *lostReply) {
	items := testPages("a.test", 0, 3)
	for i := range items {
		items[i].Delay = time.Minute
	}
	mustAdd(c, c.Store, items)
	c.want(fieldQueued, 3, fieldDelayed, 3)
	c.clock.advance(time.Minute)
	c.lose(readyScript, func(ctx context.Context) error {
		_, err := c.Lease(ctx, frontier.LeaseRequest{})
		return err
	})
	if l := c.leaseOf("a.test"); len(l.Items) != 3 {
		c.Errorf("handed out %q, want each of three items once", urlsOf(l.Items))
	}
	c.want(fieldLeased, 3, fieldQueued, 0, fieldDelayed, 0)
}

func lostRetry(c *lostReply) {
	mustAdd(c, c.Store, testPages("a.test", 0, 3))
	l := c.leaseOf("a.test")
	var done []frontier.Completion
	for _, item := range l.Items {
		done = append(done, frontier.Completion{Item: item.Fingerprint, Outcome: frontier.Network})
	}
	if err := c.Complete(c.Context(), l.ID, done, frontier.HostUpdate{End: true}); err != nil {
		c.Fatal(err)
	}
	c.lose(retryScript, func(ctx context.Context) error {
		_, err := c.Retry(ctx, frontier.Failures{})
		return err
	})
	if n, err := c.Retry(c.Context(), frontier.Failures{}); n != 0 || err != nil {
		c.Errorf("the repeat of a lost Retry = %d, %v, want 0: all items are queued again already", n, err)
	}
	again := c.leaseOf("a.test")
	if len(again.Items) != 3 || again.Items[0].Round != 1 {
		c.Errorf("handed out %+v, want each of three items in round 1", again.Items)
	}
	c.want(fieldFailed, 0, fieldLeased, 3)
}

// TestLostCompletionInDoubt: a record is not voided while it is unknown whether its
// completion took effect. It is voided once it is certain that the completion had no effect.
func TestLostCompletionInDoubt(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run("lost="+strconv.FormatBool(lost), func(t *testing.T) {
			t.Parallel()
			c := newLostReply(t)
			mustAdd(c, c.Store, testPages("a.test", 0, 3))
			l := c.leaseOf("a.test")
			done := finish(l.Items[0])
			done.Record = c.out.write
			voids := 0
			done.Void = func() error { voids++; return nil }
			complete := func(ctx context.Context) error {
				return c.Complete(ctx, l.ID, []frontier.Completion{done}, frontier.HostUpdate{})
			}
			if lost {
				c.lose(completeScript, complete)
			}
			// The server loses the lease, as if it had lost its last writes.
			p := c.partition("a.test")
			if err := c.client.Del(t.Context(), p.active("a.test")).Err(); err != nil {
				t.Fatal(err)
			}
			if err := complete(t.Context()); !errors.Is(err, frontier.ErrLeaseLost) {
				t.Fatalf("Complete under a lease that the store does not know = %v, want ErrLeaseLost", err)
			}
			want := 1
			if lost {
				want = 0
			}
			if voids != want || c.out.records != 1 {
				t.Errorf("%d records written, %d voided, want 1 written, %d voided", c.out.records, voids, want)
			}
		})
	}
}
