package frontiertest

import (
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// wantWaits checks which items the outbox says are queued or leased.
func (c outbox) wantWaits(when string, keys []exact.ItemKey, want ...bool) {
	got, err := c.Crawl.(exact.Outbox).Waits(c.Ctx, keys)
	c.Must(err, "Waits")
	c.Require(slices.Equal(got, want), "%s: of %x wait %v, want %v", when, keys, got, want)
}

// waitsUntilCompleted checks that an exact item waits while it is queued, delayed or
// leased, and does not wait after its completion.
func waitsUntilCompleted(open func(Options) outbox) {
	c := open(Options{})
	items := allAs(frontier.New, pages("a.test", 0, 3))
	items[2].Delay = time.Hour
	c.add(items...)
	keys := make([]exact.ItemKey, len(items))
	for i, item := range items {
		keys[i] = exact.ItemKey{Host: item.Host, Fingerprint: c.print(item)}
	}
	c.wantWaits("queued", keys, true, true, true)
	l := c.lease()
	c.wantWaits("leased", keys, true, true, true)
	unconfirmed, confirmed := finished(l.Items[0]), finished(l.Items[1])
	unconfirmed.Unconfirmed = true
	c.endAfter(l, unconfirmed, confirmed)
	c.wantWaits("completed", keys, false, false, true)
	keys[2].Fingerprint[0]++
	c.wantWaits("never offered", keys[2:], false)
}
