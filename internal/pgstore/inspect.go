package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// countTimeout limits the time of statements that read whole tables.
const countTimeout = 10 * time.Minute

// Lookup implements exact.Set.
func (s *Store) Lookup(ctx context.Context, key bloomstore.Fingerprint) (status exact.Status, err error) {
	var class rune
	var letter *rune
	var left *time.Duration
	var pending bool
	err = s.queryRow(ctx, "look up a key", s.sql("status"), []any{uuid(key), s.now()},
		&status.Round, &class, &letter, &status.HTTP, &left, &pending)
	if errors.Is(err, pgx.ErrNoRows) {
		return exact.Status{}, nil
	}
	if err != nil {
		return exact.Status{}, err
	}
	if status.Class, err = classOf(class); err != nil {
		return exact.Status{}, err
	}
	switch {
	case pending:
		status.State = exact.Pending
		return status, nil
	case letter == nil:
		status.State = exact.Queued
		return status, nil
	}
	if status.Outcome, err = outcomeOf(*letter); err != nil {
		return exact.Status{}, err
	}
	status.State = exact.State(status.Outcome.State())
	if status.Forever = left == nil; left != nil {
		status.SeenFor = max(*left, 0)
	}
	return status, nil
}

// Stats implements exact.Set. All counts are of the same moment.
func (s *Store) Stats(ctx context.Context) (stats exact.Stats, err error) {
	var waiting uint64
	var since *time.Duration
	err = s.tryLong(ctx, "count keys", func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, s.sql("count"), s.now()).Scan(&stats.Pending, &waiting, &stats.Done, &stats.Failed, &stats.Due, &since)
	})
	if err != nil {
		return exact.Stats{}, err
	}
	stats.Queued, stats.Lag = waiting-stats.Pending, lagOf(since)
	return stats, nil
}

// tryLong does the same as try for statements that read whole tables. They have a longer
// timeout.
func (s *Store) tryLong(ctx context.Context, call string, attempt func(context.Context, pgx.Tx) error) error {
	return s.tryWithin(ctx, countTimeout, call, func(ctx context.Context) error {
		return s.inTransaction(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, s.sql("allow_scans"), countTimeout.Milliseconds()); err != nil {
				return err
			}
			return attempt(ctx, tx)
		})
	})
}

// pageOfRecords is the number of records that are read at a time.
const pageOfRecords = 1000

// EachRecord calls the function visit for the crawl's records, in the order of their
// fingerprints and rounds. If visit returns an error, EachRecord stops and returns this
// error. Records that are added meanwhile might be missing.
func (s *Store) EachRecord(ctx context.Context, visit func(exact.Row) error) error {
	after := exact.Ref{}
	for round := int64(-1); ; round = int64(after.Round) {
		page, err := query(ctx, s, "read records", s.sql("records"), scanRecord, uuid(after.Fingerprint), round, pageOfRecords)
		if err != nil {
			return err
		}
		for _, row := range page {
			if err := visit(row); err != nil {
				return err
			}
			after = row.Ref
		}
		if len(page) < pageOfRecords {
			return nil
		}
	}
}

// EachLatestRecord is like EachRecord, but leaves out records that have a later round. Postgres sorts
// the records by fingerprint and round, so the last one of each fingerprint is visited. Statements that
// leave out the others read the rest of the table for each page.
func (s *Store) EachLatestRecord(ctx context.Context, visit func(exact.Row) error) error {
	var last exact.Row
	found := false
	err := s.EachRecord(ctx, func(row exact.Row) error {
		var err error
		if found && row.Fingerprint != last.Fingerprint {
			err = visit(last)
		}
		last, found = row, true
		return err
	})
	if err != nil || !found {
		return err
	}
	return visit(last)
}

func scanRecord(row pgx.CollectableRow) (r exact.Row, err error) {
	err = row.Scan(recordColumns(&r)...)
	r.Fetched = r.Fetched.UTC()
	return r, err
}

// recordColumns returns pointers to the fields of r, in the order of a record's columns.
func recordColumns(r *exact.Row) []any {
	return []any{(*[16]byte)(&r.Fingerprint), &r.Round, &r.Fetched, &r.Status, &r.Outcome, &r.URL, &r.Record}
}

// These limits bound the links that are read at a time: to linkBytes and one more row, whatever their size is.
const (
	fewestLinks = 16 // rows of the first page
	mostLinks   = 250
)

// linkRow is a row of the table of links.
type linkRow struct {
	exact.Ref
	part int32
	line []byte
}

// EachLinks calls the function visit for the links of the crawl's records, in the order of their fingerprints, rounds
// and parts. The argument line is the line of JSON that was stored, without a line feed. If visit returns an
// error, EachLinks stops and returns this error. Links that are added meanwhile might be missing.
func (s *Store) EachLinks(ctx context.Context, visit func(page exact.Ref, line []byte) error) error {
	after, round := linkRow{}, int64(-1)
	for limit := fewestLinks; ; {
		page, cut, err := s.pageOfLinks(ctx, after, round, limit)
		if err != nil {
			return err
		}
		size := 0
		for _, row := range page {
			if err := visit(row.Ref, row.line); err != nil {
				return err
			}
			after, round, size = row, int64(row.Round), size+len(row.line)
		}
		switch {
		case cut:
			limit = len(page)
		case len(page) < limit:
			return nil
		case size < linkBytes/2:
			limit = min(2*limit, mostLinks)
		}
	}
}

// pageOfLinks reads the next rows of links, at most limit. The result cut is true if it has fewer rows because they
// are larger than linkBytes together.
func (s *Store) pageOfLinks(ctx context.Context, after linkRow, round int64, limit int) (page []linkRow, cut bool, err error) {
	err = s.try(ctx, "read links", func(ctx context.Context) error {
		page, cut = nil, false
		args := []any{uuid(after.Fingerprint), round, after.part, limit}
		return s.run(ctx, s.sql("links"), args, func(rows pgx.Rows) error {
			defer rows.Close()
			for size := 0; rows.Next(); {
				if size >= linkBytes {
					cut = true
					break
				}
				var row linkRow
				if err := rows.Scan((*[16]byte)(&row.Fingerprint), &row.Round, &row.part, &row.line); err != nil {
					return err
				}
				page, size = append(page, row), size+len(row.line)
			}
			rows.Close()
			return rows.Err()
		})
	})
	return page, cut, err
}

// HasLinks reports whether the crawl has links.
func (s *Store) HasLinks(ctx context.Context) (bool, error) {
	page, _, err := s.pageOfLinks(ctx, linkRow{}, -1, 1)
	return len(page) > 0, err
}
