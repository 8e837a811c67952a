package frontiertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// exactCases check what an exact set relies on. An exact set is a database beside a crawl
// that decides whether an exact URL is new. Offer.Decision is its decision.
var exactCases = beside([]testCase{
	{"DecisionNewIsQueuedOnce", Options{}, func(c *driver) {
		item := as(frontier.New, page("a.test", 1))
		late := as(frontier.New, page("a.test", 2))
		late.Delay = time.Minute
		c.add(item, late)
		c.wantAnswer(frontier.Seen, item, late) // both are queued
		l := c.lease()
		c.wantAnswer(frontier.Seen, item)
		c.endAfter(l, retried(l.Items[0], time.Second))
		c.wantAnswer(frontier.Seen, item)
		c.wantPlaces(2, 0, 0, 0)
		c.wantClaims(0, 0)
		c.complete(c.dueIn(time.Second).ID, frontier.HostUpdate{}, finished(l.Items[0]))
		c.add(item) // the decision New overrules the filter
		c.wantClaims(1, 0)
		c.wantPlaces(2, 0, 1, 0)
		c.wantAnswer(frontier.Seen, item)
		c.wantStats(counts{"seen": 5, "added": 3})
	}},
	{"DecisionNewIsNeverDropped", Options{Capacity: 16}, func(c *driver) {
		added := c.fillFilter().Added
		c.add(allAs(frontier.New, pages("a.test", 4000, 4100))...)
		books := c.books()
		c.want("added", books.Added, added+100)
		c.Require(books.Recovered <= 100 && books.Promoted == 0 && (added >= 4000 || books.Recovered != 0),
			"after 100 new items beside a full filter: %d recovered, %d promoted; want some and at most 100 recovered, 0 promoted",
			books.Recovered, books.Promoted)
	}},
	{"DecisionKnownIsSeen", Options{}, func(c *driver) {
		item := as(frontier.Known, page("a.test", 1))
		c.wantAnswer(frontier.Seen, item, item)
		c.wantState(item, frontier.Unknown)
		item.Decision = frontier.New
		c.add(item)
		c.wantStats(counts{"found": 3, "seen": 2})
	}},
	{"DecisionPromotedGetsARound", Options{}, func(c *driver) {
		c.add(pages("a.test", 0, 2)...)
		c.finish()
		third := as(frontier.Promoted, page("a.test", 2))
		inRound := as(frontier.Promoted, page("a.test", 1))
		inRound.Round = 7
		c.add(as(frontier.Promoted, page("a.test", 0)), inRound, third)
		c.wantClaims(0, 2)
		c.wantAnswer(frontier.Seen, inRound, third)
		rounds := map[string]uint32{page("a.test", 0).URL: frontier.PromotedRound, inRound.URL: 7, third.URL: 0}
		for _, item := range c.finish().Items {
			want, ok := rounds[item.URL]
			c.Require(ok && item.Round == want && item.Class == frontier.Exact,
				"%q is handed out in round %d, class %d; want round %d, class exact", item.URL, item.Round, item.Class, want)
		}
		c.wantPlaces(0, 0, 5, 0)
	}},
	{"DecisionAgainKeepsItsRound", Options{}, func(c *driver) {
		item := page("a.test", 1)
		c.add(as(frontier.New, item))
		c.wantAnswer(frontier.Seen, again(item, 0))
		for _, round := range []uint32{0, 1, 2, 300, 1<<32 - 1} { // round 0 means that the store has lost the item
			c.finish()
			c.add(again(item, round))
			got := c.wantState(item, frontier.Queued)
			c.Require(got.Round == round, "offered again in round %d, the item is queued in round %d", round, got.Round)
			c.wantAnswer(frontier.Seen, again(item, round), as(frontier.New, item), as(frontier.Known, item))
		}
		got := c.lease().Items[0]
		c.Require(got.Round == 1<<32-1 && got.Class == frontier.Exact, "handed out %+v, want round 1<<32-1 and class exact",
			got)
		c.wantClaims(0, 0)
		c.add(again(page("b.test", 1), 3)) // this URL was never offered before
		c.wantClaims(0, 0)
	}},
	// This case checks that equal URLs in one call are decided one after the other.
	{"DecisionsOfOneCall", Options{}, func(c *driver) {
		bulk, item := page("a.test", 1), as(frontier.New, page("a.test", 2))
		want := []frontier.Answer{frontier.Added, frontier.Seen, frontier.Added, frontier.Seen, frontier.Seen, frontier.Seen}
		c.wantAnswers(want, item, item, bulk, bulk, as(frontier.Known, bulk), page("a.test", 2))
		c.wantPlaces(2, 0, 0, 0)
		c.wantClaims(0, 0)
	}},
	// This case checks that an exact item waits while it is queued, delayed or
	// leased, and does not wait after its completion.
	{"WaitsUntilCompleted", Options{}, func(c *driver) {
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
		c.endAfter(l, finished(l.Items[0]), finished(l.Items[1]))
		c.wantWaits("completed", keys, false, false, true)
		keys[2].Fingerprint[0]++
		c.wantWaits("never offered", keys[2:], false)
	}},
	// This case checks that Retry skips a failed item whose URL was queued
	// again meanwhile and still waits.
	{"RetrySkipsWaitingURLs", Options{}, func(c *driver) {
		c.add(allAs(frontier.New, pages("a.test", 0, 3))...)
		c.fail(frontier.HostUpdate{})
		c.add(again(page("a.test", 1), 1))
		c.retryFailed("", 2)
		c.wantPlaces(3, 0, 0, 1)
		c.wantAnswer(frontier.Seen, allAs(frontier.New, pages("a.test", 0, 3))...)
		for _, item := range c.finish().Items {
			c.Require(item.Round == 1, "%q is handed out in round %d, want 1", item.URL, item.Round)
		}
		c.wantPlaces(0, 0, 3, 1)
		c.add(again(page("a.test", 0), 2))
	}},
	{"RacersQueueWhatIsNewOnce", Options{}, func(c *driver) {
		const urls, hosts = 300, 3
		added := c.raceToAdd(urls, func(racer, n int) []frontier.Offer {
			item := as(frontier.New, page(fmt.Sprintf("h%d.test", n%hosts), n))
			if racer%2 == 1 {
				item.Decision, item.Round = frontier.Again, 1
			}
			return []frontier.Offer{item}
		})
		c.want("number of answers Added", added, urls)
		c.wantPlaces(urls, 0, 0, 0)
		c.wantClaims(0, 0)
	}},
})

