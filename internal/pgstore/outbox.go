package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// Outbox reads the records of a crawl as events, and stores the progress of the relays that
// send these events. It is safe for concurrent use, until the Store is closed.
//
// An events.Cursor of an Outbox is a text of the form XID/SEQUENCE. XID and SEQUENCE are the
// fields of the type Cursor of this package. While a transaction runs, anywhere on the server,
// Read does not return the records of newer transactions.
type Outbox struct{ *Store }

var (
	_ events.Outbox   = Outbox{}
	_ events.Waiter   = Outbox{}
	_ events.Progress = Outbox{}
)

// Read implements events.Outbox. It returns ErrForeign if the database was restored from a
// dump of another server.
func (o Outbox) Read(ctx context.Context, after events.Cursor, limit int) (read []events.Event, next events.Cursor, err error) {
	at, err := parseCursor(after)
	if err != nil {
		return nil, after, err
	}
	page, err := o.Committed(ctx, at, limit)
	if err != nil {
		return nil, after, err
	}
	for i := range page {
		event, err := events.FromRecord(events.Source(o.identity), page[i].Record)
		if err != nil {
			return nil, after, fmt.Errorf("record of %q: %w", page[i].URL, err)
		}
		event.Cursor = page[i].Cursor.text()
		read, after = append(read, event), event.Cursor
	}
	return read, after, nil
}

// Find implements events.Outbox. A record does not have the time of its commit, so Find
// uses the time of the fetch: all records that were fetched at t or later are after the
// cursor.
func (o Outbox) Find(ctx context.Context, t time.Time) (events.Cursor, error) {
	at, err := o.Since(ctx, t)
	return at.text(), err
}

// Lag implements events.Outbox: see Behind.
func (o Outbox) Lag(ctx context.Context, after events.Cursor) (events.Lag, error) {
	at, err := parseCursor(after)
	if err != nil {
		return events.Lag{}, err
	}
	return o.Behind(ctx, at)
}

// Wait implements events.Waiter.
func (o Outbox) Wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-o.Changed():
	}
}

// Cursor is the position of a record in the outbox, whose records are ordered by
// transaction. The zero Cursor is before the first record.
type Cursor struct {
	XID      uint64 // the number of the transaction that inserted the record
	Sequence uint32 // position among the records of that transaction, from 1
}

// text returns the cursor as an Outbox writes it. The text of the zero Cursor is empty.
func (c Cursor) text() events.Cursor {
	if c == (Cursor{}) {
		return ""
	}
	return events.Cursor(fmt.Sprintf("%d/%d", c.XID, c.Sequence))
}

func parseCursor(text events.Cursor) (at Cursor, err error) {
	if text == "" {
		return at, nil
	}
	xid, sequence, _ := strings.Cut(string(text), "/")
	at.XID, err = strconv.ParseUint(xid, 10, 64)
	n, err2 := strconv.ParseUint(sequence, 10, 31)
	if at.Sequence = uint32(n); errors.Join(err, err2) != nil || at.text() != text {
		return Cursor{}, fmt.Errorf("pgstore: cursor %q is not of an outbox in Postgres, want XID/SEQUENCE", text)
	}
	return at, nil
}

// Committed is a record with its cursor.
type Committed struct {
	exact.Row
	Cursor Cursor
}

// ErrForeign reports that records, or a relay's cursor, belong to transactions that this
// server has not begun. The database was restored from a dump of another server. The
// records must be numbered again. Otherwise new records would be placed before old ones.
var ErrForeign = errors.New("pgstore: the crawl's records were dumped from another server: number them anew, " +
	"as docs/reference/postgres.md says under \"After a restore\"")

// Committed returns the next records after a cursor, in order, at most n. It returns only
// records of transactions that are older than every transaction that still runs on the
// server. So later calls return only records that come after these.
//
// If there are no such records, Committed also checks the order of the records, and
// returns ErrForeign if the order is wrong.
func (s *Store) Committed(ctx context.Context, after Cursor, n int) (page []Committed, err error) {
	page, err = query(ctx, s, "read the outbox", s.sql("committed"), scanCommitted, after.XID, after.Sequence, n)
	if err == nil && len(page) == 0 {
		err = s.checkOrder(ctx, after)
	}
	return page, err
}

func scanCommitted(row pgx.CollectableRow) (c Committed, err error) {
	err = row.Scan(append([]any{&c.Cursor.XID, &c.Cursor.Sequence}, recordColumns(&c.Row)...)...)
	c.Fetched = c.Fetched.UTC()
	return c, err
}

// checkOrder returns ErrForeign if the server has not begun the transactions of the
// records, or the transaction of the cursor. There is one exception: a cursor with the
// Sequence 0 can belong to the next transaction of the server, because Since can return
// such a cursor.
func (s *Store) checkOrder(ctx context.Context, at Cursor) error {
	var foreign bool
	err := s.queryRow(ctx, "check the outbox", s.sql("foreign"), []any{at.XID, at.Sequence}, &foreign)
	if err == nil && foreign {
		err = ErrForeign
	}
	return err
}

// Since returns a cursor before all records that were fetched at the time t or later. For
// the zero time, the cursor is before all records that are committed from now on. In the
// worst case, Since reads all records that were fetched before t.
func (s *Store) Since(ctx context.Context, t time.Time) (at Cursor, err error) {
	var from *time.Time
	if !t.IsZero() {
		from = &t
	}
	err = s.tryLong(ctx, "find a cursor of the outbox", func(ctx context.Context, tx pgx.Tx) error {
		var oldest uint64
		var xid *uint64
		var sequence *uint32
		if err := tx.QueryRow(ctx, s.sql("committed_since"), from).Scan(&oldest, &xid, &sequence); err != nil {
			return err
		}
		at = Cursor{XID: oldest}
		if xid != nil && *xid < oldest {
			at = Cursor{*xid, *sequence - 1}
		}
		return nil
	})
	return at, err
}

// Behind returns the size of the outbox after a cursor. It includes records that
// Committed does not return yet because an older transaction runs. It counts rows, which
// takes about 0.1 s for a million. It estimates the bytes from the first 1000 records after
// the cursor. Oldest is the earliest time at which one of these 1000 was fetched.
func (s *Store) Behind(ctx context.Context, after Cursor) (lag events.Lag, err error) {
	err = s.tryLong(ctx, "count the outbox", func(ctx context.Context, tx pgx.Tx) error {
		var average float64
		var oldest *time.Time
		if err := tx.QueryRow(ctx, s.sql("committed_lag"), after.XID, after.Sequence).Scan(&lag.Events, &average, &oldest); err != nil {
			return err
		}
		lag.Bytes = uint64(math.Round(average * float64(lag.Events)))
		if oldest != nil {
			lag.Oldest = oldest.UTC()
		}
		return nil
	})
	return lag, err
}
