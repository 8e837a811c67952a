package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
)

// Once calls the function handle unless the group has handled the event with this id within
// the window, and returns Done or Duplicate.
//
// The mark of the event and the writes of handle through tx are in one transaction, of
// isolation level READ COMMITTED. If handle returns an error or panics, both are rolled
// back, and Once returns the error or a *PanicError. The next delivery then calls handle
// again. Do not acknowledge an event if Once returned an error.
//
// handle should use only the connection of tx. If all handlers ask the pool for a second
// connection, each handler waits for the others until its context ends.
//
// If two deliveries of an event run at the same time, one calls handle. The other waits and
// keeps its connection. If handle succeeds, the waiting delivery is a Duplicate. If handle
// fails, the waiting delivery calls handle itself. ctx bounds the wait. handle must return
// when ctx ends.
//
// If the connection is lost during the commit, Once returns an error, although the commit
// might have succeeded. If it has succeeded, the next delivery is a Duplicate.
func (i *Inbox) Once(ctx context.Context, id string, handle func(ctx context.Context, tx pgx.Tx) error) (Result, error) {
	return i.OnceEvent(ctx, Event{ID: id}, func(ctx context.Context, tx pgx.Tx, _ Event) error { return handle(ctx, tx) })
}

// OnceEvent is Once for a handler that gets the event, and passes the event to Config.WindowOf. Only its ID must be set.
func (i *Inbox) OnceEvent(ctx context.Context, e Event, handle Handler) (Result, error) {
	if err := checkID(e.ID); err != nil {
		return 0, err
	}
	return i.unlessCached(ctx, e, OutcomeDone, func() (result Result, err error) {
		err = i.inTransaction(ctx, func(tx pgx.Tx) error {
			result, err = i.mark(ctx, tx, e)
			if err != nil || result == Duplicate {
				return err
			}
			return catchPanic(func() error { return handle(ctx, handlersTx{tx}, e) })
		})
		if err != nil {
			return 0, fmt.Errorf("inbox: event %q of group %q: %w", e.ID, i.cfg.Group, err)
		}
		return result, nil
	})
}

// unlessCached returns Duplicate if the event is in the cache. If not, it calls process,
// reports the outcome to Metrics, and adds the event to the cache. It reports the argument
// outcome if the result is Done.
func (i *Inbox) unlessCached(ctx context.Context, e Event, outcome Outcome, process func() (Result, error)) (Result, error) {
	started := time.Now()
	if i.cached(ctx, e.ID) {
		i.count(OutcomeCached, started)
		return Duplicate, nil
	}
	result, err := process()
	switch {
	case err != nil:
		i.count(OutcomeFailed, started)
		return 0, err
	case result == Duplicate:
		outcome = OutcomeDuplicate
	}
	i.count(outcome, started)
	i.remember(ctx, e, result, started)
	return result, nil
}

// inTransaction calls body in a transaction. It commits if the call succeeds, and rolls back
// if not.
func (i *Inbox) inTransaction(ctx context.Context, body func(tx pgx.Tx) error) error {
	tx, err := i.cfg.DB.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	// After a commit, Rollback does nothing. It is deferred because a handler can call
	// runtime.Goexit.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = tx.Rollback(ctx) // if it fails, the end of the connection rolls back
	}()
	if err := body(tx); err != nil {
		return explain(err)
	}
	return tx.Commit(ctx)
}

// Mark marks the event in a transaction that the caller commits or rolls back. It returns
// Duplicate if the event is marked already. If another open transaction has marked the
// event, Mark waits for the end of that transaction. The caller must commit its other
// writes only if Mark returned Done. Mark does not use the Cache. tx must be READ
// COMMITTED. On other levels, calls at the same time can return a serialization failure.
func (i *Inbox) Mark(ctx context.Context, tx pgx.Tx, id string) (Result, error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	return i.mark(ctx, tx, Event{ID: id})
}

func (i *Inbox) mark(ctx context.Context, tx pgx.Tx, e Event) (Result, error) {
	var marked bool
	err := tx.QueryRow(ctx, i.statement(markSQL), i.cfg.Group, e.ID, i.window(e), i.clock()).Scan(&marked)
	return resultOfScan(err, pgx.ErrNoRows)
}

// MarkSQL is Mark for programs that use database/sql, with any driver of Postgres.
func (i *Inbox) MarkSQL(ctx context.Context, tx *sql.Tx, id string) (Result, error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	var marked bool
	err := tx.QueryRowContext(ctx, i.statement(markSQL), i.cfg.Group, id, i.window(Event{ID: id}), i.clock()).Scan(&marked)
	return resultOfScan(err, sql.ErrNoRows)
}

// resultOfScan returns the Result of a statement that returns a row only if it has marked
// the event. err is the error of Scan. noRows is the error that Scan returns if there is no
// row.
func resultOfScan(err, noRows error) (Result, error) {
	switch {
	case errors.Is(err, noRows):
		return Duplicate, nil
	case err != nil:
		return 0, fmt.Errorf("mark: %w", explain(err))
	}
	return Done, nil
}

// catchPanic calls f, and returns a panic of f as a *PanicError.
func catchPanic(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return f()
}

// handlersTx is the transaction that handlers get. They cannot end it.
type handlersTx struct{ pgx.Tx }

// Commit returns ErrTransaction.
func (handlersTx) Commit(context.Context) error { return ErrTransaction }

// Rollback returns ErrTransaction.
func (handlersTx) Rollback(context.Context) error { return ErrTransaction }

// cacheKey returns the key of the event in the cache. It is unique, because neither an
// identity nor a group contains a colon.
func (i *Inbox) cacheKey(id string) string { return i.identity + ":" + i.cfg.Group + ":" + id }

// cached reports whether the event is in the cache.
func (i *Inbox) cached(ctx context.Context, id string) bool {
	if i.cfg.Cache == nil {
		return false
	}
	known, err := i.cfg.Cache.Contains(ctx, i.cacheKey(id))
	i.cacheFailed(err)
	return known && err == nil
}

// remember adds a committed event to the cache. The key in the cache must not outlive the
// mark in Postgres. For a new mark, remember subtracts the time since started from the
// window. For a duplicate, it asks Postgres for the remaining time of the mark.
func (i *Inbox) remember(ctx context.Context, e Event, result Result, started time.Time) {
	if i.cfg.Cache == nil {
		return
	}
	ttl := i.cfg.CacheTTL
	switch {
	case result == Done:
		ttl = min(ttl, i.windowOf(e)-time.Since(started))
	case result == Duplicate:
		asked := time.Now()
		var left *int64 // microseconds; nil means Forever
		err := i.cfg.DB.QueryRow(ctx, i.statement(remainingSQL), i.cfg.Group, e.ID, i.clock()).Scan(&left)
		if err != nil {
			return // the mark has just expired, or Postgres failed; the next delivery detects both
		}
		if left != nil {
			ttl = min(ttl, time.Duration(*left)*time.Microsecond-time.Since(asked))
		}
	}
	if ttl > 0 {
		i.cacheFailed(i.cfg.Cache.Add(ctx, i.cacheKey(e.ID), ttl))
	}
}

func (i *Inbox) cacheFailed(err error) {
	if err != nil && i.cfg.Metrics != nil {
		i.cfg.Metrics.CacheFailed(err)
	}
}
