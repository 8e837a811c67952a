package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

var errHandler = errors.New("the handler does not want to")

// deliver calls Once with a handler that writes the effect of event "k".
func deliver(t testing.TB, i *inbox.Inbox, want inbox.Result) {
	t.Helper()
	got, err := i.Once(t.Context(), "k", func(ctx context.Context, tx pgx.Tx) error { return effect(ctx, tx, "k") })
	if err != nil || got != want {
		t.Errorf("Once = %v, %v; want %v", got, err, want)
	}
}

// TestOnce delivers an event in several ways. In each of them the event has one effect.
func TestOnce(t *testing.T) {
	t.Parallel()
	// After each function, the event is handled.
	for name, delivery := range map[string]func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool){
		"once": func(t *testing.T, i *inbox.Inbox, _ *pgxpool.Pool) { deliver(t, i, inbox.Done) },
		"ten in a row": func(t *testing.T, i *inbox.Inbox, _ *pgxpool.Pool) {
			deliver(t, i, inbox.Done)
			for range 9 {
				deliver(t, i, inbox.Duplicate)
			}
		},
		"ten in parallel": func(t *testing.T, i *inbox.Inbox, _ *pgxpool.Pool) { tenInParallel(t, i) },
		"the handler fails": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			fail(t, i, t.Context(), func(error) error { return errHandler }, errHandler)
			wantEffects(t, pool, "k", 0)
			deliver(t, i, inbox.Done)
		},
		"the handler panics": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			_, err := i.Once(t.Context(), "k", func(ctx context.Context, tx pgx.Tx) error { panic(effect(ctx, tx, "k")) })
			if panicked, ok := errors.AsType[*inbox.PanicError](err); !ok || !strings.Contains(string(panicked.Stack), "once_test.go") {
				t.Errorf("Once of a handler that panics: error %v, want a PanicError with its stack", err)
			}
			wantEffects(t, pool, "k", 0)
			deliver(t, i, inbox.Done)
		},
		"the handler ends its goroutine": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			var over sync.WaitGroup
			over.Go(func() { fail(t, i, t.Context(), func(err error) error { runtime.Goexit(); return err }, nil) })
			over.Wait()
			wantEffects(t, pool, "k", 0)
			deliver(t, i, inbox.Done)
		},
		"the handler hangs": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			ctx, cancel := context.WithCancel(t.Context())
			fail(t, i, ctx, func(error) error { cancel(); <-ctx.Done(); return ctx.Err() }, context.Canceled)
			wantEffects(t, pool, "k", 0)
			deliver(t, i, inbox.Done)
		},
		"the handler hangs and says that it succeeded": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			ctx, cancel := context.WithCancel(t.Context())
			fail(t, i, ctx, func(err error) error { cancel(); return err }, context.Canceled)
			wantEffects(t, pool, "k", 0)
			deliver(t, i, inbox.Done)
		},
		"the handler ignores an error of its statement": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			_, err := i.Once(t.Context(), "k", func(ctx context.Context, tx pgx.Tx) error {
				_ = effect(ctx, tx, "k")
				_, _ = tx.Exec(ctx, "SELECT 1/0")
				return nil
			})
			if !errors.Is(err, pgx.ErrTxCommitRollback) {
				t.Errorf("Once of a transaction that Postgres has aborted: error %v, want ErrTxCommitRollback", err)
			}
			wantEffects(t, pool, "k", 0)
			deliver(t, i, inbox.Done)
		},
		"the handler commits, then fails": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			_, err := i.Once(t.Context(), "k", func(ctx context.Context, tx pgx.Tx) error {
				return errors.Join(effect(ctx, tx, "k"), tx.Commit(ctx))
			})
			if !errors.Is(err, inbox.ErrTransaction) {
				t.Errorf("Once of a handler that commits: error %v, want ErrTransaction", err)
			}
			wantEffects(t, pool, "k", 0)
			deliver(t, i, inbox.Done)
		},
		"the handler kills its process": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			if !runChild(t, pool, "once") {
				t.Error("the handler did not kill the child process")
			}
			wantEffects(t, pool, "k", 0)
			deliver(t, i, inbox.Done)
		},
		"the process is killed behind the commit": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			runChild(t, pool, "once, killed behind the commit")
			deliver(t, i, inbox.Duplicate)
		},
		"after a restart": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			deliver(t, i, inbox.Done)
			deliver(t, open(t, connect(t, pool.Config().ConnString())), inbox.Duplicate)
		},
		"the connection is lost in the handler": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			_, err := i.Once(t.Context(), "k", func(ctx context.Context, tx pgx.Tx) error {
				_, err := pool.Exec(ctx, "SELECT pg_terminate_backend($1)", tx.Conn().PgConn().PID())
				return errors.Join(err, effect(ctx, tx, "k"))
			})
			if err == nil {
				t.Error("Once without its connection: no error")
			}
			wantEffects(t, pool, "k", 0)
			deliver(t, i, inbox.Done)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			i := open(t, pool)
			delivery(t, i, pool)
			deliver(t, i, inbox.Duplicate)
			wantEffects(t, pool, "k", 1)
		})
	}
}

