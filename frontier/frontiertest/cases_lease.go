package frontiertest

import (
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

var leaseCases = []testCase{
	{"LeaseSizesTheBatch", Options{}, func(d *driver) {
		for _, tc := range []struct {
			ttl, delay time.Duration
			want       int
		}{
			{30 * time.Second, 0, 32},
			{30 * time.Second, time.Second, 30},
			{10 * time.Second, 3 * time.Second, 3},
			{10 * time.Second, 11 * time.Second, 1},
			{time.Minute, time.Second, 32},
		} {
			c := d.open(Options{LeaseTTL: tc.ttl, Delay: tc.delay})
			l := c.addAndLease(pages("a.test", 0, 40)...)
			c.Require(len(l.Items) == tc.want && l.TTL == tc.ttl,
				"ttl %v, delay %v: a lease of %d items for %v, want %d items", tc.ttl, tc.delay, len(l.Items), l.TTL, tc.want)
			other := 7 * time.Second
			c.end(l, other)
			want := batch(tc.ttl, other)
			l = c.lease()
			c.Require(len(l.Items) == want,
				"ttl %v, delay %v by a HostUpdate: %d items, want %d", tc.ttl, other, len(l.Items), want)
			c.end(l, 0)
			l = c.lease()
			c.Require(len(l.Items) == 32, "delay 0 by a HostUpdate: %d items, want 32", len(l.Items))
		}
	}},
	{"LeaseHandsOutAHostOnce", Options{Delay: 10 * time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 9)...)
		c.want("number of items handed out", uint64(len(l.Items)), 3)
		c.idle()
		c.Clock.Advance(29 * time.Second)
		c.idle()
		c.complete(l.ID, frontier.HostUpdate{Delay: 10 * time.Second}, all(l.Items, finished)...)
		c.idle() // the lease continues without items
		c.wantPlaces(6, 0, 3, 0)
		c.end(l, 10*time.Second)
		c.wantItems("handed out", c.lease().Items, pages("a.test", 3, 6))
	}},
	{"LeaseHandsOutAllThatIsDue", Options{}, func(c *driver) {
		const hosts = 20
		c.addHosts(hosts, 3)
		c.wantStats(counts{"hosts": hosts})
		leased := map[string]bool{}
		for len(leased) < hosts { // a store can lease fewer hosts than requested, but at least one
			ids := c.ids(7)
			grant := c.grant(frontier.LeaseRequest{IDs: ids})
			c.Require(len(grant.Leases) > 0 && len(grant.Leases) <= len(ids),
				"%d hosts handed out; %d hosts are due, %d were requested", len(grant.Leases), hosts-len(leased), len(ids))
			for _, l := range grant.Leases {
				c.Require(!leased[l.Host] && slices.Contains(ids, l.ID),
					"host %q handed out twice, or under the id %x, which was not requested", l.Host, l.ID)
				leased[l.Host] = true
			}
			c.Require(grant.Wait == 0 || len(leased) == hosts,
				"%d hosts are due, but the wait is %v", hosts-len(leased), grant.Wait)
		}
		c.wantPlaces(0, 3*hosts, 0, 0)
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
	{"LeaseHoldsMaxPages", Options{}, func(c *driver) {
		c.add(append(pages("a.test", 0, 10), pages("b.test", 0, 10)...)...)
		limit := func(pages uint64) frontier.Grant {
			return c.grant(frontier.LeaseRequest{IDs: c.ids(1), MaxPages: pages})
		}
		first := limit(4)
		c.Require(len(first.Leases) == 1 && len(first.Leases[0].Items) == 4,
			"under a limit of 4 pages: leases %+v, want one of 4 items", first.Leases)
		grant := limit(4)
		c.Require(len(grant.Leases) == 0 && grant.Limited && !grant.Reached,
			"4 of 4 pages are leased: %d more hosts, limited %t, reached %t, want 0, true, false",
			len(grant.Leases), grant.Limited, grant.Reached)
		l := first.Leases[0]
		c.complete(l.ID, frontier.HostUpdate{Due: time.Hour, End: true}, ended(l.Items[0], frontier.Robots, 0), finished(l.Items[1]), retried(l.Items[2], time.Hour))
		// The crawl has one page so far. Item 3 went back to the queue of a host that is due in an hour.
		second := limit(3)
		c.Require(len(second.Leases) == 1 && len(second.Leases[0].Items) == 2,
			"under a limit of 3 pages, after one page: leases %+v, want one of 2 items", second.Leases)
		c.complete(second.Leases[0].ID, frontier.HostUpdate{Due: time.Hour, End: true}, all(second.Leases[0].Items, finished)...)
		c.wantStats(counts{"pages": 3})
		grant = limit(3)
		c.Require(len(grant.Leases) == 0 && grant.Limited && grant.Reached,
			"the pages reach the limit, no host is due: %d hosts, limited %t, reached %t, want 0, true, true",
			len(grant.Leases), grant.Limited, grant.Reached)
		grant = limit(0)
		c.Require(!grant.Limited && !grant.Reached, "without a limit of pages, the grant is limited or reached")
	}},
	{"ExtendProlongs", Options{LeaseTTL: 10 * time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 2)...)
		for range 5 {
			c.Clock.Advance(9 * time.Second)
			got := c.extend(l.ID, frontier.TopUp{Known: 2})
			c.Require(got.TTL == 10*time.Second && len(got.Items) == 0,
				"Extend returned TTL %v and items %q, want 10s and no items", got.TTL, urls(got.Items))
			c.idle()
		}
		c.endAfter(l, all(l.Items, finished)...)
		c.wantPlaces(0, 0, 2, 0)
	}},
	{"ExtendTopsUp", Options{LeaseTTL: 10 * time.Second, Delay: 5 * time.Second}, func(c *driver) {
		late := page("a.test", 9)
		late.Delay = time.Hour
		c.add(late)
		l := c.addAndLease(pages("a.test", 0, 6)...)
		c.wantItems("handed out", l.Items, pages("a.test", 0, 2))
		c.complete(l.ID, frontier.HostUpdate{Delay: 5 * time.Second}, finished(l.Items[0]))
		got := c.extend(l.ID, frontier.TopUp{Items: 3, Known: 2})
		c.wantItems("topped up from 1 to 3", got.Items, pages("a.test", 2, 4))
		got = c.extend(l.ID, frontier.TopUp{Items: 100, Known: 4})
		c.wantItems("topped up with all that is ready", got.Items, pages("a.test", 4, 6))
		c.wantPlaces(1, 5, 1, 0)
	}},
	{"ExtendHoldsMaxPages", Options{LeaseTTL: 10 * time.Second, Delay: 5 * time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 9)...)
		got := c.extend(l.ID, frontier.TopUp{Items: 9, Known: 2, MaxPages: 5})
		c.wantItems("topped up to the limit", got.Items, pages("a.test", 2, 5))
		got = c.extend(l.ID, frontier.TopUp{Items: 9, Known: 5, MaxPages: 3})
		c.wantItems("topped up beyond the limit", got.Items, nil)
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
		c.Require(len(next.Items) == 3, "%q handed out to the next lease, want all 3", urls(next.Items))
	}},
}
