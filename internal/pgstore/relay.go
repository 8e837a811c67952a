package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// Stale implements exact.Set. If an answer is lost, a later call returns its keys again
// when age has passed.
func (s *Store) Stale(ctx context.Context, age time.Duration, n int) ([]exact.Entry, error) {
	return s.entries(ctx, "take up pending keys", s.sql.stale, age, n, s.now())
}

// Waiting implements exact.Set.
func (s *Store) Waiting(ctx context.Context, after bloomstore.Fingerprint, n int) ([]exact.Entry, error) {
	return s.entries(ctx, "list waiting keys", s.sql.waiting, uuid(after), n)
}

// entries runs a statement and returns its rows as waiting keys.
func (s *Store) entries(ctx context.Context, call, sql string, args ...any) (found []exact.Entry, err error) {
	err = s.try(ctx, call, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, entry)
		return err
	})
	return found, err
}

func entry(row pgx.CollectableRow) (e exact.Entry, err error) {
	var print pgtype.UUID
	var class rune
	var hops, priority int16
	var pending bool
	if err := row.Scan(&print, &e.Round, &class, &e.Depth, &hops, &priority, &e.URL, &pending); err != nil {
		return e, err
	}
	if e.State = exact.Queued; pending {
		e.State = exact.Pending
	}
	e.Fingerprint, e.Hops, e.Priority = print.Bytes, uint8(hops), frontier.Priority(priority)
	e.Class, err = classOf(class)
	return e, err
}

// Sweep implements exact.Set. If several callers sweep at once, only one of them does
// something.
func (s *Store) Sweep(ctx context.Context, n int) (swept int, lag time.Duration, err error) {
	err = s.try(ctx, "sweep", func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, s.sql.sweep, s.crawl, n, s.now()).Scan(&swept)
	})
	if err != nil {
		return 0, 0, err
	}
	// This is a separate statement, because the one that sweeps still sees the deleted keys.
	err = s.try(ctx, "sweep", func(ctx context.Context) error {
		var since *time.Duration
		err := s.pool.QueryRow(ctx, s.sql.lag, s.now()).Scan(&since)
		lag = lagOf(since)
		return err
	})
	return swept, lag, err
}

// lagOf returns the lag of Sweep: at least 1 ns, or 0 for nil, which means that there is no
// expired key.
func lagOf(since *time.Duration) time.Duration {
	if since == nil {
		return 0
	}
	return max(*since, 1)
}
