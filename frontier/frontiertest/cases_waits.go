package frontiertest

import (
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// wantWaits checks which items the outbox says are queued or leased.
func (c outbox) wantWaits(when string, items []frontier.Item, want ...bool) {
	got, err := c.Crawl.(frontier.Outbox).Waits(c.Ctx, items)
	c.Must(err, "Waits")
	if !slices.Equal(got, want) {
		c.Failf("%s: of %q wait %v, want %v", when, urls(items), got, want)
	}
}

// waitsUntilCompleted: an exact item waits while it is queued, delayed or leased,
// and no longer from its completion on.
func waitsUntilCompleted(open func(Options) outbox) {
	c := open(Options{})
	items := allAs(frontier.New, pages("a.test", 0, 3))
	items[2].Delay = time.Hour
	c.add(items...)
	for i := range items {
		items[i].Fingerprint = c.print(items[i])
	}
	c.wantWaits("queued", items, true, true, true)
	l := c.lease()
	c.wantWaits("leased", items, true, true, true)
	untold, told := finished(l.Items[0]), finished(l.Items[1])
	untold.Untold = true
	c.complete(l.ID, frontier.HostUpdate{End: true}, untold, told)
	c.wantWaits("completed", items, false, false, true)
	items[2].Fingerprint[0]++
	c.wantWaits("never offered", items[2:], false)
}
