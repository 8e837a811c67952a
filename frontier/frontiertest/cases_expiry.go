package frontiertest

import (
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

var expiryCases = []testCase{
	{"ExpiryKeepsTheBackOff", Options{LeaseTTL: 10 * time.Second, Delay: time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 2)...)
		c.complete(l.ID, frontier.HostUpdate{Due: time.Hour, Delay: time.Second}, retried(l.Items[0], 0))
		c.dueIn(time.Hour)
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
