package frontiertest

import (
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// recheckCases are for a Crawl that is a frontier.Rechecker.
var recheckCases = []testCase{
	{"RecheckQueuesOnce", Options{}, func(c *driver) { recheckOnce(c, nil) }},
	{"RecheckSurvivesCrash", Options{}, func(c *driver) { recheckOnce(c, Reopener.Crash) }},
	// The state of the host, such as its robots.txt, stays, unless the outcome came from it.
	{"RecheckKeepsTheBlob", Options{}, func(c *driver) {
		if _, can := c.Crawl.(frontier.Rechecker); !can {
			return
		}
		for outcome, kept := range map[frontier.Outcome]bool{frontier.OK: true, frontier.NotModified: true, frontier.ClientError: true, frontier.Robots: false} {
			host := string(outcome) + ".test"
			l := c.addAndLease(page(host, 1))
			c.complete(l.ID, frontier.HostUpdate{Blob: []byte("state"), End: true}, ended(l.Items[0], outcome, 0))
			c.recheck(1, 0, page(host, 1))
			again := c.lease()
			if kept {
				c.wantBlob(again, []byte("state"))
			} else {
				c.wantBlob(again, nil)
			}
			c.endAfter(again, finished(again.Items[0]))
		}
	}},
}

// recheck calls Recheck for items that ended in a round, and checks how many it queues.
func (d *driver) recheck(want int, round uint32, offers ...frontier.Offer) {
	items := make([]frontier.Finished, len(offers))
	for i := range offers {
		items[i] = frontier.Finished{Offer: offers[i], Round: round}
	}
	n, err := d.Crawl.(frontier.Rechecker).Recheck(d.Ctx, items)
	d.Must(err, "Recheck")
	d.Require(n == want, "Recheck of %d items of round %d queued %d, want %d", len(items), round, n, want)
	d.wantAudit()
}

// recheckOnce checks that finished items are queued once for their next round, and that the books
// balance in every state. If again is not nil, the crawl is opened again between all steps.
func recheckOnce(c *driver, again func(Reopener) (Crawl, error)) {
	if _, can := c.Crawl.(frontier.Rechecker); !can {
		return
	}
	restart := func() {
		if again != nil {
			c.restart(again)
		}
	}
	all := pages("a.test", 0, 6)
	l := c.addAndLease(all...)
	c.complete(l.ID, frontier.HostUpdate{End: true}, ended(l.Items[0], frontier.ClientError, 404), ended(l.Items[1], frontier.OK, 200),
		ended(l.Items[2], frontier.ServerError, 503), retried(l.Items[3], time.Hour))
	restart()
	added := c.books().Added
	c.recheck(0, 1, all...) // of a round that has not begun
	c.recheck(0, 0, all[3:]...)
	c.recheck(0, 0, page("b.test", 0)) // unknown
	c.recheck(1, 0, all[0])            // as a call that is killed half-way
	restart()
	c.recheck(2, 0, all...)
	restart()
	c.recheck(0, 0, all...)
	books := c.books()
	c.want("added, with two done items once more", books.Added, added+2)
	c.want("queued", books.Queued, 6)
	c.want("failed", books.Failed, 0)
	c.want("done", books.Done, 2)
	for _, offer := range all[:3] {
		c.wantState(offer, frontier.Queued)
	}
	rounds := map[string]uint32{}
	c.Must(c.List(c.Ctx, frontier.Queued, "", func(it frontier.Item) bool { rounds[it.URL] = it.Round; return true }), "List")
	for i, offer := range all {
		want := uint32(0)
		if i < 3 {
			want = 1
		}
		c.Require(rounds[offer.URL] == want, "%s is queued in round %d, want %d", offer.URL, rounds[offer.URL], want)
	}
	c.wantAnswer(frontier.Seen, all...)

	c.Clock.Advance(2 * time.Hour)
	for range 3 { // some items can still be delayed
		grant := c.grant(frontier.LeaseRequest{IDs: c.ids(1)})
		for _, l := range grant.Leases {
			var done []frontier.Completion
			for _, it := range l.Items {
				done = append(done, ended(it, frontier.OK, 200))
			}
			c.complete(l.ID, frontier.HostUpdate{End: true}, done...)
		}
		restart()
		c.wantAudit()
		c.Clock.Advance(time.Hour)
	}
	c.recheck(0, 0, all[:3]...) // of the round before
	c.recheck(3, 1, all...)
}
