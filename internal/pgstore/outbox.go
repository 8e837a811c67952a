package pgstore

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/internal/exact"
)

// Cursor is the position of a record in the outbox, whose records are ordered by
// transaction. The zero Cursor is before the first record.
type Cursor struct {
	XID      uint64 // the number of the transaction that inserted the record
	Sequence uint32 // position among the records of that transaction, from 1
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
// records, or the transaction of the cursor.
func (s *Store) checkOrder(ctx context.Context, at Cursor) error {
	var foreign bool
	err := s.queryRow(ctx, "check the outbox", s.sql("foreign"), []any{at.XID}, &foreign)
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

// Behind describes the part of an outbox after a cursor.
type Behind struct {
	Records uint64    // number of records
	Bytes   uint64    // their size, estimated from the average of the first 1000
	Oldest  time.Time // when the oldest of the first 1000 was fetched; zero if there are none
}

// Behind returns the size of the outbox after a cursor. It includes records that
// Committed does not return yet because an older transaction runs. It counts rows, which
// takes about 0.1 s for a million.
func (s *Store) Behind(ctx context.Context, after Cursor) (b Behind, err error) {
	err = s.tryLong(ctx, "count the outbox", func(ctx context.Context, tx pgx.Tx) error {
		var average float64
		var oldest *time.Time
		if err := tx.QueryRow(ctx, s.sql("committed_lag"), after.XID, after.Sequence).Scan(&b.Records, &average, &oldest); err != nil {
			return err
		}
		b.Bytes = uint64(math.Round(average * float64(b.Records)))
		if oldest != nil {
			b.Oldest = oldest.UTC()
		}
		return nil
	})
	return b, err
}
