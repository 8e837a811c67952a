package frontiertest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// readmitCases are for a Crawl that is a frontier.Readmitter.
var readmitCases = []testCase{
	{"ReadmitLetsInOnce", Options{}, func(c *driver) { readmitOnce(c, nil) }},
	{"ReadmitSurvivesCrash", Options{}, func(c *driver) { readmitOnce(c, Reopener.Crash) }},
	{"ReadmitModel", Options{}, readmitModel},
	// A URL that comes back by Retry begins the round that Readmit allowed. It is not let in once more.
	{"ReadmitThenRetry", Options{}, func(c *driver) { readmitThenRetry(c, true) }},
	{"ReadmitThenRetryToTheEnd", Options{}, func(c *driver) { readmitThenRetry(c, false) }},
}

func readmitThenRetry(c *driver, offered bool) {
	if _, can := c.Crawl.(frontier.Readmitter); !can {
		return
	}
	l := c.addAndLease(page("a.test", 0))
	c.complete(l.ID, frontier.HostUpdate{End: true}, ended(l.Items[0], frontier.ServerError, 503))
	c.readmit([]frontier.Readmission{frontier.Readmitted}, page("a.test", 0))
	c.retryFailed("a.test", 1)
	if offered {
		c.wantAnswer(frontier.Seen, page("a.test", 0))
	}
	again := c.lease()
	c.endAfter(again, finished(again.Items[0]))
	c.wantAnswer(frontier.Seen, page("a.test", 0))
	c.wantAudit()
}

// readmit calls Readmit, first dry, and checks what it finds.
func (d *driver) readmit(want []frontier.Readmission, offers ...frontier.Offer) {
	for _, dry := range []bool{true, false} {
		before := d.books()
		got, err := d.Crawl.(frontier.Readmitter).Readmit(d.Ctx, offers, dry)
		d.Must(err, "Readmit")
		d.Require(fmt.Sprint(got) == fmt.Sprint(want), "Readmit(dry %t) of %d URLs found %v, want %v", dry, len(offers), got, want)
		d.want("added, after Readmit", d.books().Added, before.Added)
	}
	d.wantAudit()
}

// readmitOnce checks that finished items, bulk and exact, done and failed, are let in once, in a new round, and that nothing
// else is. If again is not nil, the crawl is opened again between all steps.
func readmitOnce(c *driver, again func(Reopener) (Crawl, error)) {
	if _, can := c.Crawl.(frontier.Readmitter); !can {
		return
	}
	restart := func() {
		if again != nil {
			c.restart(again)
		}
	}
	all := pages("a.test", 0, 8)
	all[1].Class, all[3].Class = frontier.Exact, frontier.Exact
	l := c.addAndLease(all...)
	c.complete(l.ID, frontier.HostUpdate{End: true}, ended(l.Items[0], frontier.OK, 200), ended(l.Items[1], frontier.OK, 200),
		ended(l.Items[2], frontier.ServerError, 503), ended(l.Items[3], frontier.ServerError, 503), ended(l.Items[4], frontier.OK, 200), retried(l.Items[5], time.Hour))
	restart()
	in, waits, unseen := frontier.Readmitted, frontier.Waits, frontier.NeverSeen
	c.wantAnswer(frontier.Seen, all...)
	c.readmit([]frontier.Readmission{in, in, in, in}, all[:4]...)
	c.readmit([]frontier.Readmission{waits, waits, unseen}, all[5], all[6], page("b.test", 0))
	restart()
	c.readmit([]frontier.Readmission{in, in, in, in}, all[:4]...) // a repeat has no further effect
	books := c.books()
	c.wantAnswer(frontier.Seen, all[4:]...)
	restart()
	c.wantAnswer(frontier.Added, all[:4]...)
	c.wantAnswer(frontier.Seen, all...)
	restart()
	c.wantAnswer(frontier.Seen, append(all, all[:4]...)...)
	c.want("added, with four items once more", c.books().Added, books.Added+4)
	rounds := map[string]uint32{}
	c.Must(c.List(c.Ctx, frontier.Queued, "", func(it frontier.Item) bool { rounds[it.URL] = it.Round; return true }), "List")
	for i, offer := range all[:4] {
		c.Require(rounds[offer.URL] == 1, "item %d is queued in round %d, want 1", i, rounds[offer.URL])
	}
	c.wantAudit()
	c.Clock.Advance(2 * time.Hour)
	for range 3 {
		for _, l := range c.grant(frontier.LeaseRequest{IDs: c.ids(1)}).Leases {
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
	c.readmit([]frontier.Readmission{in, in}, all[:2]...)
	c.wantAnswers([]frontier.Answer{frontier.Added, frontier.Seen, frontier.Added}, all[0], all[0], all[1])
	for url, item := range c.list(frontier.Queued, "") {
		c.Require(item.Round == 2, "%s is queued in round %d, want 2", url, item.Round)
	}
	c.wantAudit()
}

// readmitModel makes random calls, with crashes, and compares every answer with a model: a URL is Added if it is new or
// readmitted, and Seen otherwise, and no round of a URL is leased to its end twice.
func readmitModel(c *driver) {
	if _, can := c.Crawl.(frontier.Readmitter); !can {
		return
	}
	const urls = 30
	rng := rand.New(rand.NewPCG(1, 47))
	type state struct {
		known, waits, let bool
		ended             map[uint32]bool
	}
	var all []frontier.Offer
	model := make([]state, urls)
	index := map[string]int{}
	for i := range urls {
		offer := page(fmt.Sprintf("h%d.test", i%3), i)
		if i%2 == 0 {
			offer.Class = frontier.Exact
		}
		all, index[offer.URL] = append(all, offer), i
		model[i].ended = map[uint32]bool{}
	}
	steps := 400
	if testing.Short() {
		steps = 100
	}
	for step := range steps {
		i := rng.IntN(urls)
		m := &model[i]
		switch rng.IntN(8) {
		case 0, 1, 2:
			want := frontier.Seen
			if !m.known || m.let {
				want, m.known, m.waits, m.let = frontier.Added, true, true, false
			}
			c.wantAnswers([]frontier.Answer{want, frontier.Seen}, all[i], all[i])
		case 3, 4:
			want := frontier.Readmitted
			if !m.known {
				want = frontier.NeverSeen
			} else if m.waits {
				want = frontier.Waits
			} else {
				m.let = true
			}
			c.readmit([]frontier.Readmission{want}, all[i])
		case 5, 6:
			c.Clock.Advance(time.Minute)
			for _, l := range c.grant(frontier.LeaseRequest{IDs: c.ids(1)}).Leases {
				var done []frontier.Completion
				for _, it := range l.Items[:1+rng.IntN(len(l.Items))] {
					outcome := frontier.OK
					if rng.IntN(3) == 0 {
						outcome = frontier.ServerError
					}
					done = append(done, ended(it, outcome, 200))
					of := &model[index[it.URL]]
					c.Require(!of.ended[it.Round], "step %d: round %d of %s ends twice", step, it.Round, it.URL)
					of.ended[it.Round], of.waits = true, false
				}
				c.complete(l.ID, frontier.HostUpdate{End: true}, done...)
			}
		case 7:
			if rng.IntN(3) == 0 {
				c.restart(Reopener.Crash)
			}
		}
	}
	c.wantAudit()
}