// wantWaits checks which items are queued or leased .
func (d *driver) wantWaits(when string, keys []exact.ItemKey, want ...bool) {
	got, err := d.Crawl.(exact.Queue).Waits(d.Ctx, keys)
	d.Must(err, "Waits")
	d.Require(slices.Equal(got, want), "%s items: Waits(%x) = %v, want %v", when, keys, got, want)
}

// beside changes cases so that each crawl has an exact set beside it. A case does nothing if
// its crawl is not an exact.Queue. beside returns cases.
func beside(cases []testCase) []testCase {
	for i, c := range cases {
		cases[i].Options.ExactSet = true
		cases[i].Check = func(d *driver) {
			if _, ok := d.Crawl.(exact.Queue); ok {
				c.Check(d)
			}
		}
	}
	return cases
}

func as(decision frontier.Decision, item frontier.Offer) frontier.Offer {
	item.Class, item.Decision = frontier.Exact, decision
	return item
}

func allAs(decision frontier.Decision, items []frontier.Offer) []frontier.Offer {
	for i := range items {
		items[i] = as(decision, items[i])
	}
	return items
}

func again(item frontier.Offer, round uint32) frontier.Offer {
	item = as(frontier.Again, item)
	item.Round = round
	return item
}

// wantClaims checks the counters Recovered and Promoted. They count items that were added
// although the filter claimed to contain them.
func (d *driver) wantClaims(recovered, promoted uint64) {
	d.wantStats(counts{"recovered": recovered, "promoted": promoted})
}
