package redisstore

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestLostRepliesBesideExactSet does the same as TestLostReplies for changes that scripts
// make only if there is an exact set.
func TestLostRepliesBesideExactSet(t *testing.T) {
	for name, check := range map[string]func(*lostReply){
		"add":              lostDecisions,
		"complete":         func(c *lostReply) { lostNotes(c, false) },
		"complete and end": func(c *lostReply) { lostNotes(c, true) },
		"delivered":        lostDelivery,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newLostReply(t, exactConfig)
			check(c)
			wantNoStray(t, c.Store)
			wantBooks(t, c.Store)
		})
	}
}

func lostDecisions(c *lostReply) {
	// Two items in one call of the script. One of them is known.
	items := decided(frontier.New, 0, testPages("a.test", 0, 2))
	mustAdd(c, c.Store, items[:1])
	c.lose(addScript, func(ctx context.Context) error {
		_, err := c.Add(ctx, items)
		return err
	})
	if got := answersOf(mustAdd(c, c.Store, items)); got[frontier.Seen] != len(items) {
		c.Errorf("offered again: %v, want all seen", got)
	}
	c.want(fieldQueued, 2, fieldRecovered, 0)
}

// notedPage returns an unconfirmed completion of an item. The exact set has decided on two of
// its links, and must decide on three others later. Two links are not exact.
func notedPage(item frontier.Item) frontier.Completion {
	done := finish(item)
	done.Unconfirmed = true
	done.Links = slices.Concat(
		decided(frontier.Later, 0, testPages("b.test", 0, 3)), decided(frontier.New, 0, testPages("b.test", 3, 5)), testPages("b.test", 5, 7))
	return done
}

func lostNotes(c *lostReply, end bool) {
	mustAdd(c, c.Store, decided(frontier.New, 0, testPages("a.test", 0, 3)))
	l := c.leaseOf("a.test")
	done := []frontier.Completion{notedPage(l.Items[0])}
	complete := func(ctx context.Context) error {
		return c.Complete(ctx, l.ID, done, frontier.HostUpdate{End: end})
	}
	c.lose(completeScript, complete)
	for range 2 {
		if err := complete(c.Context()); err != nil {
			c.Fatal(err)
		}
	}
	c.want(fieldOutbox, 4, fieldDone, 1, fieldOther, 0)
	if batch, err := c.Notes(c.Context(), 9); err != nil || len(batch.Notes) != 4 {
		c.Errorf("Notes = %d notes, %v, want 4", len(batch.Notes), err)
	}
}

func lostDelivery(c *lostReply) {
	mustAdd(c, c.Store, decided(frontier.New, 0, testPages("a.test", 0, 3)))
	l := c.leaseOf("a.test")
	if err := c.Complete(c.Context(), l.ID, []frontier.Completion{notedPage(l.Items[0])}, frontier.HostUpdate{}); err != nil {
		c.Fatal(err)
	}
	batch, err := c.Notes(c.Context(), 3)
	if err != nil || len(batch.Notes) != 3 {
		c.Fatalf("Notes = %d notes, %v, want 3", len(batch.Notes), err)
	}
	refused := []frontier.Refusal{{Reason: frontier.ReasonHostLimit, Count: 1}, {Reason: frontier.ReasonHostLimit, Count: 1}}
	c.lose(deliveredScript, func(ctx context.Context) error {
		_, err := c.Delivered(ctx, batch, 1, refused)
		return err
	})
	if dropped, err := c.Delivered(c.Context(), batch, 1, refused); dropped || err != nil {
		c.Errorf("the repeat of a lost Delivered = %t, %v, want false", dropped, err)
	}
	c.want(fieldOutbox, 1, fieldSeen, 1, fieldRefused+string(frontier.ReasonHostLimit), 2, fieldOther, 3, fieldDelivered, 3)
}

// TestNotesGoBackWithTheirPage: a server that loses its last writes loses notes together
// with their completions. The receipt of lost notes does not remove the notes that replace them.
func TestNotesGoBackWithTheirPage(t *testing.T) {
	t.Parallel()
	b := newEpochBench(t, exactConfig)
	mustAdd(t, b.Store, decided(frontier.New, 0, testPages("a.test", 0, 4)))
	l := b.hosts()["a.test"]
	complete := func(item frontier.Item, links []frontier.Offer) {
		t.Helper()
		done := finish(item)
		done.Links = decided(frontier.Later, 0, links)
		var err error
		for range 3 { // the first connections are from before the restart
			err = b.Complete(t.Context(), l.ID, []frontier.Completion{done}, frontier.HostUpdate{})
			if !errors.Is(err, frontier.ErrUnavailable) {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	complete(l.Items[0], testPages("b.test", 0, 1))
	before := b.dump()
	complete(l.Items[1], testPages("b.test", 1, 2))
	forgotten, err := b.Notes(t.Context(), 9)
	if err != nil || len(forgotten.Notes) != 2 {
		t.Fatalf("Notes = %d notes, %v, want 2", len(forgotten.Notes), err)
	}
	b.restore(before)
	b.restart()
	complete(l.Items[2], testPages("b.test", 2, 3))
	wantNoStray(t, b.Store)
	if stats := wantBooks(t, b.Store); stats.Outbox != 2 || stats.Leased != 2 {
		t.Errorf("%d notes, %d leased, want 2 and 2", stats.Outbox, stats.Leased)
	}
	if dropped, err := b.Delivered(t.Context(), forgotten, 2, nil); dropped || err != nil {
		t.Errorf("Delivered with a receipt that the server forgot = %t, %v, want false", dropped, err)
	}
	batch, err := b.Notes(t.Context(), 9)
	if err != nil || len(batch.Notes) != 2 || batch.Notes[1].Item.URL != testPages("b.test", 2, 3)[0].URL {
		t.Fatalf("notes are %+v, %v, want those of the first and the third page", batch.Notes, err)
	}
	if dropped, err := b.Delivered(t.Context(), batch, 2, nil); !dropped || err != nil {
		t.Errorf("Delivered = %t, %v, want true", dropped, err)
	}
}

// FuzzNote: no input causes a panic, and a note that was decoded does not change when it
// is encoded and decoded again.
func FuzzNote(f *testing.F) {
	s := &Store{hasher: testHasher}
	for _, outcome := range []frontier.Outcome{"", frontier.OK, frontier.WorkerLost} {
		item := testPages("a.test", 0, 1)[0].Item(bloomstore.Fingerprint{})
		item.Class, item.Round, item.Hops = 15, 300, 1
		note := appendNote(nil, &item, outcome, 599)
		f.Add(string(note))
		f.Add(string(note[:len(note)/3]))
	}
	f.Fuzz(func(t *testing.T, value string) {
		note, err := s.decodeNote(value)
		if err != nil {
			return
		}
		again, err := s.decodeNote(string(appendNote(nil, &note.Item, note.Outcome, note.Status)))
		if err != nil || again != note {
			t.Errorf("%q decodes to %+v, this encoded and decoded again to %+v, %v", value, note, again, err)
		}
	})
}
