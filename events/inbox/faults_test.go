package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bloomfrontier/crawler/events/inbox"
)

// handling is a function that should handle an event only once.
type handling func(ctx context.Context, pool *pgxpool.Pool, id string, handle func(context.Context, pgx.Tx) error) error

// viaOnce handles an event with Once.
func viaOnce(ctx context.Context, pool *pgxpool.Pool, id string, handle func(context.Context, pgx.Tx) error) error {
	i, err := inbox.Open(ctx, configOf(pool))
	if err != nil {
		return err
	}
	_, err = i.Once(ctx, id, handle)
	return err
}

// known reports whether an event is in the table mark. The naive versions (see TestFaults)
// store their marks there, except clockKey.
func known(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, id string) (is bool, err error) {
	err = db.QueryRow(ctx, "SELECT EXISTS (SELECT FROM mark WHERE id = $1)", id).Scan(&is)
	return is, err
}

const naiveMark = "INSERT INTO mark (id) VALUES ($1) ON CONFLICT DO NOTHING"

// checkThenMark checks the mark, handles the event and marks it, without a transaction.
func checkThenMark(ctx context.Context, pool *pgxpool.Pool, id string, handle func(context.Context, pgx.Tx) error) error {
	if is, err := known(ctx, pool, id); err != nil || is {
		return err
	}
	if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return handle(ctx, tx) }); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, naiveMark, id)
	return err
}

// selectOutside checks the mark before the transaction in which it marks the event and
// handles it.
func selectOutside(ctx context.Context, pool *pgxpool.Pool, id string, handle func(context.Context, pgx.Tx) error) error {
	if is, err := known(ctx, pool, id); err != nil || is {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		return errors.Join(handle(ctx, tx), func() error { _, err := tx.Exec(ctx, naiveMark, id); return err }())
	})
}

// markFirst marks the event, commits the mark, and then handles the event.
func markFirst(ctx context.Context, pool *pgxpool.Pool, id string, handle func(context.Context, pgx.Tx) error) error {
	tag, err := pool.Exec(ctx, naiveMark, id)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return handle(ctx, tx) })
}

// clockKey handles an event once for each key, and makes the key from the id and the time.
func clockKey(ctx context.Context, pool *pgxpool.Pool, id string, handle func(context.Context, pgx.Tx) error) error {
	return viaOnce(ctx, pool, fmt.Sprint(id, "-", time.Now().UnixNano()), handle)
}

// TestFaults tests the usual faults of code that handles events once. For each fault, a naive
// version must fail, and Once must succeed.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name     string
		naive    handling
		scenario func(t *testing.T, pool *pgxpool.Pool, way handling, child string)
		effects  int // the number of effects of the naive version
	}{
		{"check, then mark", checkThenMark, racingDeliveries, 2},
		{"select outside the transaction", selectOutside, racingDeliveries, 2},
		{"key from the clock", clockKey, repeatedDelivery, 2},
		{"mark before processing, with a crash", markFirst, crashedDelivery, 0},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			for _, way := range []struct {
				handling
				child string // the action of the child process of crashedDelivery
				want  int
			}{{fault.naive, "mark first", fault.effects}, {viaOnce, "once", 1}} {
				pool := database(t)
				_, err := pool.Exec(t.Context(), "CREATE TABLE mark (id text PRIMARY KEY)")
				must(t, err)
				fault.scenario(t, pool, way.handling, way.child)
				wantEffects(t, pool, "k", way.want)
			}
		})
	}
}

func handleK(ctx context.Context, tx pgx.Tx) error { return effect(ctx, tx, "k") }

func repeatedDelivery(t *testing.T, pool *pgxpool.Pool, way handling, _ string) {
	for range 2 {
		must(t, way(t.Context(), pool, "k", handleK))
	}
}

// racingDeliveries begins a second delivery while the handler of the first one runs. That
// handler ends when the second delivery has reached its own handler or waits for a lock.
func racingDeliveries(t *testing.T, pool *pgxpool.Pool, way handling, _ string) {
	entered, second := make(chan struct{}), make(chan struct{})
	var over sync.WaitGroup
	over.Go(func() {
		err := way(t.Context(), pool, "k", func(ctx context.Context, tx pgx.Tx) error {
			close(entered)
			<-second
			return handleK(ctx, tx)
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-entered
	handled := make(chan struct{})
	over.Go(func() {
		err := way(t.Context(), pool, "k", func(ctx context.Context, tx pgx.Tx) error { close(handled); return handleK(ctx, tx) })
		if err != nil {
			t.Error(err)
		}
	})
	for waiting := false; !waiting; {
		select {
		case <-handled:
			waiting = true
		default:
			must(t, pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE application_name = current_schema AND wait_event_type = 'Lock')`).Scan(&waiting))
		}
	}
	close(second)
	over.Wait()
}

// crashedDelivery delivers an event to a process whose handler kills the process, and then
// delivers the event again.
func crashedDelivery(t *testing.T, pool *pgxpool.Pool, way handling, child string) {
	if !runChild(t, pool, child) {
		t.Error("the handler did not kill the child process")
	}
	must(t, way(t.Context(), pool, "k", handleK))
}

// TestFaultGroup: if the key of a mark does not contain the consumer group, a second group
// handles nothing.
func TestFaultGroup(t *testing.T) {
	t.Parallel()
	pool := database(t)
	_, err := pool.Exec(t.Context(), "CREATE TABLE mark (id text PRIMARY KEY)")
	must(t, err)
	for range 2 { // groups
		must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			tag, err := tx.Exec(t.Context(), naiveMark, "k")
			if err != nil || tag.RowsAffected() == 0 {
				return err
			}
			return handleK(t.Context(), tx)
		}))
	}
	wantEffects(t, pool, "k", 1) // although there are two groups; TestGroups wants two effects
}

// TestFaultAttempts: if attempts are counted in the handler's transaction, the count is
// rolled back with it, and the event is tried for ever.
func TestFaultAttempts(t *testing.T) {
	t.Parallel()
	const deliveries = 5
	pool := database(t)
	_, err := pool.Exec(t.Context(), "CREATE TABLE naive (id text PRIMARY KEY, attempts int); INSERT INTO naive VALUES ('k', 0)")
	must(t, err)
	tried := 0
	for range deliveries {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			tag, err := tx.Exec(t.Context(), "UPDATE naive SET attempts = attempts + 1 WHERE id = 'k' AND attempts < 3")
			if err != nil || tag.RowsAffected() == 0 {
				return err
			}
			tried++
			return errHandler
		})
		if !errors.Is(err, errHandler) {
			t.Fatal(err)
		}
	}
	if tried != deliveries {
		t.Errorf("the naive version ran the handler in %d of %d deliveries, want all", tried, deliveries)
	}

	i := open(t, pool)
	_, err = i.Store(t.Context(), inbox.Event{ID: "k", Type: "mail"})
	must(t, err)
	tried = 0
	for range deliveries {
		_, err := i.Round(t.Context(), quick(func(context.Context, pgx.Tx, inbox.Event) error { tried++; return errHandler }))
		must(t, err)
	}
	if tried != 3 {
		t.Errorf("Work ran the handler %d times, want 3", tried)
	}
}
