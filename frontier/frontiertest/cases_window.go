package frontiertest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// Classes of RunWindows. Finished keys of ClassWindow count as seen for Window, those
// of ClassForever for ever.
const (
	ClassWindow  frontier.Class = 4
	ClassForever frontier.Class = 5
)

// Window is how long a finished key of ClassWindow counts as seen.
const Window = time.Hour

// RunWindows tests the windows of crawls. The crawls that open returns must have the
// window Window for ClassWindow, and none for ClassForever.
func RunWindows(t *testing.T, open func(t *testing.T, opt Options) Crawl) {
	runAll(t, windowCases, open)
}

var windowCases = []testCase{
	{Name: "WindowBeginsWithTheCompletion", Check: windowBeginsWithTheCompletion},
	{Name: "WindowIsOfItsClass", Check: windowIsOfItsClass},
	{Name: "WindowOfAFailedKey", Check: windowOfAFailedKey},
	{Name: "WindowOfALink", Check: windowOfALink},
	{Name: "WindowEndsOnce", Check: windowEndsOnce},
	{Name: "WindowOutlivesACrash", Check: windowOutlivesACrash},
	{Name: "WindowsKeepTheBooks", Check: windowsKeepTheBooks},
}

// classed returns the n-th page of a.test, with a class.
func classed(class frontier.Class, n int) frontier.Offer {
	item := page("a.test", n)
	item.Class = class
	return item
}

// answered offers an item and checks the answer.
func (d *driver) answered(item frontier.Offer, want frontier.Answer) {
	if got := d.offer(item)[0]; got.Answer != want {
		d.Failf("%q offered: %v %q, want %v", item.URL, got.Answer, got.Reason, want)
	}
}

// finish leases a host, which must have one item, in this round, and completes it.
func (d *driver) finish(round uint32, complete func(frontier.Item) frontier.Completion) {
	l := d.lease()
	d.Require(len(l.Items) == 1 && l.Items[0].Round == round && l.Items[0].Attempts == 0,
		"handed out %q, the first of round %d after %d attempts, want one of round %d",
		urls(l.Items), l.Items[0].Round, l.Items[0].Attempts, round)
	d.complete(l.ID, frontier.HostUpdate{End: true}, complete(l.Items[0]))
}

func brokenOff(item frontier.Item) frontier.Completion {
	return frontier.Completion{Item: item.Fingerprint, Outcome: frontier.Network}
}

func windowBeginsWithTheCompletion(open opener) {
	c := open(Options{LeaseTTL: 3 * Window})
	item := classed(ClassWindow, 1)
	c.add(item)
	c.Clock.Advance(2 * Window)
	c.answered(item, frontier.Seen) // it waits
	l := c.lease()
	c.Clock.Advance(2 * Window)
	c.answered(item, frontier.Seen) // it is leased
	c.complete(l.ID, frontier.HostUpdate{End: true}, finished(l.Items[0]))
	for round := uint32(1); round < 4; round++ {
		c.Clock.Advance(Window - 10*time.Millisecond)
		c.answered(item, frontier.Seen)
		c.Clock.Advance(10 * time.Millisecond)
		if status := c.wantState(item, frontier.Done); status.Round != round-1 {
			c.Failf("round %d before it was offered, want %d", status.Round, round-1)
		}
		c.answered(item, frontier.Added)
		c.answered(item, frontier.Seen)
		if status := c.wantState(item, frontier.Queued); status.Round != round {
			c.Failf("queued in round %d, want %d", status.Round, round)
		}
		c.finish(round, finished)
	}
	stats := c.books()
	c.want("added", stats.Added, 4)
	c.want("recovered", stats.Recovered, 0)
	c.want("promoted", stats.Promoted, 0)
}

func windowIsOfItsClass(open opener) {
	c := open(Options{})
	item := classed(ClassForever, 1)
	c.add(item)
	c.finish(0, finished)
	c.Clock.Advance(1000 * Window)
	c.answered(item, frontier.Seen)
	bulk := page("a.test", 2)
	c.add(bulk)
	c.finish(0, finished)
	c.Clock.Advance(1000 * Window)
	c.answered(bulk, frontier.Seen)
}

