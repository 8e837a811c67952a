package frontiertest

import (
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

var expiryCases = []testCase{
	{"ExpiryMakesTheHostDueAfterItsDelay", Options{LeaseTTL: 30 * time.Second, Delay: 7 * time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 9)...)
		c.complete(l.ID, frontier.HostUpdate{Delay: 6 * time.Second}, finished(l.Items[1]))
		again := c.dueIn(36 * time.Second)
		c.wantItems("handed out after the expiry", again.Items[:4],
			[]frontier.Offer{l.Items[0].Offer(), l.Items[2].Offer(), l.Items[3].Offer(), page("a.test", 4)})
		c.wantPlaces(3, 5, 1, 0)
	}},
	{"ExpiryKeepsTheBackOff", Options{LeaseTTL: 10 * time.Second, Delay: time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 2)...)
		c.complete(l.ID, frontier.HostUpdate{Due: time.Hour, Delay: time.Second}, retried(l.Items[0], 0))
		c.dueIn(time.Hour)
	}},
	{"ExpiryCountsDeliveries", Options{LeaseTTL: 10 * time.Second}, func(c *driver) {
		c.add(pages("a.test", 0, 5)...)
		grant := c.grant(frontier.LeaseRequest{IDs: c.ids(1), InFlight: 2})
		c.complete(grant.Leases[0].ID, frontier.HostUpdate{}, finished(grant.Leases[0].Items[0]))
		c.Clock.Advance(10 * time.Second)
		check := func(want []uint8) {
			l := c.lease()
			c.wantItems("handed out again", l.Items, pages("a.test", 1, 5))
			for i, item := range l.Items {
				c.Require(item.Deliveries == want[i] && item.Attempts == 0,
					"item %d came back with %d deliveries and %d attempts, want %d and 0", i, item.Deliveries, item.Attempts, want[i])
			}
			c.end(l, 0)
		}
		check([]uint8{1, 1, 0, 0})
		check([]uint8{1, 1, 0, 0}) // Deliveries does not grow when a worker ends its lease
		c.grant(frontier.LeaseRequest{IDs: c.ids(1)})
		c.Clock.Advance(10 * time.Second)
		check([]uint8{2, 1, 0, 0}) // InFlight 0 means 1
	}},
	{"ExpiryLosesTheLease", Options{LeaseTTL: 10 * time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 3)...)
		c.complete(l.ID, frontier.HostUpdate{Blob: []byte("kept")}, finished(l.Items[0]))
		c.Clock.Advance(10 * time.Second)
		done := finished(l.Items[1])
		done.Links = pages("b.test", 0, 3)
		done.Refused = []frontier.Refusal{{Reason: frontier.ReasonScope, Count: 5}}
		written := 0
		done.Record = func(frontier.LinkCounts) error { written++; return nil }
		before := c.books()
		c.lost(l.ID, done)
		if _, early := c.Crawl.(LinksFirst); !early {
			c.want("number of records written under a lost lease", uint64(written), 0)
			c.wantStats(counts{"found": before.Found})
			c.wantState(page("b.test", 0), frontier.Unknown)
		}
		again := c.lease()
		if again.Host == "a.test" {
			c.wantBlob(again, []byte("kept"))
		}
		c.lost(l.ID, done) // also when another lease has the host
		c.lost(c.id())     // an id without a lease
		c.wantStats(counts{"done": 1})
	}},
	{"ExpiryEndsAtMaxDeliveries", Options{LeaseTTL: time.Second}, func(c *driver) {
		c.add(page("a.test", 1))
		for n := range frontier.MaxDeliveries {
			c.want("number of deliveries", uint64(c.lease().Items[0].Deliveries), uint64(n))
			c.Clock.Advance(time.Second)
		}
		l := c.lease()
		c.want("number of deliveries", uint64(l.Items[0].Deliveries), frontier.MaxDeliveries)
		c.endAfter(l, ended(l.Items[0], frontier.WorkerLost, 0))
		status := c.wantState(page("a.test", 1), frontier.Failed)
		c.Require(status.Outcome == frontier.WorkerLost, "the outcome is %q, want %q", status.Outcome, frontier.WorkerLost)
		// Retry sets Deliveries to 0. Otherwise the item could never be fetched.
		c.retryFailed("a.test", 1)
		item := c.lease().Items[0]
		c.Require(item.Deliveries == 0 && item.Round == 1,
			"after Retry the item has %d deliveries, round %d; want 0 deliveries, round 1", item.Deliveries, item.Round)
	}},
}
