package frontiertest

import (
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

var leaseCases = []testCase{
	// Model's hosts seldom have enough items for a lease of the largest size.
	{"LeaseHasAtMost32Items", Options{}, func(d *driver) {
		for _, delay := range []time.Duration{0, time.Second} {
			c := d.open(Options{LeaseTTL: time.Minute, Delay: delay})
			l := c.addAndLease(pages("a.test", 0, 40)...)
			c.Require(len(l.Items) == 32, "TTL 1m, delay %v: a lease of %d items, want 32", delay, len(l.Items))
		}
	}},
	// This case checks that hosts with many items do not keep other hosts waiting.
	{"LeaseGivesEachHostItsTurn", Options{LeaseTTL: time.Second, Delay: time.Second}, func(c *driver) {
		const hosts = 8
		c.addHosts(hosts, 100)
		turns := map[string]int{}
		for range 4 * hosts {
			l := c.lease()
			turns[l.Host]++
			c.complete(l.ID, frontier.HostUpdate{End: true, Delay: time.Second}, finished(l.Items[0]))
			c.Clock.Advance(time.Millisecond)
		}
		c.Require(len(turns) >= hosts, "after %d leases only %d of %d hosts had a turn: %v", 4*hosts, len(turns), hosts, turns)
	}},
	// This case checks the TTL that a repeat returns. A worker counts the TTL from a
	// moment before its call. If a repeat returned the whole TTL, but the store did not
	// renew the lease, the worker would start requests after the lease has expired.
	{"LeaseRepeatReturnsTheTimeLeft", Options{LeaseTTL: 30 * time.Second}, func(c *driver) {
		c.add(page("a.test", 1))
		request := frontier.LeaseRequest{Worker: "suite", IDs: c.ids(1)}
		c.grant(request)
		c.Clock.Advance(20 * time.Second)
		again := c.grant(request)
		c.Require(len(again.Leases) == 1, "the repeat got %d leases, want 1", len(again.Leases))
		c.Clock.Advance(again.Leases[0].TTL - time.Millisecond)
		err := c.Complete(c.Ctx, request.IDs[0], nil, frontier.HostUpdate{})
		c.Require(err == nil, "the repeat returned TTL %v, but just before its end Complete = %v", again.Leases[0].TTL, err)
	}},
	{"LeaseReportsEmpty", Options{}, func(c *driver) {
		c.Require(c.idle().Empty, "a new crawl is not empty")
		l := c.addAndLease(page("a.test", 1))
		c.Require(!c.idle().Empty, "empty while an item is leased")
		c.complete(l.ID, frontier.HostUpdate{}, retried(l.Items[0], time.Minute))
		c.Require(!c.idle().Empty, "empty while an item is delayed")
		c.end(l, 0)
		c.Clock.Advance(time.Minute)
		l = c.lease()
		c.complete(l.ID, frontier.HostUpdate{End: true, Due: time.Hour}, finished(l.Items[0]))
		c.Require(c.idle().Empty, "not empty when everything is done")
	}},
	{"ExtendHoldsMaxPages", Options{LeaseTTL: 10 * time.Second, Delay: 5 * time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 9)...)
		got := c.extend(l.ID, frontier.TopUp{Items: 9, Known: 2, MaxPages: 5})
		if c.limitsPagesOnly() {
			c.wantItems("topped up below the limit", got.Items, pages("a.test", 2, 9))
			return
		}
		c.wantItems("topped up to the limit", got.Items, pages("a.test", 2, 5))
		got = c.extend(l.ID, frontier.TopUp{Items: 9, Known: 5, MaxPages: 3})
		c.wantItems("topped up beyond the limit", got.Items, nil)
	}},
	{"NothingIsLeasedAtTheLimit", Options{LeaseTTL: 10 * time.Second, Delay: 5 * time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 9)...)
		c.add(pages("b.test", 0, 9)...)
		c.complete(l.ID, frontier.HostUpdate{}, finished(l.Items[0]), finished(l.Items[1]))
		got := c.extend(l.ID, frontier.TopUp{Items: 9, Known: 2, MaxPages: 2})
		c.wantItems("topped up at the limit", got.Items, nil)
		grant := c.grant(frontier.LeaseRequest{Worker: "suite", IDs: c.ids(1), MaxPages: 2})
		c.Require(len(grant.Leases) == 0 && grant.Limited && grant.Reached,
			"at the limit: %d hosts leased, limited %t, reached %t, want 0, true, true", len(grant.Leases), grant.Limited, grant.Reached)
		c.wantLimit(2, c.limitsPagesOnly())
		c.wantLimit(3, false)
		c.wantLimit(0, false)
		grant = c.grant(frontier.LeaseRequest{Worker: "suite", IDs: c.ids(1), MaxPages: 3})
		c.Require(len(grant.Leases) == 1 && !grant.Limited == c.limitsPagesOnly() && !grant.Reached,
			"one page below the limit: %d hosts leased, limited %t, reached %t", len(grant.Leases), grant.Limited, grant.Reached)
	}},
	// This case checks that an item is not leased again under a lease that has completed
	// it. Otherwise, if a reply is lost, the repeated completion would complete the item a
	// second time.
	{"ExtendHandsOutNothingCompleted", Options{LeaseTTL: 10 * time.Second, Delay: 5 * time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 3)...)
		done := []frontier.Completion{retried(l.Items[0], 0), givenBack(l.Items[1])}
		c.complete(l.ID, frontier.HostUpdate{}, done...)
		got := c.extend(l.ID, frontier.TopUp{Items: 3, Known: 2})
		c.wantItems("topped up", got.Items, pages("a.test", 2, 3))
		c.complete(l.ID, frontier.HostUpdate{}, done...)
		c.wantStats(counts{"retries": 1})
		c.end(l, 0)
		next := c.lease()
		rest := c.extend(next.ID, frontier.TopUp{Items: 3, Known: 2})
		c.Require(len(next.Items) == 2 && len(rest.Items) == 1, "%q and %q handed out to the next lease, want all 3", urls(next.Items), urls(rest.Items))
	}},
}
