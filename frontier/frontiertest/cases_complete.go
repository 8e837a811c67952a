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
	{Name: "CompleteFinishes", Check: completeFinishes},
	{Name: "CompleteRetries", Check: completeRetries},
	{Name: "CompleteGivesBack", Check: completeGivesBack},
	{Name: "CompleteEnds", Check: completeEnds},
	{Name: "CompleteTwice", Check: completeTwice},
	{Name: "CompleteTwiceAfterTheEnd", Check: completeTwiceAfterTheEnd},
	{Name: "CompleteRefusesAStrangeItem", Check: completeRefusesAStrangeItem},
	{Name: "CompleteRefusesNoOutcome", Check: completeRefusesNoOutcome},
	{Name: "CompleteAddsLinks", Check: completeAddsLinks},
	{Name: "CompleteKeepsTheBlob", Check: completeKeepsTheBlob},
	{Name: "CompleteRefusesALargeBlob", Check: completeRefusesALargeBlob},
	{Name: "CompleteSetsTheDueTime", Check: completeSetsTheDueTime},
}

func completeFinishes(open opener) {
	c := open(Options{})
	outcomes := []frontier.Outcome{
		frontier.OK, frontier.Redirect, frontier.ClientError, frontier.Robots, frontier.Address, frontier.Type,
		frontier.ServerError, frontier.Throttled, frontier.Network, frontier.HostDead, frontier.WorkerLost,
	}
	c.add(pages("a.test", 0, len(outcomes))...)
	l := c.lease()
	for i, outcome := range outcomes {
		done := finished(l.Items[i])
		done.Outcome, done.Status, done.Page = outcome, 200+i, outcome == frontier.OK
		c.complete(l.ID, frontier.HostUpdate{}, done)
	}
	c.wantPlaces(0, 0, 6, 5)
	for i, outcome := range outcomes {
		status := c.wantState(l.Items[i].Offer(), outcome.State())
		if _, forgets := c.Crawl.(ForgetsDone); forgets && status.State == frontier.Done {
			continue
		}
		c.Require(status.Outcome == outcome && status.Status == 200+i && status.InFilter,
			"%q: outcome %q, status %d, in filter %t", l.Items[i].URL, status.Outcome, status.Status, status.InFilter)
	}
	stats := c.books()
	for _, outcome := range outcomes {
		c.want("items with outcome "+string(outcome), stats.Outcomes[outcome], 1)
	}
	c.want("pages", stats.Pages, 1)
	c.end(l, 0)
	c.want("hosts", c.books().Hosts, 0)
}

func completeRetries(open opener) {
	c := open(Options{})
	c.add(page("a.test", 1))
	for attempt := range 3 {
		l := c.lease()
		if got := l.Items[0].Attempts; int(got) != attempt {
			c.Failf("%d attempts used, want %d", got, attempt)
		}
		c.complete(l.ID, frontier.HostUpdate{End: true}, retried(l.Items[0], 20*time.Second))
		books := c.books()
		c.want("queued", books.Queued, 1)
		c.want("delayed", books.Delayed, 1)
		c.want("retries", books.Retries, uint64(attempt+1))
		c.end(c.dueIn(20*time.Second), 0)
	}
}

func completeGivesBack(open opener) {
	c := open(Options{LeaseTTL: 30 * time.Second, Delay: 10 * time.Second})
	asset, seed := page("a.test", 8), page("a.test", 9)
	asset.Priority, seed.Priority = frontier.PriorityAsset, frontier.PrioritySeed
	c.add(asset)
	c.add(pages("a.test", 0, 6)...)
	c.add(seed)
	l := c.lease()
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
}

func completeEnds(open opener) {
	c := open(Options{LeaseTTL: 30 * time.Second, Delay: 10 * time.Second})
	c.add(pages("a.test", 0, 5)...)
	l := c.lease()
	c.complete(l.ID, frontier.HostUpdate{End: true, Delay: 10 * time.Second}, finished(l.Items[1]))
	c.wantPlaces(4, 0, 1, 0)
	if _, err := c.Extend(c.Ctx, l.ID, frontier.TopUp{}); err == nil {
		c.Failf("an ended lease was extended")
	}
	c.lost(l.ID, finished(l.Items[0])) // the lease did not complete this item before it ended
	c.wantItems("handed out again", c.lease().Items, []frontier.Offer{l.Items[0].Offer(), l.Items[2].Offer(), page("a.test", 3)})
}

