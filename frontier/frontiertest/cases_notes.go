package frontiertest

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// notes returns at most n notes, the oldest first, of one partition whose outbox is not
// empty. A note is a link with the decision Later, or an item with an Unconfirmed completion.
func (d *driver) notes(n int) exact.NoteBatch {
	batch, err := d.Crawl.(exact.NoteStore).Notes(d.Ctx, n)
	d.Must(err, "Notes")
	d.Require(len(batch.Notes) <= n, "Notes returned %d notes, want at most %d", len(batch.Notes), n)
	return batch
}

func (d *driver) delivered(want bool, batch exact.NoteBatch, seen uint64, refused ...frontier.Refusal) {
	dropped, err := d.Crawl.(exact.NoteStore).Delivered(d.Ctx, batch, seen, refused)
	d.Must(err, "Delivered")
	d.Require(dropped == want, "Delivered of %d notes = %t, want %t", len(batch.Notes), dropped, want)
}

// wantNotes checks that a batch has one note for each offer, in order, and that each
// note has all fields of the offer's item.
func (d *driver) wantNotes(batch exact.NoteBatch, want ...frontier.Offer) {
	var got []frontier.Item
	for _, note := range batch.Notes {
		got = append(got, note.Item)
	}
	d.wantItems("notes", got, want)
	for i, item := range got {
		want := itemOf(want[i])
		want.Fingerprint = item.Fingerprint
		d.Require(item == want && item.Fingerprint != (frontier.Item{}).Fingerprint, "the note has the item %+v, want %+v",
			item, want)
	}
}

// wantWaits checks which items are queued or leased according to the outbox.
func (d *driver) wantWaits(when string, keys []exact.ItemKey, want ...bool) {
	got, err := d.Crawl.(exact.NoteStore).Waits(d.Ctx, keys)
	d.Must(err, "Waits")
	d.Require(slices.Equal(got, want), "%s items: Waits(%x) = %v, want %v", when, keys, got, want)
}

