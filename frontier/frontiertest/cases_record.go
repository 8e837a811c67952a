package frontiertest

import (
	"errors"
	"slices"
	"sync"

	"github.com/bloomfrontier/crawler/frontier"
)

var recordCases = []testCase{
	// This case checks that Complete returns the error of Record and has no other
	// effect. After that, a store is allowed to refuse all calls, because the disk is
	// probably full.
	{"RecordErrorFailsTheCompletion", Options{}, func(c *driver) {
		l := c.addAndLease(page("a.test", 1))
		done := linking(l.Items[0], pages("b.test", 0, 3)...)
		done.Record = func(frontier.LinkCounts) error { return errDisk }
		before := c.books()
		update := frontier.HostUpdate{End: true}
		err := c.Complete(c.Ctx, l.ID, []frontier.Completion{done}, update)
		c.Require(errors.Is(err, errDisk), "Complete with a record that cannot be written = %v, want %v", err, errDisk)
		if _, err := c.Stats(c.Ctx); err != nil {
			notDoneAfterCrash(c, l.Items[0])
			return
		}
		c.wantState(l.Items[0].Offer(), frontier.Leased)
		c.wantStats(counts{"records": 0})
		if _, early := c.Crawl.(LinksFirst); !early {
			c.wantStats(counts{"found": before.Found})
			c.wantState(page("b.test", 0), frontier.Unknown)
		}
		done.Record = func(frontier.LinkCounts) error { return nil }
		c.complete(l.ID, update, done)
		c.wantPlaces(3, 0, 1, 0)
	}},
	{"RecordIsSyncedBeforeTheEffect", Options{}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 2)...)
		for i, item := range l.Items {
			done := finished(item)
			done.Record = c.out.write("record")
			c.complete(l.ID, frontier.HostUpdate{}, done)
			want := slices.Repeat([]string{"record", "sync"}, i+1)
			got := c.out.log()
			c.Require(slices.Equal(got, want), "after Complete %d the output's writes and syncs are %q, want %q", i, got, want)
		}
	}},
	// This case checks that a completion has no effect if the output cannot be synced.
	// After the error, a store is allowed to refuse all calls.
	{"SyncErrorFailsTheCompletion", Options{}, func(c *driver) {
		l := c.addAndLease(page("a.test", 1))
		done := finished(l.Items[0])
		done.Record = c.out.write("record")
		c.out.err = errDisk
		err := c.Complete(c.Ctx, l.ID, []frontier.Completion{done}, frontier.HostUpdate{End: true})
		c.Require(err != nil, "Complete was answered without error though the output could not be synced")
		c.out.err = nil
		status, err := c.Lookup(c.Ctx, "a.test", l.Items[0].URL)
		c.Require(err != nil || status.State == frontier.Leased, "the item is %q, want %q", status.State, frontier.Leased)
		notDoneAfterCrash(c, l.Items[0])
	}},
}

var errDisk = errors.New("disk full")

// output is a frontier.Output that notes writes and syncs, in order.
type output struct {
	mu     sync.Mutex
	events []string
	length int64
	err    error // of Sync
}

func (o *output) write(name string) func(frontier.LinkCounts) error {
	return func(frontier.LinkCounts) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.events = append(o.events, name)
		o.length += int64(len(name))
		return nil
	}
}

// Sync implements frontier.Output.
func (o *output) Sync() (frontier.Position, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, "sync")
	return frontier.Position{{File: "pages.jsonl", Length: o.length}}, o.err
}

func (o *output) log() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events)
}

// notDoneAfterCrash opens a failed crawl again, if it is a Reopener, and checks that
// item is not done.
func notDoneAfterCrash(c *driver, item frontier.Item) {
	if !c.restart(Reopener.Crash) {
		return
	}
	status, err := c.Lookup(c.Ctx, item.Host, item.URL)
	c.Must(err, "Lookup")
	c.Require(status.State != frontier.Done, "after a restart the item is done")
}
