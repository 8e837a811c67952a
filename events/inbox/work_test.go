package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bloomfrontier/crawler/events/inbox"
)

// store stores the event "k" of type "mail".
func store(t testing.TB, i *inbox.Inbox, want inbox.Result) {
	t.Helper()
	got, err := i.Store(t.Context(), inbox.Event{ID: "k", Type: "mail", Data: []byte("data")})
	if err != nil || got != want {
		t.Errorf("Store = %v, %v; want %v", got, err, want)
	}
}

// workUntil runs Work until a query returns true.
func workUntil(t testing.TB, i *inbox.Inbox, pool *pgxpool.Pool, cfg inbox.WorkConfig, query string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var over sync.WaitGroup
	over.Go(func() {
		if err := i.Work(ctx, cfg); err != nil {
			t.Error(err)
		}
	})
	waitFor(t, pool, query)
	cancel()
	over.Wait()
}

const (
	nothingPending = "SELECT NOT EXISTS (SELECT FROM stored WHERE dead IS NULL)"
	oneDead        = "SELECT EXISTS (SELECT FROM stored WHERE dead IS NOT NULL)"
)

func effectOf(ctx context.Context, tx pgx.Tx, e inbox.Event) error { return effect(ctx, tx, e.ID) }

// TestStoreThenWork: a stored event has one effect, regardless of how it is delivered and
// of how its handler ends.
func TestStoreThenWork(t *testing.T) {
	t.Parallel()
	// After each function the event is handled or pending.
	for name, deliver := range map[string]func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool){
		"once": func(t *testing.T, i *inbox.Inbox, _ *pgxpool.Pool) { store(t, i, inbox.Done) },
		"ten in a row": func(t *testing.T, i *inbox.Inbox, _ *pgxpool.Pool) {
			store(t, i, inbox.Done)
			for range 9 {
				store(t, i, inbox.Duplicate)
			}
		},
		"ten in parallel": func(t *testing.T, i *inbox.Inbox, _ *pgxpool.Pool) {
			var over sync.WaitGroup
			var done atomic.Int32
			for range 10 {
				over.Go(func() {
					result, err := i.Store(t.Context(), inbox.Event{ID: "k", Type: "mail"})
					if err != nil {
						t.Error(err)
					}
					if result == inbox.Done {
						done.Add(1)
					}
				})
			}
			over.Wait()
			if done.Load() != 1 {
				t.Errorf("%d of ten calls of Store returned Done, want 1", done.Load())
			}
		},
		"after a restart": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			store(t, i, inbox.Done)
			store(t, open(t, connect(t, pool.Config().ConnString())), inbox.Duplicate)
		},
		"the handler fails": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			failOnce(t, i, func(context.Context) error { return errHandler })
		},
		"the handler panics": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			failOnce(t, i, func(context.Context) error { panic("handler") })
		},
		"the handler hangs": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			failOnce(t, i, func(ctx context.Context) error { <-ctx.Done(); return nil })
		},
		"the handler kills its process": func(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool) {
			store(t, i, inbox.Done)
			if !runChild(t, pool, "work") {
				t.Error("the handler did not kill the child process")
			}
			makeDue(t, pool)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			i := open(t, pool)
			deliver(t, i, pool)
			wantEffects(t, pool, "k", 0)
			workUntil(t, i, pool, quick(effectOf), nothingPending)
			store(t, i, inbox.Duplicate)
			workUntil(t, i, pool, quick(effectOf), nothingPending)
			wantEffects(t, pool, "k", 1)
		})
	}
}

// makeDue makes all events due, as time would.
func makeDue(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), "UPDATE stored SET due = now()")
	must(t, err)
}

// failOnce stores an event and makes a first attempt, which writes its effect and then
// fails.
func failOnce(t *testing.T, i *inbox.Inbox, how func(ctx context.Context) error) {
	t.Helper()
	store(t, i, inbox.Done)
	cfg := quick(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		return errors.Join(effect(ctx, tx, e.ID), how(ctx))
	})
	cfg.Timeout = 100 * time.Millisecond
	if found, err := i.Round(t.Context(), cfg); err != nil || !found {
		t.Errorf("Round found no event (%v), want the stored one", err)
	}
}

// TestKillerHandler: an event whose handler kills its process each time becomes a dead
// letter. Its reason says that the last attempt did not end.
func TestKillerHandler(t *testing.T) {
	t.Parallel()
	pool := database(t)
	i := open(t, pool)
	store(t, i, inbox.Done)
	for range 3 {
		if !runChild(t, pool, "work") {
			t.Fatal("the handler did not kill the child process")
		}
		makeDue(t, pool)
	}
	if runChild(t, pool, "work") {
		t.Error("after three attempts, the handler ran once more")
	}
	letters, err := i.Dead(t.Context(), 10)
	must(t, err)
	if len(letters) != 1 || letters[0].Event.Attempt != 3 || !strings.HasPrefix(letters[0].Reason, "attempt 3 did not end") {
		t.Errorf("dead letters %+v, want one after attempt 3, which did not end", letters)
	}
	wantEffects(t, pool, "k", 0)
}