// fail calls Once with a handler that writes its effect and then returns the result of
// finish.
func fail(t *testing.T, i *inbox.Inbox, ctx context.Context, finish func(error) error, want error) {
	t.Helper()
	got, err := i.Once(ctx, "k", func(ctx context.Context, tx pgx.Tx) error { return finish(effect(ctx, tx, "k")) })
	if got != 0 || !errors.Is(err, want) {
		t.Errorf("Once = %v, %v; want the error %v", got, err, want)
	}
}

// tenInParallel makes ten deliveries at once. The handler that runs waits until the
// other deliveries have begun.
func tenInParallel(t *testing.T, i *inbox.Inbox) {
	t.Helper()
	var begun, over sync.WaitGroup
	var done, duplicates atomic.Int32
	begun.Add(10)
	for range 10 {
		over.Go(func() {
			begun.Done()
			result, err := i.Once(t.Context(), "k", func(ctx context.Context, tx pgx.Tx) error {
				begun.Wait()
				return effect(ctx, tx, "k")
			})
			switch {
			case err != nil:
				t.Error(err)
			case result == inbox.Done:
				done.Add(1)
			case result == inbox.Duplicate:
				duplicates.Add(1)
			}
		})
	}
	over.Wait()
	if done.Load() != 1 || duplicates.Load() != 9 {
		t.Errorf("of ten deliveries, %d returned Done and %d Duplicate; want 1 and 9", done.Load(), duplicates.Load())
	}
}

// TestRace: a second delivery waits while the first one is handled. If the first one fails,
// the second runs the handler. If the first one succeeds, the second is a duplicate.
func TestRace(t *testing.T) {
	t.Parallel()
	for _, first := range []error{nil, errHandler} {
		pool := database(t)
		i := open(t, pool)
		entered, release := make(chan struct{}), make(chan struct{})
		var over sync.WaitGroup
		over.Go(func() {
			_, err := i.Once(t.Context(), "k", func(ctx context.Context, tx pgx.Tx) error {
				close(entered)
				<-release
				return errors.Join(first, effect(ctx, tx, "k"))
			})
			if !errors.Is(err, first) {
				t.Errorf("the first delivery: error %v, want %v", err, first)
			}
		})
		<-entered
		want := inbox.Duplicate
		if first != nil {
			want = inbox.Done
		}
		over.Go(func() { deliver(t, i, want) })
		waitFor(t, pool, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = current_schema AND wait_event_type = 'Lock')")
		close(release)
		over.Wait()
		wantEffects(t, pool, "k", 1)
	}
}

// waitFor waits until a query returns true.
func waitFor(t testing.TB, pool *pgxpool.Pool, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		var is bool
		must(t, pool.QueryRow(ctx, query).Scan(&is))
		if is {
			return
		}
	}
}

