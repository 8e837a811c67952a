package frontiertest

import (
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// Classes of RunWindows. A finished key of ClassWindow counts as seen for the time
// Window. A finished key of ClassForever counts as seen for ever.
const (
	ClassWindow  frontier.Class = 4
	ClassForever frontier.Class = 5
)

// Window is how long a finished key of ClassWindow counts as seen.
const Window = time.Hour

// RunWindows tests that a finished URL is new again after the window of its class. The
// crawls that open returns must have the window Window for ClassWindow, and none for
// ClassForever.
func RunWindows(t *testing.T, open func(t *testing.T, opt Options) Crawl) {
	suite.Run(t, windowCases, driving(open))
}

var windowCases = []testCase{
	{"WindowBeginsWithTheCompletion", Options{LeaseTTL: 3 * Window}, func(c *driver) {
		item := classed(ClassWindow, page("a.test", 1))
		c.add(item)
		c.Clock.Advance(2 * Window)
		c.wantAnswer(frontier.Seen, item) // it waits
		l := c.lease()
		c.Clock.Advance(2 * Window)
		c.wantAnswer(frontier.Seen, item) // it is leased
		c.endAfter(l, finished(l.Items[0]))
		for round := uint32(1); round < 4; round++ {
			c.Clock.Advance(Window - 10*time.Millisecond)
			c.wantAnswer(frontier.Seen, item)
			c.Clock.Advance(10 * time.Millisecond)
			status := c.wantState(item, frontier.Done)
			c.Require(status.Round == round-1, "the item is done in round %d before it is offered again, want %d",
				status.Round, round-1)
			c.wantAnswer(frontier.Added, item)
			c.wantAnswer(frontier.Seen, item)
			status = c.wantState(item, frontier.Queued)
			c.Require(status.Round == round, "queued in round %d, want %d", status.Round, round)
			c.finishRound(round, finished)
		}
		c.wantStats(counts{"added": 4, "recovered": 0, "promoted": 0})
	}},
	{"WindowIsOfItsClass", Options{}, func(c *driver) {
		item := classed(ClassForever, page("a.test", 1))
		c.add(item)
		c.finishRound(0, finished)
		c.Clock.Advance(1000 * Window)
		c.wantAnswer(frontier.Seen, item)
		bulk := page("a.test", 2)
		c.add(bulk)
		c.finishRound(0, finished)
		c.Clock.Advance(1000 * Window)
		c.wantAnswer(frontier.Seen, bulk)
	}},
	{"WindowOfAFailedKey", Options{}, func(c *driver) {
		item := classed(ClassWindow, page("a.test", 1))
		c.add(item)
		c.finishRound(0, brokenOff)
		c.Clock.Advance(Window / 2)
		c.wantAnswer(frontier.Seen, item)
		c.Clock.Advance(Window / 2)
		c.wantAnswer(frontier.Added, item)
		_, err := c.Retry(c.Ctx, frontier.Failures{}) // it waits already
		c.Must(err, "Retry")
		queued := c.list(frontier.Queued, "")
		c.Require(len(queued) == 1 && queued[item.URL].Round == 1, "queued items are %v, want only %q, in round 1",
			queued, item.URL)
		c.finishRound(1, brokenOff)
		c.wantStats(counts{"added": 2, "failed": 2})
		c.Clock.Advance(Window)
		c.retryFailed("", 1) // with an exact set, this adds 1 to Added, so Added is not checked below
		c.wantAnswer(frontier.Seen, item)
		c.finishRound(2, finished)
		c.wantStats(counts{"done": 1})
	}},
	{"WindowOfALink", Options{}, func(c *driver) {
		item, from := classed(ClassWindow, page("a.test", 1)), page("b.test", 1)
		c.add(item)
		c.finishRound(0, finished)
		c.Clock.Advance(Window)
		l := c.addAndLease(from)
		done := linking(l.Items[0], item, item)
		var links frontier.LinkCounts
		done.Record = counted(&links)
		c.endAfter(l, done)
		c.wantLinks(links, frontier.LinkCounts{Found: 2, Added: 1, Seen: 1})
		c.finishRound(1, finished)
	}},
	{"WindowEndsOnce", Options{}, func(c *driver) {
		item := classed(ClassWindow, page("a.test", 1))
		c.add(item)
		c.finishRound(0, finished)
		c.Clock.Advance(Window)
		added := c.raceToAdd(1, func(int, int) []frontier.Offer { return []frontier.Offer{item, item} })
		c.want("number of offers answered Added", added, 1)
		c.finishRound(1, finished)
		c.idle()
	}},
	{"WindowOutlivesACrash", Options{}, func(c *driver) {
		item, failed := classed(ClassWindow, page("a.test", 1)), classed(ClassWindow, page("a.test", 2))
		c.add(item)
		c.finishRound(0, finished)
		c.add(failed)
		c.finishRound(0, brokenOff)
		c.restart(Reopener.Crash)
		c.Clock.Advance(Window / 2)
		c.wantAnswer(frontier.Seen, item)
		c.Clock.Advance(Window / 2)
		c.wantAnswer(frontier.Added, item)
		c.restart(Reopener.Crash)
		c.wantAnswer(frontier.Seen, item)
		c.finishRound(1, finished)
		c.wantAnswer(frontier.Added, failed)
		c.restart(Reopener.Crash)
		c.finishRound(1, finished)
		c.idle()
	}},
	{"WindowsKeepTheBooks", Options{}, func(c *driver) {
		items := pages("a.test", 1, 4)
		for i := range items {
			items[i].Class = ClassWindow
		}
		c.add(items...)
		for range 3 {
			l := c.lease()
			c.endAfter(l, finished(l.Items[0]), brokenOff(l.Items[1]), finished(l.Items[2]))
			c.Clock.Advance(Window)
			c.add(items...)
		}
		c.wantStats(counts{"added": 12, "queued": 3})
		c.wantAudit()
	}},
}

// finishRound leases a host and completes its item. The host must have exactly one
// item, in this round.
func (d *driver) finishRound(round uint32, complete func(frontier.Item) frontier.Completion) {
	l := d.lease()
	d.Require(len(l.Items) == 1 && l.Items[0].Round == round && l.Items[0].Attempts == 0,
		"handed out %q, the first in round %d after %d attempts; want one item in round %d after 0 attempts",
		urls(l.Items), l.Items[0].Round, l.Items[0].Attempts, round)
	d.complete(l.ID, frontier.HostUpdate{End: true}, complete(l.Items[0]))
}