func completeTwice(open opener) {
	c := open(Options{})
	c.add(pages("a.test", 0, 4)...)
	l := c.lease()
	done := []frontier.Completion{finished(l.Items[0]), retried(l.Items[1], time.Minute), givenBack(l.Items[2])}
	written := 0
	done[0].Record = func(frontier.LinkCounts) error { written++; return nil }
	done[0].Links = pages("b.test", 0, 2)
	done[0].Refused = []frontier.Refusal{{Reason: frontier.ReasonScope, Count: 3}}
	c.complete(l.ID, frontier.HostUpdate{}, done...)
	before := c.books()
	c.complete(l.ID, frontier.HostUpdate{}, done...)
	after := c.books()
	c.want("found after a repeat", after.Found, before.Found)
	c.want("pages after a repeat", after.Pages, 1)
	c.want("retries after a repeat", after.Retries, 1)
	c.want("outcomes after a repeat", after.Outcomes[frontier.OK], 1)
	c.want("records written", uint64(written), 1)
	c.wantPlaces(4, 1, 1, 0)
	c.complete(l.ID, frontier.HostUpdate{}, finished(l.Items[3]), finished(l.Items[3]))
	c.want("pages after a completion named twice in one call", c.books().Pages, 2)
}

// completeTwiceAfterTheEnd repeats the call that ended a lease, as after a lost reply.
func completeTwiceAfterTheEnd(open opener) {
	c := open(Options{})
	c.add(pages("a.test", 0, 2)...)
	l := c.lease()
	done := all(l.Items, finished)
	update := frontier.HostUpdate{End: true, Due: 10 * time.Second, Blob: []byte("first")}
	c.complete(l.ID, update, done...)
	c.Clock.Advance(5 * time.Second)
	update.Blob = []byte("second")
	c.complete(l.ID, update, done...)
	c.want("pages", c.books().Pages, 2)
	c.add(page("a.test", 2))
	next := c.dueIn(5 * time.Second) // a repeat does not make the host due later
	c.Require(string(next.Blob) == "first", "the blob is %q, want %q: a repeat changes nothing", next.Blob, "first")
	c.complete(l.ID, update, done...) // a repeat does not affect the next lease either
	c.complete(next.ID, frontier.HostUpdate{End: true}, finished(next.Items[0]))
	c.wantPlaces(0, 0, 3, 0)
}

func completeRefusesAStrangeItem(open opener) {
	c := open(Options{LeaseTTL: 30 * time.Second, Delay: 30 * time.Second})
	c.add(pages("a.test", 0, 2)...)
	l := c.lease()
	for _, strange := range []bloomstore.Fingerprint{{1, 2, 3}, c.print(page("a.test", 1))} {
		done := []frontier.Completion{finished(l.Items[0]), {Item: strange, Outcome: frontier.OK, Page: true}}
		if err := c.Complete(c.Ctx, l.ID, done, frontier.HostUpdate{End: true}); err == nil {
			c.Failf("an item that the lease never had was completed")
		}
		c.wantPlaces(1, 1, 0, 0)
	}
}

func completeRefusesNoOutcome(open opener) {
	c := open(Options{})
	c.add(page("a.test", 1))
	l := c.lease()
	for _, outcome := range []frontier.Outcome{"", "nonsense"} {
		done := finished(l.Items[0])
		done.Outcome = outcome
		if err := c.Complete(c.Ctx, l.ID, []frontier.Completion{done}, frontier.HostUpdate{}); err == nil {
			c.Failf("an item was finished with outcome %q", outcome)
		}
		c.wantPlaces(0, 1, 0, 0)
	}
}