var noteCases = beside([]testCase{
	{"NotesComeWithTheirPage", Options{}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 2)...)
		done := all(l.Items, finished)
		rich := as(frontier.Later, frontier.Offer{
			URL: "https://b.test:8443/path;p?q=1", Host: "b.test", Depth: 300, Hops: 3, Round: 9,
			Priority: frontier.PriorityAsset, Referrer: frontier.Referrer{1, 2, 255},
		})
		rich.Class = 15
		done[0].Links = []frontier.Offer{page("b.test", 0), rich, as(frontier.New, page("b.test", 1))}
		var links frontier.LinkCounts
		done[0].Record = counted(&links)
		c.complete(l.ID, frontier.HostUpdate{}, done[0])
		c.complete(l.ID, frontier.HostUpdate{}, done...) // the repeat of done[0] writes no second note
		c.complete(l.ID, frontier.HostUpdate{End: true})
		c.wantLinks(links, frontier.LinkCounts{Found: 2, Added: 2})
		c.wantStats(counts{"outbox": 1, "found": 4})
		c.wantState(rich, frontier.Unknown)
		batch := c.notes(10)
		c.wantNotes(batch, rich)
		note := batch.Notes[0]
		c.Require(note.Outcome == "" && note.Status == 0,
			"the note of a link has outcome %q, status %d, want none", note.Outcome, note.Status)
		c.wantNotes(c.notes(10), rich) // reading notes does not remove them
		c.delivered(true, batch, 1, frontier.Refusal{Reason: frontier.ReasonHostLimit, Count: 2})
		c.delivered(false, batch, 1, frontier.Refusal{Reason: frontier.ReasonHostLimit, Count: 2})
		c.wantStats(counts{"outbox": 0, "found": 7, "seen": 1, "refused: max_per_host": 2})
		c.wantNotes(c.notes(10))
		c.delivered(false, exact.NoteBatch{}, 0)
	}},
	{"NotesOfALostLease", Options{LeaseTTL: 30 * time.Second}, func(c *driver) {
		l := c.addAndLease(page("a.test", 0))
		c.Clock.Advance(30 * time.Second)
		done := finished(l.Items[0])
		done.Links, done.Unconfirmed = []frontier.Offer{as(frontier.Later, page("b.test", 0))}, true
		c.lost(l.ID, done)
		c.wantStats(counts{"outbox": 0})
		c.wantNotes(c.notes(10))
	}},
	{"NotesAreInOrder", Options{}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 3)...)
		later := allAs(frontier.Later, pages("b.test", 0, 9))
		for i, done := range all(l.Items, finished) {
			done.Links = later[3*i : 3*i+3]
			c.complete(l.ID, frontier.HostUpdate{}, done)
		}
		first, longer := c.notes(2), c.notes(5)
		c.wantNotes(first, later[:2]...)
		c.wantNotes(longer, later[:5]...)
		c.delivered(true, first, 2)
		c.delivered(false, first, 2)
		c.delivered(false, longer, 5)
		c.wantNotes(c.notes(100), later[2:]...)
		for len(later) > 2 {
			batch := c.notes(3)
			c.wantNotes(batch, later[2:min(5, len(later))]...)
			c.delivered(true, batch, uint64(len(batch.Notes)))
			later = later[len(batch.Notes):]
		}
		c.wantStats(counts{"outbox": 0, "found": 3 + 9})
	}},
	{"NotesOutliveARestart", Options{}, func(c *driver) {
		item, later := as(frontier.New, page("b.test", 0)), as(frontier.Later, page("b.test", 1))
		l := c.addAndLease(page("a.test", 0))
		done := linking(l.Items[0], item, later)
		c.endAfter(l, done)
		if !c.restart(Reopener.Reopen) {
			return
		}
		c.wantStats(counts{"outbox": 1})
		c.wantNotes(c.notes(1), later)
		c.wantAnswer(frontier.Seen, item)
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
		unconfirmed, confirmed := finished(l.Items[0]), finished(l.Items[1])
		unconfirmed.Unconfirmed = true
		c.endAfter(l, unconfirmed, confirmed)
		c.wantWaits("completed", keys, false, false, true)
		keys[2].Fingerprint[0]++
		c.wantWaits("never offered", keys[2:], false)
	}},
	{"RacersDeliverEachNoteOnce", Options{}, func(c *driver) {
		const hosts, links = 20, 15
		c.addHosts(hosts, 1)
		var noting atomic.Int64
		noting.Store((racers + 3) / 4)
		c.Race(racers, func(racer int) error {
			if racer%4 == 0 {
				defer noting.Add(-1)
				return c.noteLinks(links)
			}
			for {
				last := noting.Load() == 0
				batch, err := c.Crawl.(exact.NoteStore).Notes(c.Ctx, 1+racer)
				n := uint64(len(batch.Notes))
				if err != nil || last && n == 0 {
					return err
				}
				if _, err := c.Crawl.(exact.NoteStore).Delivered(c.Ctx, batch, n, nil); err != nil {
					return err
				}
			}
		})
		c.wantStats(counts{"seen": hosts * links, "outbox": 0, "done": hosts})
	}},
})

// noteLinks leases hosts and finishes their items, until no host can be leased. Each
// page has a number of links with the decision Later.
func (d *driver) noteLinks(links int) error {
	for {
		grant, err := d.Lease(d.Ctx, frontier.LeaseRequest{IDs: d.ids(1)})
		if err != nil || len(grant.Leases) == 0 {
			return err
		}
		l := grant.Leases[0]
		done := linking(l.Items[0], allAs(frontier.Later, pages(l.Host, 1, links+1))...)
		if err := d.Complete(d.Ctx, l.ID, []frontier.Completion{done}, frontier.HostUpdate{End: true}); err != nil {
			return err
		}
	}
}
