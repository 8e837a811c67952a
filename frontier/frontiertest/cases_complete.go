package frontiertest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

var completeCases = []testCase{
	{"CompleteFinishes", Options{}, func(c *driver) {
		outcomes := []frontier.Outcome{
			frontier.OK, frontier.Redirect, frontier.ClientError, frontier.Robots, frontier.Address, frontier.Type,
			frontier.ServerError, frontier.Throttled, frontier.Network, frontier.HostDead, frontier.WorkerLost,
		}
		l := c.addAndLease(pages("a.test", 0, len(outcomes))...)
		for i, outcome := range outcomes {
			c.complete(l.ID, frontier.HostUpdate{}, ended(l.Items[i], outcome, 200+i))
		}
		c.wantPlaces(0, 0, 6, 5)
		for i, outcome := range outcomes {
			status := c.wantState(l.Items[i].Offer(), outcome.State())
			if _, forgets := c.Crawl.(ForgetsDone); forgets && status.State == frontier.Done {
				continue
			}
			c.Require(status.Outcome == outcome && status.Status == 200+i && status.InFilter,
				"%q: outcome %q, status %d, in filter %t, want %q, %d, true",
				l.Items[i].URL, status.Outcome, status.Status, status.InFilter, outcome, 200+i)
		}
		for _, outcome := range outcomes {
			c.wantStats(counts{"outcome: " + string(outcome): 1})
		}
		c.wantStats(counts{"pages": 1})
		c.end(l, 0)
		c.wantStats(counts{"hosts": 0})
	}},
	{"CompleteRetries", Options{}, func(c *driver) {
		c.add(page("a.test", 1))
		for attempt := range 3 {
			l := c.lease()
			c.want("number of attempts", uint64(l.Items[0].Attempts), uint64(attempt))
			c.endAfter(l, retried(l.Items[0], 20*time.Second))
			c.wantStats(counts{"queued": 1, "delayed": 1, "retries": uint64(attempt + 1)})
			c.end(c.dueIn(20*time.Second), 0)
		}
	}},
	{"CompleteGivesBack", Options{LeaseTTL: 30 * time.Second, Delay: 10 * time.Second}, func(c *driver) {
		asset, seed := page("a.test", 8), page("a.test", 9)
		asset.Priority, seed.Priority = frontier.PriorityAsset, frontier.PrioritySeed
		c.add(asset)
		c.add(pages("a.test", 0, 6)...)
		l := c.addAndLease(seed)
		c.wantItems("handed out", l.Items, []frontier.Offer{seed, page("a.test", 0), page("a.test", 1)})
		c.complete(l.ID, frontier.HostUpdate{End: true},
			givenBack(l.Items[2]), givenBack(l.Items[0]), finished(l.Items[1]))
		got := c.lease()
		c.wantItems("handed out again", got.Items, []frontier.Offer{
			seed, page("a.test", 1), page("a.test", 2), page("a.test", 3), page("a.test", 4), page("a.test", 5), asset,
		})
		for _, item := range got.Items {
			c.Require(item.Attempts == 0 && item.Deliveries == 0,
				"%q: %d attempts, %d deliveries, want none", item.URL, item.Attempts, item.Deliveries)
		}
	}},
	{"CompleteEnds", Options{LeaseTTL: 30 * time.Second, Delay: 10 * time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 5)...)
		c.complete(l.ID, frontier.HostUpdate{End: true, Delay: 10 * time.Second}, finished(l.Items[1]))
		c.wantPlaces(4, 0, 1, 0)
		c.lost(l.ID, finished(l.Items[0])) // this item was not completed before the lease ended
		c.wantItems("handed out again", c.lease().Items, []frontier.Offer{l.Items[0].Offer(), l.Items[2].Offer(), page("a.test", 3)})
	}},
	{"CompleteTwice", Options{}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 4)...)
		done := []frontier.Completion{finished(l.Items[0]), retried(l.Items[1], time.Minute), givenBack(l.Items[2])}
		written := 0
		done[0].Record = func(frontier.LinkCounts) error { written++; return nil }
		done[0].Links = pages("b.test", 0, 2)
		done[0].Refused = []frontier.Refusal{{Reason: frontier.ReasonScope, Count: 3}}
		c.complete(l.ID, frontier.HostUpdate{}, done...)
		before := c.books()
		c.complete(l.ID, frontier.HostUpdate{}, done...)
		c.wantStats(counts{"found": before.Found, "pages": 1, "records": 1, "retries": 1, "outcome: ok": 1})
		c.want("number of records written", uint64(written), 1)
		c.wantPlaces(4, 1, 1, 0)
		c.complete(l.ID, frontier.HostUpdate{}, finished(l.Items[3]), finished(l.Items[3]))
		c.wantStats(counts{"pages": 2}) // one call named the item twice
	}},
	// In this case a worker repeats the call that ended its lease, because it did not receive
	// the reply.
	{"CompleteTwiceAfterTheEnd", Options{}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 2)...)
		done := all(l.Items, finished)
		update := frontier.HostUpdate{End: true, Due: 10 * time.Second, Blob: []byte("first")}
		c.complete(l.ID, update, done...)
		c.Clock.Advance(5 * time.Second)
		update.Blob = []byte("second")
		c.complete(l.ID, update, done...)
		c.wantStats(counts{"pages": 2})
		c.add(page("a.test", 2))
		next := c.dueIn(5 * time.Second) // a repeat does not make the host due later
		c.wantBlob(next, []byte("first"))
		c.complete(l.ID, update, done...) // a repeat does not affect the next lease either
		c.endAfter(next, finished(next.Items[0]))
		c.wantPlaces(0, 0, 3, 0)
	}},
	// This case checks that a call that is refused has no effect.
	{"CompleteRefusesBadCalls", Options{Delay: 30 * time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 2)...)
		good := finished(l.Items[0])
		unleased, queued, noOutcome, nonsense := good, good, good, good
		unleased.Item, queued.Item = bloomstore.Fingerprint{1, 2, 3}, c.print(page("a.test", 1))
		noOutcome.Outcome, nonsense.Outcome = "", "nonsense"
		for what, call := range map[string]struct {
			done []frontier.Completion
			blob []byte
		}{
			"an unknown item":        {[]frontier.Completion{good, unleased}, nil},
			"an item that is queued": {[]frontier.Completion{good, queued}, nil},
			"no outcome":             {[]frontier.Completion{noOutcome}, nil},
			"an unknown outcome":     {[]frontier.Completion{nonsense}, nil},
			"a large blob":           {[]frontier.Completion{good}, make([]byte, frontier.MaxBlob+1)},
		} {
			err := c.Complete(c.Ctx, l.ID, call.done, frontier.HostUpdate{Blob: call.blob, End: true})
			c.Require(err != nil, "Complete accepted %s", what)
			c.wantPlaces(1, 1, 0, 0)
		}
		c.endAfter(l, good)
	}},
	{"CompleteAddsLinks", Options{MaxPerHost: 5}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 2)...)
		first, second := finished(l.Items[0]), finished(l.Items[1])
		first.Links = []frontier.Offer{page("a.test", 0), page("b.test", 0), page("b.test", 0), page("a.test", 2)}
		second.Links = append(pages("b.test", 0, 7), frontier.Offer{Host: "b.test"})
		second.Refused = []frontier.Refusal{{Reason: frontier.ReasonScope, Count: 4}, {Reason: frontier.ReasonMalformed, Count: 1}}
		var firstLinks, secondLinks frontier.LinkCounts
		first.Record, second.Record = counted(&firstLinks), counted(&secondLinks)
		refused := noteRefused(&second)
		c.endAfter(l, first, second)
		want := []string{"5 max_per_host", "6 max_per_host", "7 malformed"}
		c.Require(slices.Equal(*refused, want), "the links %q were refused, want %q", *refused, want)
		c.wantLinks(firstLinks, frontier.LinkCounts{Found: 4, Added: 2, Seen: 2})
		c.wantLinks(secondLinks, frontier.LinkCounts{Found: 13, Added: 4, Seen: 1, Refused: 8})
		c.wantStats(counts{
			"found": 2 + 4 + 13, "seen": 3, "records": 2,
			"refused: max_per_host": 2, "refused: scope": 4, "refused: malformed": 2,
		})
		c.wantPlaces(6, 0, 2, 0)
	}},
	{"CompleteKeepsTheBlob", Options{Delay: time.Second}, func(c *driver) {
		c.add(pages("a.test", 0, 200)...)
		largest := bytes.Repeat([]byte{0, 255}, frontier.MaxBlob/2)
		var want []byte
		for _, blob := range [][]byte{nil, []byte("robots"), nil, largest} {
			l := c.lease()
			c.wantBlob(l, want)
			c.complete(l.ID, frontier.HostUpdate{Blob: blob, Delay: time.Second}, finished(l.Items[0]))
			c.end(l, time.Second)
			if blob != nil {
				want = blob
			}
		}
		c.wantBlob(c.lease(), want)
		c.Clock.Advance(time.Hour) // the blob stays when a lease expires
		c.wantBlob(c.lease(), want)
	}},
	{"CompleteSetsTheDueTime", Options{Delay: time.Second}, func(c *driver) {
		c.add(pages("a.test", 0, 100)...)
		for _, due := range []time.Duration{3 * time.Second, 0, time.Hour, 70 * time.Millisecond} {
			l := c.lease()
			c.complete(l.ID, frontier.HostUpdate{Due: 2 * time.Hour, Delay: time.Second}, finished(l.Items[0]))
			c.Clock.Advance(time.Second)
			c.complete(l.ID, frontier.HostUpdate{Due: due, Delay: time.Second, End: true})
			got := c.wantState(l.Items[1].Offer(), frontier.Queued).HostDueIn
			c.Require(got == due, "the host is due in %v, want %v", got, due)
			c.end(c.dueIn(due), time.Second)
		}
	}},
}

// noteRefused sets done.LinkRefused. The returned slice receives the index of
// each refused link, and the reason.
func noteRefused(done *frontier.Completion) *[]string {
	refused := new([]string)
	done.LinkRefused = func(link int, reason frontier.Reason) {
		*refused = append(*refused, fmt.Sprint(link, " ", reason))
	}
	return refused
}
