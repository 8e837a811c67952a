package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Handler handles one event. The transaction tx also marks the event, or deletes it if it
// was stored. So the handler's writes through tx and this change are committed together, or
// not at all. A Handler must return when ctx ends.
type Handler func(ctx context.Context, tx pgx.Tx, e Event) error

// WorkConfig configures Work. Handlers is required.
type WorkConfig struct {
	// Handlers has a handler for each type of event. Events of other types wait for a
	// process whose Handlers have their type.
	Handlers map[string]Handler
	// Workers is how many events are handled at a time; 0 means 4. Each worker needs one
	// connection of the DB.
	Workers int
	// Attempts is how many attempts an event has; 0 means 10.
	Attempts int
	// Backoff is the time between the first attempt and the second; 0 means 1 s. It
	// doubles with each attempt, up to MaxBackoff; a MaxBackoff of 0 means 1 hour. Up
	// to a quarter is added at random.
	Backoff, MaxBackoff time.Duration
	// Timeout is the time after which the context of a handler ends; 0 means 1 minute.
	// If the process ends during an attempt, the next attempt is made after the Timeout,
	// or after the back-off if that is longer.
	Timeout time.Duration
	// Grace is how long handlers can continue after ctx has ended; 0 means 10 s.
	Grace time.Duration
	// Poll is how often the database is queried while no event is due; 0 means 1 s.
	Poll time.Duration
	// Logger receives failed attempts; nil discards.
	Logger *slog.Logger
}

// Work handles stored events until ctx ends. It returns nil when its workers have ended. It
// returns an error only if cfg has a fault. While the database is unavailable, it waits.
// Several processes can call Work for one group.
//
// Each attempt is counted before the handler starts, in a transaction of its own. So the
// attempts of an event are limited even if its handler ends the process. The handler's
// writes and the removal of the event are a second transaction. After a failed attempt the
// event is due again after the back-off. After the last attempt, or an error that wraps
// ErrPermanent, it becomes a dead letter.
//
// An event that is being handled is locked. If a handler does not return when its context
// ends, its worker and its event are blocked until the process ends.
//
// Each worker takes the events of a type in the order of their due times. Workers do not
// wait for each other.
func (i *Inbox) Work(ctx context.Context, cfg WorkConfig) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	// Handlers can run for cfg.Grace after the end of ctx.
	handlers, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		sleep(handlers, cfg.Grace)
		cancel(errors.New("inbox: the worker was told to end"))
	})()
	var workers sync.WaitGroup
	types := slices.Sorted(maps.Keys(cfg.Handlers))
	for n := range cfg.Workers {
		w := worker{i, cfg, slices.Concat(types[n%len(types):], types[:n%len(types)])}
		workers.Go(func() { w.run(ctx, handlers) })
	}
	workers.Wait()
	return nil
}