func windowOfAFailedKey(open opener) {
	c := open(Options{})
	item := classed(ClassWindow, 1)
	c.add(item)
	c.finish(0, brokenOff)
	c.Clock.Advance(Window / 2)
	c.answered(item, frontier.Seen)
	c.Clock.Advance(Window / 2)
	c.answered(item, frontier.Added)
	_, err := c.Retry(c.Ctx, "") // it waits already
	c.Must(err, "Retry")
	if got := c.list(frontier.Queued, ""); len(got) != 1 || got[item.URL].Round != 1 {
		c.Failf("queued: %v, want %q once, in round 1", got, item.URL)
	}
	c.finish(1, brokenOff)
	c.Clock.Advance(Window)
	n, err := c.Retry(c.Ctx, "")
	c.Must(err, "Retry")
	c.want("items offered again", uint64(n), 1)
	c.answered(item, frontier.Seen)
	c.finish(2, finished)
	stats := c.books()
	c.want("added", stats.Added, 2)
	c.want("done", stats.Done, 1)
}

func windowOfALink(open opener) {
	c := open(Options{})
	item, from := classed(ClassWindow, 1), page("b.test", 1)
	c.add(item)
	c.finish(0, finished)
	c.Clock.Advance(Window)
	c.add(from)
	l := c.lease()
	done := finished(l.Items[0])
	done.Links = []frontier.Offer{item, item}
	var counts frontier.LinkCounts
	done.Record = func(links frontier.LinkCounts) error { counts = links; return nil }
	c.complete(l.ID, frontier.HostUpdate{End: true}, done)
	if want := (frontier.LinkCounts{Found: 2, Added: 1, Seen: 1}); counts != want {
		c.Failf("links %+v, want %+v", counts, want)
	}
	c.finish(1, finished)
}

func windowEndsOnce(open opener) {
	c := open(Options{})
	item := classed(ClassWindow, 1)
	c.add(item)
	c.finish(0, finished)
	c.Clock.Advance(Window)
	var added atomic.Int64
	c.Race(16, func(int) error {
		verdicts, err := c.Add(c.Ctx, []frontier.Offer{item, item})
		for _, v := range verdicts {
			if v.Answer == frontier.Added {
				added.Add(1)
			}
		}
		return err
	})
	c.want("added by racers", uint64(added.Load()), 1)
	c.finish(1, finished)
	c.idle()
}

func windowOutlivesACrash(open opener) {
	c := open(Options{})
	item, failed := classed(ClassWindow, 1), classed(ClassWindow, 2)
	c.add(item)
	c.finish(0, finished)
	c.add(failed)
	c.finish(0, brokenOff)
	crash := func() {
		if r, ok := c.Crawl.(Reopener); ok {
			crawl, err := r.Crash()
			c.Must(err, "Crash")
			c.Crawl = crawl
		}
	}
	crash()
	c.Clock.Advance(Window / 2)
	c.answered(item, frontier.Seen)
	c.Clock.Advance(Window / 2)
	c.answered(item, frontier.Added)
	crash()
	c.answered(item, frontier.Seen)
	c.finish(1, finished)
	c.answered(failed, frontier.Added)
	crash()
	c.finish(1, finished)
	c.idle()
}

func windowsKeepTheBooks(open opener) {
	c := open(Options{})
	c.add(classed(ClassWindow, 1), classed(ClassWindow, 2), classed(ClassWindow, 3))
	for range 3 {
		l := c.lease()
		c.complete(l.ID, frontier.HostUpdate{End: true}, finished(l.Items[0]), brokenOff(l.Items[1]), finished(l.Items[2]))
		c.Clock.Advance(Window)
		c.add(classed(ClassWindow, 1), classed(ClassWindow, 2), classed(ClassWindow, 3))
	}
	stats := c.books()
	c.want("added", stats.Added, 12)
	c.want("queued", stats.Queued, 3)
	audit, err := c.Audit(c.Ctx)
	c.Must(err, "Audit")
	c.want("queued, counted", audit.Queued, 3)
	c.want("failed, counted", audit.Failed, stats.Failed)
	c.want("done, counted", audit.Done, stats.Done)
	if off := audit.Added - float64(stats.Added); off > 1+5*audit.AddedErr || off < -1-5*audit.AddedErr {
		c.Failf("added is estimated as %.1f ± %.1f, want %d", audit.Added, audit.AddedErr, stats.Added)
	}
}