// TestGroups: each group handles every event.
func TestGroups(t *testing.T) {
	t.Parallel()
	pool := database(t)
	deliver(t, open(t, pool), inbox.Done)
	deliver(t, open(t, pool, func(c *inbox.Config) { c.Group = "statistics" }), inbox.Done)
	deliver(t, open(t, pool), inbox.Duplicate)
	wantEffects(t, pool, "k", 2)
}

// TestRepeatWritesNothing: a repeat does not lock the mark. A lock would change xmax of the
// row.
func TestRepeatWritesNothing(t *testing.T) {
	t.Parallel()
	pool := database(t)
	i := open(t, pool)
	deliver(t, i, inbox.Done)
	locked := func() (xmax string) {
		t.Helper()
		must(t, pool.QueryRow(t.Context(), "SELECT xmax::text FROM seen").Scan(&xmax))
		return xmax
	}
	before := locked()
	deliver(t, i, inbox.Duplicate)
	store(t, i, inbox.Duplicate)
	if after := locked(); before != after {
		t.Errorf("a repeat changed xmax of the mark to %s, it was %s: the repeat locked the row", after, before)
	}
}

// TestServerRestart: after the server was killed, a handled event is still a duplicate.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{})
	pool := prepare(t, server.DSN())
	i := open(t, pool)
	deliver(t, i, inbox.Done)
	must(t, server.Kill())
	if _, err := i.Once(t.Context(), "k", nil); err == nil {
		t.Error("Once without a server: no error")
	}
	must(t, server.Restart())
	pool.Reset()
	deliver(t, i, inbox.Duplicate)
	wantEffects(t, pool, "k", 1)
}

// TestMark tests Mark and MarkSQL in transactions of the caller.
func TestMark(t *testing.T) {
	t.Parallel()
	pool := database(t)
	i := open(t, pool)
	mark := func(commit bool, want inbox.Result) {
		t.Helper()
		must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			got, err := i.Mark(t.Context(), tx, "k")
			if err != nil || got != want {
				t.Errorf("Mark = %v, %v; want %v", got, err, want)
			}
			if !commit {
				return tx.Rollback(t.Context())
			}
			return err
		}))
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	markSQL := func(end func(*sql.Tx) error, want inbox.Result) {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		got, err := i.MarkSQL(t.Context(), tx, "k")
		if err != nil || got != want {
			t.Errorf("MarkSQL = %v, %v; want %v", got, err, want)
		}
		must(t, end(tx))
	}
	markSQL((*sql.Tx).Rollback, inbox.Done)
	markSQL((*sql.Tx).Commit, inbox.Done)
	markSQL((*sql.Tx).Commit, inbox.Duplicate)
	mark(true, inbox.Duplicate)
	deliver(t, i, inbox.Duplicate)
}

// TestInvalid: the error is ErrInvalid for ids that Postgres or its index would refuse.
func TestInvalid(t *testing.T) {
	t.Parallel()
	i := open(t, database(t))
	for _, id := range []string{"", "a\x00b", "\xff", strings.Repeat("a", inbox.MaxIDBytes+1)} {
		_, once := i.Once(t.Context(), id, nil)
		_, store := i.Store(t.Context(), inbox.Event{ID: id, Type: "mail"})
		_, kind := i.Store(t.Context(), inbox.Event{ID: "k", Type: id})
		for _, err := range []error{once, store, kind} {
			if !errors.Is(err, inbox.ErrInvalid) {
				t.Errorf("id or type %.20q: error %v, want ErrInvalid", id, err)
			}
		}
	}
	longest := strings.Repeat("ü", inbox.MaxIDBytes/2)
	result, err := i.Store(t.Context(), inbox.Event{ID: longest, Type: longest})
	if err != nil || result != inbox.Done {
		t.Errorf("Store of the longest id = %v, %v; want Done", result, err)
	}
}
