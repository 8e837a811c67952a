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
		return tx.QueryRow(ctx, s.sql("count"), s.now()).Scan(&stats.Pending, &waiting, &stats.Done, &stats.Failed, &since)
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
		return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
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