// TestDeadLetters: an event that fails all its attempts is kept with its data and the
// reason, and can be retried or discarded.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	pool := database(t)
	i := open(t, pool)
	failing := quick(func(_ context.Context, _ pgx.Tx, e inbox.Event) error {
		return fmt.Errorf("attempt %d: %w\x00\xff", e.Attempt, errHandler)
	})
	die := func() inbox.DeadLetter {
		t.Helper()
		workUntil(t, i, pool, failing, oneDead)
		letters, err := i.Dead(t.Context(), 10)
		must(t, err)
		if len(letters) != 1 {
			t.Fatalf("%d dead letters, want 1", len(letters))
		}
		return letters[0]
	}
	store(t, i, inbox.Done)
	letter := die()
	if e := letter.Event; e.ID != "k" || e.Type != "mail" || string(e.Data) != "data" || e.Attempt != 3 ||
		letter.Reason != "attempt 3: "+errHandler.Error()+"??" || letter.At.Before(e.Stored) {
		t.Errorf("dead letter %+v, want event k after attempt 3, with its data and the reason", letter)
	}
	store(t, i, inbox.Duplicate)
	if stats, err := i.Stats(t.Context()); err != nil || stats.Dead != 1 || stats.Pending != 0 || !stats.Oldest.IsZero() {
		t.Errorf("Stats = %+v, %v; want 1 dead, none pending", stats, err)
	}
	if n, err := i.Retry(t.Context(), "another"); n != 0 || err != nil {
		t.Errorf("Retry of another event = %d, %v; want 0", n, err)
	}
	if n, err := i.Retry(t.Context(), "k"); n != 1 || err != nil {
		t.Errorf("Retry = %d, %v; want 1", n, err)
	}
	if stats, err := i.Stats(t.Context()); err != nil || stats.Pending != 1 || !stats.Oldest.Equal(letter.Event.Stored) {
		t.Errorf("Stats = %+v, %v; want 1 pending", stats, err)
	}
	if die().Event.Attempt != 3 {
		t.Error("a retried event did not get three attempts again")
	}
	if n, err := i.Retry(t.Context()); n != 1 || err != nil {
		t.Errorf("Retry of all = %d, %v; want 1", n, err)
	}
	workUntil(t, i, pool, quick(effectOf), nothingPending)
	wantEffects(t, pool, "k", 1)

	_, err := i.Bury(t.Context(), inbox.Event{ID: "b", Type: "mail", Attempt: 7}, errHandler)
	must(t, err)
	if letter := die(); letter.Event.ID != "b" || letter.Event.Attempt != 7 || letter.Reason != errHandler.Error() {
		t.Errorf("dead letter %+v, want event b after attempt 7, with the reason given to Bury", letter)
	}
	for _, want := range []int{1, 0} {
		if n, err := i.Discard(t.Context()); n != want || err != nil {
			t.Errorf("Discard of all = %d, %v; want %d", n, err, want)
		}
	}
	if result, err := i.Bury(t.Context(), inbox.Event{ID: "b", Type: "mail"}, nil); result != inbox.Duplicate || err != nil {
		t.Errorf("Bury of a discarded event = %v, %v; want duplicate", result, err)
	}
}

