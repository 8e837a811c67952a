package fetcher

import (
	"math/rand/v2"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
)

// TestWorkingIsNeverNegative lets leases take slots, become late, wait for their delay and end, in any
// order: a host with several requests at once can be late and wait at the same moment. Progress must
// count each lease exactly once, as late, as waiting, or else as working.
func TestWorkingIsNeverNegative(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	c := &Crawl{slots: newSlots(4, 0)}
	var all []*holding
	for range 6 {
		l := &holding{Crawl: c, lease: frontier.Lease{Host: "a.test"}}
		c.held.Add(1)
		l.setParked(false)
		all = append(all, l)
	}
	for step := range 10_000 {
		l := all[rng.IntN(len(all))]
		switch rng.IntN(5) {
		case 0:
			if inside, limit, _ := c.slots.prompt.counts(); l.asking > 0 || inside < limit { // otherwise takeSlot waits
				if err := l.takeSlot(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		case 1:
			if l.asking > 0 {
				l.dropSlot()
			}
		case 2:
			l.mu.Lock()
			if l.slot != nil {
				l.yieldSlot()
			}
			l.mu.Unlock()
		case 3, 4:
			l.setParked(rng.IntN(2) == 0)
		}
		late, waiting, working := 0, int64(0), int64(0)
		for _, l := range all {
			switch {
			case l.slot == c.slots.late:
				late++
			case l.parked:
				waiting++
			default:
				working++
			}
		}
		inside, _, _ := c.slots.late.counts()
		held, ready := c.held.Load(), c.ready.Load()
		if inside != late || ready != working || held-ready-int64(inside) != waiting {
			t.Fatalf("step %d: %d of %d leases are ready, %d late; want %d working, %d late, %d waiting", step, ready, held, inside, working, late, waiting)
		}
	}
}
