// Package pgoutbox uses a crawl's table of records in Postgres as the outbox of its
// events. It also stores the progress of relays in Postgres.
//
// It owns the text of cursors and the form of events for change data capture. The tables
// and statements belong to package pgstore.
package pgoutbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// Outbox is the outbox of a crawl whose records are rows, and the progress of its
// relays. It is safe for concurrent use.
//
// A cursor has the form XID/SEQUENCE: the transaction that inserted a record, and the
// number of the record in that transaction. While a transaction runs, anywhere on the
// server, the records of newer transactions are not read.
type Outbox struct {
	set    *pgstore.Store
	source string
}

var (
	_ events.Outbox   = (*Outbox)(nil)
	_ events.Waiter   = (*Outbox)(nil)
	_ events.Progress = (*Outbox)(nil)
)

// New returns the outbox of a crawl. The outbox must not be used after the Store set is
// closed.
func New(set *pgstore.Store) *Outbox {
	return &Outbox{set, events.Source(set.Identity())}
}

// Read implements events.Outbox. It returns pgstore.ErrForeign if the database was
// restored from a dump of another server.
func (o *Outbox) Read(ctx context.Context, after events.Cursor, limit int) (read []events.Event, next events.Cursor, err error) {
	at, err := parse(after)
	if err != nil {
		return nil, after, err
	}
	page, err := o.set.Committed(ctx, at, limit)
	if err != nil {
		return nil, after, err
	}
	for i := range page {
		event, err := events.FromRecord(o.source, page[i].Record)
		if err != nil {
			return nil, after, fmt.Errorf("record of %q: %w", page[i].URL, err)
		}
		event.Cursor = cursor(page[i].Cursor)
		read, after = append(read, event), event.Cursor
	}
	return read, after, nil
}

// Find implements events.Outbox. A record does not have the time of its commit, so Find
// uses the time of the fetch: all records that were fetched at t or later are after the
// cursor.
func (o *Outbox) Find(ctx context.Context, t time.Time) (events.Cursor, error) {
	at, err := o.set.Since(ctx, t)
	return cursor(at), err
}

// Lag implements events.Outbox. It also counts records that cannot be read yet. Bytes are
// estimated from the first 1000 records, and Oldest is the time of the oldest of these.
func (o *Outbox) Lag(ctx context.Context, after events.Cursor) (events.Lag, error) {
	at, err := parse(after)
	if err != nil {
		return events.Lag{}, err
	}
	behind, err := o.set.Behind(ctx, at)
	return events.Lag{Events: behind.Records, Bytes: behind.Bytes, Oldest: behind.Oldest}, err
}

// Wait implements events.Waiter.
func (o *Outbox) Wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-o.set.Changed():
	}
}

// cursor returns the text of a cursor in Postgres. The text of the zero cursor is empty.
func cursor(at pgstore.Cursor) events.Cursor {
	if at == (pgstore.Cursor{}) {
		return ""
	}
	return events.Cursor(fmt.Sprintf("%d/%d", at.XID, at.Sequence))
}

func parse(text events.Cursor) (at pgstore.Cursor, err error) {
	if text == "" {
		return at, nil
	}
	xid, sequence, _ := strings.Cut(string(text), "/")
	at.XID, err = strconv.ParseUint(xid, 10, 64)
	n, err2 := strconv.ParseUint(sequence, 10, 31)
	if at.Sequence = uint32(n); errors.Join(err, err2) != nil || cursor(at) != text {
		return pgstore.Cursor{}, fmt.Errorf("pgoutbox: cursor %q is not of an outbox in Postgres, want XID/SEQUENCE", text)
	}
	return at, nil
}

// Lock implements events.Progress. The lock also ends if its connection to the server
// breaks.
func (o *Outbox) Lock(ctx context.Context, name string) (unlock func() error, err error) {
	release, err := o.set.LockRelay(ctx, name)
	if errors.Is(err, pgstore.ErrRelayInUse) {
		return nil, events.ErrLocked
	}
	return func() error { release(); return nil }, err
}

// Names implements events.Progress.
func (o *Outbox) Names(ctx context.Context) ([]string, error) { return o.set.Relays(ctx) }

// Load implements events.Progress.
func (o *Outbox) Load(ctx context.Context, name string) (saved events.Saved, known bool, err error) {
	relay, known, err := o.set.Relay(ctx, name)
	return events.Saved{Cursor: events.Cursor(relay.Cursor), Dead: relay.Dead, At: relay.Moved}, known, err
}

// Save implements events.Progress.
func (o *Outbox) Save(ctx context.Context, name string, at events.Cursor, dead []events.DeadLetter) error {
	letters := make([]pgstore.Letter, len(dead))
	for i := range dead {
		event, err := dead[i].Event.MarshalJSON()
		if err != nil {
			return err
		}
		letters[i] = pgstore.Letter{ID: dead[i].Event.ID, Event: event, Reason: dead[i].Reason, At: dead[i].At}
	}
	return o.set.SaveRelay(ctx, name, string(at), letters)
}

// Dead implements events.Progress.
func (o *Outbox) Dead(ctx context.Context, name string) ([]events.DeadLetter, error) {
	letters, err := o.set.Letters(ctx, name)
	if err != nil {
		return nil, err
	}
	dead := make([]events.DeadLetter, len(letters))
	for i, l := range letters {
		dead[i] = events.DeadLetter{Reason: l.Reason, At: l.At}
		if err := json.Unmarshal(l.Event, &dead[i].Event); err != nil {
			return nil, fmt.Errorf("pgoutbox: dead letter %s of relay %q: %w", l.ID, name, err)
		}
	}
	return dead, nil
}

// Revise implements events.Progress.
func (o *Outbox) Revise(ctx context.Context, name string, dead []events.DeadLetter) error {
	letters := make([]pgstore.Letter, len(dead))
	for i, l := range dead {
		letters[i] = pgstore.Letter{ID: l.Event.ID, Reason: l.Reason, At: l.At}
	}
	return o.set.ReviseLetters(ctx, name, letters)
}

// Discard implements events.Progress.
func (o *Outbox) Discard(ctx context.Context, name string, ids ...string) (int, error) {
	if len(ids) == 0 {
		ids = nil
	}
	return o.set.DiscardLetters(ctx, name, ids)
}

// Capture returns the function for pgstore.Config.Capture of a crawl. The event of a record
// is the same event that a relay sends.
func Capture(crawl string) func(*exact.Row) (pgstore.Event, error) {
	source := events.Source(crawl)
	return func(row *exact.Row) (pgstore.Event, error) {
		event, err := events.FromRecord(source, row.Record)
		if err != nil {
			return pgstore.Event{}, err
		}
		payload, err := event.AppendJSON(nil)
		return pgstore.Event{ID: event.ID, Host: event.Host, Type: event.Type, Payload: payload}, err
	}
}