// TestStopDuringClaim: if the context of Work ends while a worker claims an event, the worker
// still handles this event. The statement is not aborted, because the server could still
// execute an aborted statement. The event would then wait for an attempt that no worker makes.
func TestStopDuringClaim(t *testing.T) {
	t.Parallel()
	pool := database(t)
	i := open(t, pool)
	store(t, i, inbox.Done)
	lock, err := pool.Begin(t.Context())
	must(t, err)
	_, err = lock.Exec(t.Context(), "LOCK TABLE stored IN EXCLUSIVE MODE") // each claim waits until this transaction ends
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.Work(ctx, quick(effectOf)) }()
	waitFor(t, pool, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')")
	cancel()
	must(t, lock.Rollback(t.Context()))
	must(t, <-ended)
	waitFor(t, pool, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid())`)
	var pending int
	must(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM stored").Scan(&pending))
	if pending != 0 {
		t.Errorf("%d events are still stored after the worker ended, want 0: it claimed an event and did not handle it", pending)
	}
	wantEffects(t, pool, "k", 1)
}

// TestPermanent: an error that wraps ErrPermanent ends the attempts.
func TestPermanent(t *testing.T) {
	t.Parallel()
	pool := database(t)
	i := open(t, pool)
	store(t, i, inbox.Done)
	_, err := i.Round(t.Context(), quick(func(context.Context, pgx.Tx, inbox.Event) error {
		return fmt.Errorf("no such customer: %w", inbox.ErrPermanent)
	}))
	must(t, err)
	letters, err := i.Dead(t.Context(), 10)
	must(t, err)
	if len(letters) != 1 || letters[0].Event.Attempt != 1 {
		t.Errorf("dead letters %+v, want one after attempt 1", letters)
	}
}

// TestUnknownTypeWaits: events of a type without a handler wait, and do not delay others.
func TestUnknownTypeWaits(t *testing.T) {
	t.Parallel()
	pool := database(t)
	i := open(t, pool)
	_, err := i.Store(t.Context(), inbox.Event{ID: "new", Type: "mail.v2"})
	must(t, err)
	store(t, i, inbox.Done)
	workUntil(t, i, pool, quick(effectOf), "SELECT EXISTS (SELECT FROM effect)")
	stats, err := i.Stats(t.Context())
	must(t, err)
	if stats.Pending != 1 || stats.Dead != 0 {
		t.Errorf("Stats = %+v, want 1 pending", stats)
	}
	both := quick(effectOf)
	both.Handlers["mail.v2"] = effectOf
	workUntil(t, i, pool, both, nothingPending)
	wantEffects(t, pool, "new", 1)
}

// TestManyWorkers: with many workers in two pools, each event is handled by one of them.
func TestManyWorkers(t *testing.T) {
	t.Parallel()
	const events = 200
	pool := database(t)
	i := open(t, pool)
	for n := range events {
		_, err := i.Store(t.Context(), inbox.Event{ID: fmt.Sprint(n), Type: "mail"})
		must(t, err)
	}
	cfg := quick(effectOf)
	cfg.Workers = 6
	ctx, cancel := context.WithCancel(t.Context())
	var over sync.WaitGroup
	other := open(t, connect(t, pool.Config().ConnString()))
	over.Go(func() {
		if err := other.Work(ctx, cfg); err != nil {
			t.Error(err)
		}
	})
	workUntil(t, i, pool, cfg, nothingPending)
	cancel()
	over.Wait()
	var effects, distinct int
	must(t, pool.QueryRow(t.Context(), "SELECT count(*), count(DISTINCT id) FROM effect").Scan(&effects, &distinct))
	if effects != events || distinct != events {
		t.Errorf("%d effects, of %d different events, want %d of both", effects, distinct, events)
	}
}

// TestLongHandler: while the handler of an event runs, other workers do not find the event,
// even if it is due again.
func TestLongHandler(t *testing.T) {
	t.Parallel()
	pool := database(t)
	i := open(t, pool)
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	i.SetClock(func() time.Time { return now })
	store(t, i, inbox.Done)
	_, err := i.Round(t.Context(), quick(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		now = now.Add(time.Hour)
		if found, err := i.Round(ctx, quick(effectOf)); found || err != nil {
			t.Errorf("another worker found the event while its handler was running (%v)", err)
		}
		return effect(ctx, tx, e.ID)
	}))
	must(t, err)
	wantEffects(t, pool, "k", 1)
}

// TestSlowWorker: a worker has claimed an event, but another worker claims and handles the
// event before the first one runs its handler. The first worker then does not run its
// handler.
func TestSlowWorker(t *testing.T) {
	t.Parallel()
	pool := database(t)
	fast := open(t, pool)
	store(t, fast, inbox.Done)
	slow := open(t, pool, func(c *inbox.Config) {
		c.DB = beforeBegin{pool, func() {
			for _, later := range []time.Duration{30 * time.Second, 2 * time.Minute} { // an attempt can take a minute
				fast.SetClock(func() time.Time { return time.Now().Add(later) })
				found, err := fast.Round(t.Context(), quick(effectOf))
				if err != nil || found != (later > time.Minute) {
					t.Errorf("%v later, Round of the other worker = %v, %v; want an event only after an attempt's minute", later, found, err)
				}
			}
		}}
	})
	_, err := slow.Round(t.Context(), quick(effectOf))
	must(t, err)
	wantEffects(t, pool, "k", 1)
}

// beforeBegin calls a function at the beginning of each transaction.
type beforeBegin struct {
	*pgxpool.Pool
	hook func()
}

func (b beforeBegin) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	b.hook()
	return b.Pool.BeginTx(ctx, options)
}

// TestBackoff: the next attempt waits for the back-off, which doubles up to the maximum. This
// is also true if the failure of an attempt was not stored, as when the process ends.
func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, noted := range []bool{true, false} {
		pool := database(t)
		now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		i := open(t, pool, func(c *inbox.Config) {
			if !noted {
				c.DB = withoutNotes{pool}
			}
		})
		i.SetClock(func() time.Time { return now })
		store(t, i, inbox.Done)
		cfg := quick(func(context.Context, pgx.Tx, inbox.Event) error { return errHandler })
		cfg.Attempts, cfg.Backoff, cfg.MaxBackoff = 6, time.Minute, 6*time.Minute
		for _, wait := range []time.Duration{1, 2, 4, 6, 6} {
			wait *= time.Minute
			if found, err := i.Round(t.Context(), cfg); !found || err != nil {
				t.Fatalf("the event is not due after its back-off (%v)", err)
			}
			now = now.Add(wait - time.Second)
			if found, err := i.Round(t.Context(), cfg); found || err != nil {
				t.Errorf("the event is due a second before its back-off of %v ends (%v)", wait, err)
			}
			now = now.Add(wait/4 + 2*time.Second)
		}
	}
}

// withoutNotes is a database that cannot store that an attempt failed.
type withoutNotes struct{ *pgxpool.Pool }

func (w withoutNotes) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if strings.HasPrefix(sql, "-- fail.sql") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		cancel()
	}
	return w.Pool.QueryRow(ctx, sql, args...)
}

// TestGrace: after the context of Work has ended, handlers can continue for
// WorkConfig.Grace. After that time, their contexts end.
func TestGrace(t *testing.T) {
	t.Parallel()
	for _, patient := range []bool{true, false} {
		pool := database(t)
		i := open(t, pool)
		store(t, i, inbox.Done)
		ctx, cancel := context.WithCancel(t.Context())
		cfg := quick(func(handler context.Context, tx pgx.Tx, e inbox.Event) error {
			cancel()
			if !patient {
				<-handler.Done()
				return handler.Err()
			}
			return effect(handler, tx, e.ID)
		})
		cfg.Workers = 1 // a second worker could be claiming the next attempt when the context ends
		cfg.Grace = time.Minute
		if !patient {
			cfg.Grace = time.Millisecond
		}
		must(t, i.Work(ctx, cfg))
		want := 0
		if patient {
			want = 1
		}
		wantEffects(t, pool, "k", want)
		if !patient {
			var reason string
			must(t, pool.QueryRow(t.Context(), "SELECT reason FROM stored").Scan(&reason))
			if !strings.Contains(reason, "told to end") {
				t.Errorf("the attempt failed with the reason %q, want one with \"told to end\"", reason)
			}
		}
	}
}

// TestWorkConfig: all faults are reported at once.
func TestWorkConfig(t *testing.T) {
	t.Parallel()
	i := open(t, database(t))
	err := i.Work(t.Context(), inbox.WorkConfig{Handlers: map[string]inbox.Handler{"mail": nil}, Workers: -1, Poll: -1})
	for _, want := range []string{`Handlers["mail"]`, "Workers", "Poll"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
	if err := i.Work(t.Context(), inbox.WorkConfig{}); err == nil || !strings.Contains(err.Error(), "Handlers") {
		t.Errorf("Work without handlers: error %v, want one that names Handlers", err)
	}
}

// TestAway: while the statements of Work fail, Work logs the errors and tries again.
func TestAway(t *testing.T) {
	t.Parallel()
	pool := database(t)
	i := open(t, pool)
	store(t, i, inbox.Done)
	_, err := pool.Exec(t.Context(), "ALTER TABLE stored RENAME TO hidden")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan string, 1) // the first message
	cfg := quick(effectOf)
	cfg.Logger = slog.New(listener(func(record slog.Record) {
		select {
		case said <- record.Message:
		default:
		}
	}))
	var over sync.WaitGroup
	over.Go(func() {
		if err := i.Work(ctx, cfg); err != nil {
			t.Error(err)
		}
	})
	if message := <-said; message != "events cannot be claimed" {
		t.Errorf("Work logged %q, want \"events cannot be claimed\"", message)
	}
	_, err = pool.Exec(t.Context(), "ALTER TABLE hidden RENAME TO stored")
	must(t, err)
	waitFor(t, pool, nothingPending)
	cancel()
	over.Wait()
	wantEffects(t, pool, "k", 1)
}

// listener is a log handler that passes on each message.
type listener func(slog.Record)

func (listener) Enabled(context.Context, slog.Level) bool        { return true }
func (l listener) Handle(_ context.Context, r slog.Record) error { l(r); return nil }
func (l listener) WithAttrs([]slog.Attr) slog.Handler            { return l }
func (l listener) WithGroup(string) slog.Handler                 { return l }
