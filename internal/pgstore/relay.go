package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// Stale implements exact.Set. If the answer of a call is lost, the keys in it are returned
// again by a call that comes at least age later.
func (s *Store) Stale(ctx context.Context, age time.Duration, n int) ([]exact.Entry, error) {
	return query(ctx, s, "take up pending keys", s.sql("stale"), scanEntry, age, n, s.now())
}

// Waiting implements exact.Set.
func (s *Store) Waiting(ctx context.Context, after bloomstore.Fingerprint, n int) ([]exact.Entry, error) {
	return query(ctx, s, "list waiting keys", s.sql("waiting"), scanEntry, uuid(after), n)
}

func scanEntry(row pgx.CollectableRow) (e exact.Entry, err error) {
	var class rune
	var pending bool
	var line []byte
	if err := row.Scan((*[16]byte)(&e.Fingerprint), &e.Round, &class, &e.Depth, &e.Hops, &e.Priority, &e.URL, &line, &pending); err != nil {
		return e, err
	}
	e.Line = string(line)
	if e.State = exact.Queued; pending {
		e.State = exact.Pending
	}
	e.Class, err = classOf(class)
	return e, err
}

// Sweep implements exact.Set. If several callers sweep at once, only one of them deletes
// keys.
func (s *Store) Sweep(ctx context.Context, n int) (swept int, lag time.Duration, err error) {
	if err := s.queryRow(ctx, "sweep", s.sql("sweep"), []any{s.crawl, n, s.now()}, &swept); err != nil {
		return 0, 0, err
	}
	// The lag needs a separate statement, because the first statement still sees the deleted
	// keys.
	var since *time.Duration
	err = s.queryRow(ctx, "sweep", s.sql("lag"), []any{s.now()}, &since)
	return swept, lagOf(since), err
}

// lagOf returns the lag of Sweep. It is 0 if since is nil, because then no key has expired.
// Otherwise it is at least 1 ns.
func lagOf(since *time.Duration) time.Duration {
	if since == nil {
		return 0
	}
	return max(*since, 1)
}