func completeAddsLinks(open opener) {
	c := open(Options{MaxPerHost: 5})
	c.add(pages("a.test", 0, 2)...)
	l := c.lease()
	first, second := finished(l.Items[0]), finished(l.Items[1])
	first.Links = []frontier.Offer{page("a.test", 0), page("b.test", 0), page("b.test", 0), page("a.test", 2)}
	second.Links = append(pages("b.test", 0, 7), frontier.Offer{Host: "b.test"})
	second.Refused = []frontier.Refusal{{Reason: frontier.ReasonScope, Count: 4}, {Reason: frontier.ReasonMalformed, Count: 1}}
	var counts [2]frontier.LinkCounts
	first.Record = func(links frontier.LinkCounts) error { counts[0] = links; return nil }
	second.Record = func(links frontier.LinkCounts) error { counts[1] = links; return nil }
	var refused []string
	second.LinkRefused = func(link int, reason frontier.Reason) { refused = append(refused, fmt.Sprint(link, " ", reason)) }
	c.complete(l.ID, frontier.HostUpdate{End: true}, first, second)
	if want := []string{"5 max_per_host", "6 max_per_host", "7 malformed"}; !slices.Equal(refused, want) {
		c.Failf("the links %q were refused, want %q", refused, want)
	}
	want := [2]frontier.LinkCounts{
		{Found: 4, Added: 2, Seen: 2},
		{Found: 13, Added: 4, Seen: 1, Refused: 8},
	}
	c.Require(counts == want, "link counts %+v, want %+v", counts, want)
	books := c.books()
	c.want("found", books.Found, 2+4+13)
	c.want("seen", books.Seen, 3)
	c.want("refused by the host limit", books.Refused[frontier.ReasonHostLimit], 2)
	c.want("refused by scope", books.Refused[frontier.ReasonScope], 4)
	c.want("refused as malformed", books.Refused[frontier.ReasonMalformed], 2)
	c.want("records", books.Records, 2)
	c.wantPlaces(6, 0, 2, 0)
}

func completeKeepsTheBlob(open opener) {
	c := open(Options{Delay: time.Second})
	c.add(pages("a.test", 0, 200)...)
	largest := bytes.Repeat([]byte{0, 255}, frontier.MaxBlob/2)
	var want []byte
	for _, blob := range [][]byte{nil, []byte("robots"), nil, largest} {
		l := c.lease()
		c.Require(bytes.Equal(l.Blob, want), "the blob has %d bytes, want %d", len(l.Blob), len(want))
		c.complete(l.ID, frontier.HostUpdate{Blob: blob, Delay: time.Second}, finished(l.Items[0]))
		c.end(l, time.Second)
		if blob != nil {
			want = blob
		}
	}
	l := c.lease()
	c.Require(bytes.Equal(l.Blob, want), "the blob has %d bytes, want %d", len(l.Blob), len(want))
	c.Clock.Advance(time.Hour) // the blob stays when a lease expires
	if l := c.lease(); !bytes.Equal(l.Blob, want) {
		c.Failf("after an expiry the blob has %d bytes, want %d", len(l.Blob), len(want))
	}
}

func completeRefusesALargeBlob(open opener) {
	c := open(Options{})
	c.add(page("a.test", 1))
	l := c.lease()
	update := frontier.HostUpdate{Blob: make([]byte, frontier.MaxBlob+1), End: true}
	if err := c.Complete(c.Ctx, l.ID, []frontier.Completion{finished(l.Items[0])}, update); err == nil {
		c.Failf("a blob of %d bytes was taken", len(update.Blob))
	}
	c.wantPlaces(0, 1, 0, 0)
	c.complete(l.ID, frontier.HostUpdate{End: true}, finished(l.Items[0]))
}

func completeSetsTheDueTime(open opener) {
	c := open(Options{Delay: time.Second})
	c.add(pages("a.test", 0, 100)...)
	for _, due := range []time.Duration{3 * time.Second, 0, time.Hour, 70 * time.Millisecond} {
		l := c.lease()
		c.complete(l.ID, frontier.HostUpdate{Due: 2 * time.Hour, Delay: time.Second}, finished(l.Items[0]))
		c.Clock.Advance(time.Second)
		c.complete(l.ID, frontier.HostUpdate{Due: due, Delay: time.Second, End: true})
		if got := c.wantState(l.Items[1].Offer(), frontier.Queued).HostDueIn; got != due {
			c.Failf("the host is due in %v, want %v", got, due)
		}
		c.end(c.dueIn(due), time.Second)
	}
}
