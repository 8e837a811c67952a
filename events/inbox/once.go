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

// Once runs handle unless the group has handled the event with this id within the
// window, and returns Done or Duplicate.
//
// The mark of the event and what handle writes through tx are one transaction, of
// isolation level READ COMMITTED. If handle returns an error or panics, both are
// rolled back, and Once returns the error or a *PanicError: the next delivery runs
// handle again. Do not acknowledge an event whose Once returned an error.
//
// handle needs no connection beside that of tx. If all handlers ask the pool for
// another one, each waits for the others until its context ends.
//
// If two deliveries race, one runs handle and the other waits for it with its own
// connection. It returns Duplicate if the first succeeded, and runs handle itself
// if the first failed. ctx bounds the wait; handle must return when ctx ends.
//
// If the connection is lost during the commit, Once returns an error although the
// event may be handled. The next delivery finds out.
func (i *Inbox) Once(ctx context.Context, id string, handle func(ctx context.Context, tx pgx.Tx) error) (Result, error) {
	started := time.Now()
	if err := checkID(id); err != nil {
		return 0, err
	}
	if i.cached(ctx, id) {
		i.count(OutcomeCached, started)
		return Duplicate, nil
	}
	result, err := i.once(ctx, id, handle)
	i.count(outcomeOf(result, OutcomeDone, err), started)
	if err != nil {
		return 0, err
	}
	i.remember(ctx, id, result, started)
	return result, nil
}

// once is Once without the cache.
func (i *Inbox) once(ctx context.Context, id string, handle func(ctx context.Context, tx pgx.Tx) error) (result Result, err error) {
	err = i.inTransaction(ctx, func(tx pgx.Tx) error {
		result, err = i.Mark(ctx, tx, id)
		if err != nil || result == Duplicate {
			return err
		}
		return call(func() error { return handle(ctx, handlersTx{tx}) })
	})
	if err != nil {
		return 0, fmt.Errorf("inbox: event %q of group %q: %w", id, i.cfg.Group, err)
	}
	return result, nil
}

// inTransaction commits what do writes, or nothing of it.
func (i *Inbox) inTransaction(ctx context.Context, do func(tx pgx.Tx) error) error {
	tx, err := i.cfg.DB.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	// After a commit this does nothing. It also ends the transaction of a handler
	// that ends its goroutine.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = tx.Rollback(ctx) // what was not committed is gone with the connection, too
	}()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// Mark marks the event in a transaction that the caller commits or rolls back. It
// returns Duplicate if the event is marked already, and waits for another
// transaction that is about to mark it. The caller commits its other writes only
// after Done. Mark does not use the Cache. tx must be READ COMMITTED: on other levels
// a race can fail with a serialization failure.
func (i *Inbox) Mark(ctx context.Context, tx pgx.Tx, id string) (Result, error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	var marked bool
	err := tx.QueryRow(ctx, i.sql.mark, i.cfg.Group, id, i.window(), i.clock()).Scan(&marked)
	return markedOr(err, pgx.ErrNoRows)
}

// MarkSQL is Mark for programs that use database/sql, with any driver of Postgres.
func (i *Inbox) MarkSQL(ctx context.Context, tx *sql.Tx, id string) (Result, error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	var marked bool
	err := tx.QueryRowContext(ctx, i.sql.mark, i.cfg.Group, id, i.window(), i.clock()).Scan(&marked)
	return markedOr(err, sql.ErrNoRows)
}

// markedOr turns the error of mark.sql, which returns a row if it marked, into a Result.
func markedOr(err, none error) (Result, error) {
	switch {
	case errors.Is(err, none):
		return Duplicate, nil
	case err != nil:
		return 0, fmt.Errorf("mark: %w", err)
	}
	return Done, nil
}

// call returns a panic of f as a *PanicError.
func call(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return f()
}

// handlersTx is the transaction as handlers see it: one that they cannot end.
type handlersTx struct{ pgx.Tx }

// Commit returns ErrTransaction.
func (handlersTx) Commit(context.Context) error { return ErrTransaction }

// Rollback returns ErrTransaction.
func (handlersTx) Rollback(context.Context) error { return ErrTransaction }

// cacheKey names the event in the cache. A group contains no colon.
func (i *Inbox) cacheKey(id string) string { return i.identity + ":" + i.cfg.Group + ":" + id }

// cached reports whether the cache knows the event.
func (i *Inbox) cached(ctx context.Context, id string) bool {
	if i.cfg.Cache == nil {
		return false
	}
	known, err := i.cfg.Cache.Contains(ctx, i.cacheKey(id))
	i.cacheFailed(err)
	return known && err == nil
}

// remember tells the cache of an event that is committed. The time that the call
// took since started is taken off the window, so that the cache never remembers for
// longer than Postgres.
func (i *Inbox) remember(ctx context.Context, id string, result Result, started time.Time) {
	if i.cfg.Cache == nil {
		return
	}
	ttl := i.cfg.CacheTTL
	switch {
	case result == Done && i.cfg.Window != Forever:
		ttl = min(ttl, i.cfg.Window-time.Since(started))
	case result == Duplicate:
		asked := time.Now()
		var left *int64 // microseconds; nil is Forever
		err := i.cfg.DB.QueryRow(ctx, i.sql.remaining, i.cfg.Group, id, i.clock()).Scan(&left)
		if err != nil {
			return // expired meanwhile, or the next delivery will say what is wrong
		}
		if left != nil {
			ttl = min(ttl, time.Duration(*left)*time.Microsecond-time.Since(asked))
		}
	}
	if ttl > 0 {
		i.cacheFailed(i.cfg.Cache.Add(ctx, i.cacheKey(id), ttl))
	}
}

func (i *Inbox) cacheFailed(err error) {
	if err != nil && i.cfg.Metrics != nil {
		i.cfg.Metrics.CacheFailed(err)
	}
}