// withDefaults returns c with its defaults. The error names every fault.
func (c WorkConfig) withDefaults() (WorkConfig, error) {
	var errs []error
	if len(c.Handlers) == 0 {
		errs = append(errs, errors.New("inbox: WorkConfig.Handlers is empty"))
	}
	for name, handler := range c.Handlers {
		if err := checkText("type", name); err != nil || handler == nil {
			errs = append(errs, fmt.Errorf("inbox: WorkConfig.Handlers[%q] is no handler of a type", name))
		}
	}
	for _, number := range []struct {
		name  string
		value int64
	}{
		{"Workers", int64(c.Workers)}, {"Attempts", int64(c.Attempts)}, {"Backoff", int64(c.Backoff)},
		{"MaxBackoff", int64(c.MaxBackoff)}, {"Timeout", int64(c.Timeout)}, {"Grace", int64(c.Grace)}, {"Poll", int64(c.Poll)},
	} {
		if number.value < 0 {
			errs = append(errs, fmt.Errorf("inbox: WorkConfig.%s is negative, want 0 or more", number.name))
		}
	}
	c.Workers, c.Attempts = cmp.Or(c.Workers, 4), cmp.Or(c.Attempts, 10)
	c.Backoff, c.MaxBackoff = cmp.Or(c.Backoff, time.Second), cmp.Or(c.MaxBackoff, time.Hour)
	c.Timeout, c.Grace = cmp.Or(c.Timeout, time.Minute), cmp.Or(c.Grace, 10*time.Second)
	c.Poll = cmp.Or(c.Poll, time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, errors.Join(errs...)
}

// A worker handles one event at a time.
type worker struct {
	inbox *Inbox
	cfg   WorkConfig
	types []string // in the order in which round takes their events
}

// run handles events until stop ends. The context handlerCtx is the parent of the
// contexts that handlers get.
func (w worker) run(stop, handlerCtx context.Context) {
	for stop.Err() == nil {
		if w.round(stop, handlerCtx) {
			continue
		}
		select {
		case <-stop.Done():
		case <-w.inbox.wake:
		case <-time.After(w.cfg.Poll):
		}
	}
}

// round handles one event of each type, so that a type with many events does not delay the
// others. It reports whether it found an event.
func (w worker) round(stop, handlerCtx context.Context) (found bool) {
	for _, kind := range w.types {
		if stop.Err() != nil {
			return false
		}
		e, dead, err := w.claim(stop, kind)
		switch {
		case errors.Is(err, pgx.ErrNoRows) || stop.Err() != nil && err != nil:
			continue
		case err != nil:
			w.cfg.Logger.LogAttrs(stop, slog.LevelWarn, "events cannot be claimed", slog.String("type", kind), slog.Any("err", explain(err)))
			return false
		}
		found = true
		if dead {
			w.inbox.count(OutcomeDead, time.Now())
			w.report(stop, e, dead, errors.New("its last attempt did not end"))
			continue
		}
		w.handle(handlerCtx, e)
	}
	return found
}

// claim begins the next attempt of an event of a type. The result dead reports that the
// event had no attempts left and is a dead letter now. The end of the context does not abort
// the statement, because the server could still execute an aborted statement. No worker would
// then handle the event until both WorkConfig.Timeout and the back-off are over.
func (w worker) claim(stop context.Context, kind string) (e Event, dead bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(stop), 5*time.Second)
	defer cancel()
	e.Type = kind
	err = w.inbox.cfg.DB.QueryRow(ctx, w.inbox.statement(claimSQL), w.inbox.cfg.Group, kind, w.cfg.Attempts,
		w.cfg.Backoff.Microseconds(), w.cfg.MaxBackoff.Microseconds(), w.inbox.clock(), w.cfg.Timeout.Microseconds()).
		Scan(&e.ID, &e.Data, &e.Stored, &e.Attempt, &dead)
	return e, dead, err
}

// errLost reports that another worker has claimed or finished the event since this
// worker claimed it.
var errLost = errors.New("inbox: the event is another worker's")

// handle runs the handler of a claimed event.
func (w worker) handle(handlerCtx context.Context, e Event) {
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(handlerCtx, w.cfg.Timeout,
		fmt.Errorf("inbox: the handler took longer than %v", w.cfg.Timeout))
	defer cancel()
	err := w.inbox.inTransaction(ctx, func(tx pgx.Tx) error {
		var locked bool
		err := tx.QueryRow(ctx, w.inbox.statement(lockSQL), w.inbox.cfg.Group, e.ID, e.Attempt).Scan(&locked)
		if errors.Is(err, pgx.ErrNoRows) {
			return errLost
		}
		if err != nil {
			return fmt.Errorf("lock event %q: %w", e.ID, err)
		}
		if err := catchPanic(func() error { return w.cfg.Handlers[e.Type](ctx, handlersTx{tx}, e) }); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, w.inbox.statement(finishSQL), w.inbox.cfg.Group, e.ID)
		return err
	})
	switch {
	case err == nil:
		w.inbox.count(OutcomeDone, started)
	case !errors.Is(err, errLost):
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		w.fail(context.WithoutCancel(handlerCtx), e, started, err)
	}
}

// fail stores that an attempt failed. If the result cannot be stored, the event is due
// again at the time that claim.sql has set.
func (w worker) fail(ctx context.Context, e Event, started time.Time, failure error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var dead bool
	err := w.inbox.cfg.DB.QueryRow(ctx, w.inbox.statement(failSQL), w.inbox.cfg.Group, e.ID, e.Attempt, w.cfg.Attempts,
		w.cfg.Backoff.Microseconds(), w.cfg.MaxBackoff.Microseconds(), w.inbox.clock(),
		printable(failure), errors.Is(failure, ErrPermanent)).Scan(&dead)
	// There is no row if the handler's commit has succeeded in spite of the error, or if
	// another worker has taken over.
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		failure = fmt.Errorf("%w (and it cannot be noted: %w)", failure, err)
	}
	outcome := OutcomeFailed
	if dead {
		outcome = OutcomeDead
	}
	w.inbox.count(outcome, started)
	w.report(ctx, e, dead, failure)
}

func (w worker) report(ctx context.Context, e Event, dead bool, err error) {
	message := "attempt failed"
	if dead {
		message = "event is a dead letter"
	}
	w.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, message, slog.String("group", w.inbox.cfg.Group), slog.String("id", e.ID),
		slog.String("type", e.Type), slog.Int("attempt", e.Attempt), slog.Any("err", err))
}
