package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/bloomfrontier/crawler/events/inbox"
)

// counter is a Metrics that stores its measurements.
type counter struct {
	mu       sync.Mutex
	outcomes map[inbox.Outcome]int
	swept    int
	lag      time.Duration // the longest lag
	failures int           // errors of the cache
}

func (c *counter) Handled(outcome inbox.Outcome, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outcomes == nil {
		c.outcomes = make(map[inbox.Outcome]int)
	}
	c.outcomes[outcome]++
}

func (c *counter) Swept(deleted int, lag time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.swept, c.lag = c.swept+deleted, max(c.lag, lag)
}

func (c *counter) CacheFailed(error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures++
}

func (c *counter) want(t *testing.T, outcome inbox.Outcome, n int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outcomes[outcome] != n {
		t.Errorf("the metrics counted the outcome %q %d times, want %d", outcome, c.outcomes[outcome], n)
	}
}

// withClock returns an inbox with a window, a clock that starts in 2030, and metrics.
func withClock(t testing.TB, pool *pgxpool.Pool, window time.Duration) (*inbox.Inbox, *time.Time, *counter) {
	t.Helper()
	now, metrics := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), new(counter)
	i := open(t, pool, func(c *inbox.Config) { c.Window, c.Metrics = window, metrics })
	i.SetClock(func() time.Time { return now })
	return i, &now, metrics
}

// TestWindowOf: each kind of event has its own window, whichever call handles it, and also in the cache.
func TestWindowOf(t *testing.T) {
	t.Parallel()
	pool := database(t)
	clock := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	now := &clock
	kept := make(map[string]time.Duration)
	box := open(t, pool, func(c *inbox.Config) {
		c.Window, c.Cache = 24*time.Hour, ttls{kept}
		c.CacheTTL = 48 * time.Hour
		c.WindowOf = func(e inbox.Event) time.Duration {
			switch {
			case e.Type == "notification" || strings.HasPrefix(e.ID, "n"):
				return 15 * time.Minute
			case e.Type == "contract":
				return inbox.Forever
			}
			return 0
		}
	})
	box.SetClock(func() time.Time { return *now })
	none := func(context.Context, pgx.Tx, inbox.Event) error { return nil }
	calls := map[string]func(e inbox.Event) (inbox.Result, error){
		"OnceEvent": func(e inbox.Event) (inbox.Result, error) { return box.OnceEvent(t.Context(), e, none) },
		"Store":     func(e inbox.Event) (inbox.Result, error) { return box.Store(t.Context(), e) },
		"Bury":      func(e inbox.Event) (inbox.Result, error) { return box.Bury(t.Context(), e, errors.New("no")) },
	}
	began := *now
	for call, do := range calls {
		*now = began
		for _, kind := range []string{"notification", "payment", "contract"} {
			e := inbox.Event{ID: call + " " + kind, Type: kind}
			want := func(after time.Duration, want inbox.Result) {
				t.Helper()
				*now = began.Add(after)
				if got, err := do(e); got != want || err != nil {
					t.Errorf("%s of a %s after %v = %v, %v, want %v", call, kind, after, got, err, want)
				}
			}
			want(0, inbox.Done)
			want(14*time.Minute, inbox.Duplicate)
			for _, over := range []struct {
				kind  string
				after time.Duration
			}{{"notification", 16 * time.Minute}, {"payment", 25 * time.Hour}} {
				if kind == over.kind {
					_, err := box.Discard(t.Context())
					must(t, err)
					_, err = pool.Exec(t.Context(), "DELETE FROM "+pool.Config().ConnConfig.RuntimeParams["search_path"]+".stored")
					must(t, err)
					want(over.after, inbox.Done)
				}
			}
			if kind == "contract" {
				want(10000*time.Hour, inbox.Duplicate)
			}
		}
	}
	*now = began
	for _, c := range []struct {
		id   string
		left time.Duration
	}{{"n1", 15 * time.Minute}, {"x1", 24 * time.Hour}} {
		if got, err := box.Once(t.Context(), c.id, func(context.Context, pgx.Tx) error { return nil }); got != inbox.Done || err != nil {
			t.Errorf("Once = %v, %v", got, err)
		}
		for key, ttl := range kept {
			if strings.HasSuffix(key, c.id) && (ttl > c.left || ttl < c.left-time.Minute) {
				t.Errorf("the cache keeps %s for %v, want %v at most", c.id, ttl, c.left)
			}
		}
	}
}

// ttls is a Cache that remembers nothing but for how long it was told to.
type ttls struct{ kept map[string]time.Duration }

func (c ttls) Contains(context.Context, string) (bool, error) { return false, nil }
func (c ttls) Add(_ context.Context, key string, ttl time.Duration) error {
	c.kept[key] = ttl
	return nil
}

// TestWindow: an event is a duplicate until its window ends. Then it is new again, with or
// without a sweep.
func TestWindow(t *testing.T) {
	t.Parallel()
	for _, swept := range []bool{false, true} {
		pool := database(t)
		i, now, metrics := withClock(t, pool, time.Hour)
		deliver(t, i, inbox.Done)
		*now = now.Add(time.Hour - time.Microsecond)
		if n, err := i.SweepOnce(t.Context(), inbox.SweepConfig{}); n != 0 || err != nil {
			t.Errorf("SweepOnce within the window = %d, %v; want 0", n, err)
		}
		deliver(t, i, inbox.Duplicate)
		*now = now.Add(time.Microsecond)
		if swept {
			*now = now.Add(time.Minute)
			if stats, err := i.Stats(t.Context()); err != nil || stats.SweepLag != time.Minute || stats.SweepDue != 1 {
				t.Errorf("Stats = %+v, %v; want a lag of 1m", stats, err)
			}
			if n, err := i.SweepOnce(t.Context(), inbox.SweepConfig{}); n != 1 || err != nil {
				t.Errorf("SweepOnce = %d, %v; want 1", n, err)
			}
			if metrics.swept != 1 || metrics.lag != time.Minute {
				t.Errorf("metrics: %d marks swept with a lag of %v, want 1 with a lag of 1m", metrics.swept, metrics.lag)
			}
		}
		deliver(t, i, inbox.Done)
		deliver(t, i, inbox.Duplicate)
		metrics.want(t, inbox.OutcomeDone, 2)
		metrics.want(t, inbox.OutcomeDuplicate, 2)
	}
}

// TestExpiredRace: if ten deliveries run at the same time after the window, one of them runs
// the handler.
func TestExpiredRace(t *testing.T) {
	t.Parallel()
	pool := database(t)
	i, now, _ := withClock(t, pool, time.Hour)
	deliver(t, i, inbox.Done)
	*now = now.Add(2 * time.Hour)
	tenInParallel(t, i)
	wantEffects(t, pool, "k", 2)
}

// TestForever: marks with the window Forever are never swept. A stored event is a duplicate
// as long as it is stored, even after its window.
func TestForever(t *testing.T) {
	t.Parallel()
	pool := database(t)
	i, now, _ := withClock(t, pool, inbox.Forever)
	deliver(t, i, inbox.Done)
	*now = now.AddDate(200, 0, 0)
	if n, err := i.SweepOnce(t.Context(), inbox.SweepConfig{}); n != 0 || err != nil {
		t.Errorf("SweepOnce = %d, %v; want 0", n, err)
	}
	deliver(t, i, inbox.Duplicate)

	pool = database(t)
	i, now, _ = withClock(t, pool, time.Hour)
	store(t, i, inbox.Done)
	*now = now.Add(2 * time.Hour)
	store(t, i, inbox.Duplicate)
}

// TestSweepBatches: SweepOnce with a batch size of 100 deletes all 1005 expired marks, and
// no others. Settings with faults are refused.
func TestSweepBatches(t *testing.T) {
	t.Parallel()
	pool := database(t)
	i, now, metrics := withClock(t, pool, time.Hour)
	_, err := pool.Exec(t.Context(), `INSERT INTO seen (grp, id, expires)
		SELECT 'another', n, $1::timestamptz - n / 10 * interval '1 second' FROM generate_series(1, 1005) AS n`, *now)
	must(t, err)
	deliver(t, i, inbox.Done)
	n, err := i.SweepOnce(t.Context(), inbox.SweepConfig{Batch: 100, Share: 1})
	if n != 1005 || err != nil || metrics.swept != n {
		t.Errorf("SweepOnce = %d, %v, and the metrics counted %d; want 1005", n, err, metrics.swept)
	}
	if n, err := i.SweepOnce(t.Context(), inbox.SweepConfig{}); n != 0 || err != nil {
		t.Errorf("the second SweepOnce = %d, %v; want 0", n, err)
	}
	deliver(t, i, inbox.Duplicate)
	for _, cfg := range []inbox.SweepConfig{{Share: 2}, {Share: -1}, {Share: math.NaN()}, {Batch: -1}, {Every: -1}} {
		if err := i.Sweep(t.Context(), cfg); err == nil {
			t.Errorf("Sweep(%+v): no error", cfg)
		}
		if _, err := i.SweepOnce(t.Context(), cfg); err == nil {
			t.Errorf("SweepOnce(%+v): no error", cfg)
		}
	}
}

// TestSweepWithLocked: Sweep skips an expired mark that the transaction of a new delivery has
// locked, and does not wait for that transaction.
func TestSweepWithLocked(t *testing.T) {
	t.Parallel()
	pool := database(t)
	i, now, _ := withClock(t, pool, time.Hour)
	deliver(t, i, inbox.Done)
	*now = now.Add(2 * time.Hour)
	tx, err := pool.Begin(t.Context())
	must(t, err)
	result, err := i.Mark(t.Context(), tx, "k")
	if result != inbox.Done || err != nil {
		t.Errorf("Mark after the window = %v, %v; want done", result, err)
	}
	if n, err := i.SweepOnce(t.Context(), inbox.SweepConfig{}); n != 0 || err != nil {
		t.Errorf("SweepOnce = %d, %v; want 0: the mark is locked", n, err)
	}
	must(t, tx.Commit(t.Context()))
	deliver(t, i, inbox.Duplicate)
}

// TestMigrate: if many callers migrate at once, one of them creates the tables. A further call
// changes nothing. Prefixes are independent of each other.
func TestMigrate(t *testing.T) {
	t.Parallel()
	pool := database(t)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	mine := pool.Config().ConnConfig.RuntimeParams["search_path"]
	for _, prefix := range []string{mine + "_b.", mine + ".other_"} {
		cfg := inbox.Config{DB: pool, Group: "mail", Prefix: prefix}
		if _, err := inbox.Open(t.Context(), cfg); !errors.Is(err, inbox.ErrSchema) {
			t.Errorf("Open before Migrate: error %v, want ErrSchema", err)
		}
		var over sync.WaitGroup
		for range 4 {
			over.Go(func() {
				if version, err := inbox.Migrate(t.Context(), db, prefix); err != nil || version != 1 {
					t.Errorf("Migrate of %q = %d, %v; want 1", prefix, version, err)
				}
			})
		}
		over.Wait()
		deliver(t, open(t, pool, func(c *inbox.Config) { c.Prefix = prefix }), inbox.Done)
	}
	deliver(t, open(t, pool), inbox.Done)

	_, err := pool.Exec(t.Context(), "INSERT INTO migration (version_id, is_applied) VALUES (2, true)")
	must(t, err)
	if _, err := inbox.Open(t.Context(), configOf(pool)); !errors.Is(err, inbox.ErrSchema) {
		t.Errorf("Open of a newer schema: error %v, want ErrSchema", err)
	}
	if _, err := inbox.Migrate(t.Context(), db, mine+"."); !errors.Is(err, inbox.ErrSchema) {
		t.Errorf("Migrate of a newer schema: error %v, want ErrSchema", err)
	}
	for _, prefix := range []string{"inbox", "Inbox.", "a.b.c", "a;b.", ".", "a.B"} {
		if _, err := inbox.Migrate(t.Context(), db, prefix); err == nil {
			t.Errorf("Migrate with the prefix %q: no error", prefix)
		}
	}
}

// TestConfig: all faults are reported at once.
func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := inbox.Open(t.Context(), inbox.Config{Group: "a b", Window: -1, CacheTTL: -1, Prefix: "x"})
	for _, want := range []string{"DB", "Group", "Window", "CacheTTL", "prefix"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

// TestStatements: the server can prepare each statement, and each file has one statement.
func TestStatements(t *testing.T) {
	t.Parallel()
	pool := database(t)
	conn, err := pool.Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	statements := inbox.Statements(configOf(pool).Prefix)
	for n, text := range statements {
		if _, err := conn.Conn().Prepare(t.Context(), fmt.Sprint("statement", n), text); err != nil {
			t.Errorf("the server refuses a statement: %v\n%s", err, text)
		}
	}
	files, err := filepath.Glob("statements/*.sql")
	must(t, err)
	if len(files) != len(statements) {
		t.Errorf("%d files, but %d statements; want one in each file", len(files), len(statements))
	}
}

// TestPendingIndex: a worker finds the next event with an index scan and without a sort,
// although there are many dead letters, events of other types and events that are not due.
func TestPendingIndex(t *testing.T) {
	t.Parallel()
	pool := database(t)
	i := open(t, pool)
	store(t, i, inbox.Done)
	_, err := pool.Exec(t.Context(), `INSERT INTO stored (grp, id, type, data, stored, due, dead)
		SELECT 'mail', n, CASE WHEN n % 3 = 0 THEN 'mail.v2' ELSE 'mail' END, '', now(),
			now() + CASE WHEN n % 3 = 1 THEN 1 ELSE -1 END * interval '1 hour', CASE WHEN n % 3 = 2 THEN now() END
		FROM generate_series(1, 30000) AS n`)
	must(t, err)
	_, err = pool.Exec(t.Context(), "ANALYZE stored")
	must(t, err)
	rows, err := pool.Query(t.Context(), "EXPLAIN "+inbox.Claim(configOf(pool).Prefix), "mail", "mail", 3, 1, 1, nil, 1)
	must(t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	if text := strings.Join(plan, "\n"); !strings.Contains(text, "Index Scan using stored_grp_type_due_idx") || strings.Contains(text, "Sort") {
		t.Errorf("the plan of claim.sql does not use the index stored_grp_type_due_idx, or sorts:\n%s", text)
	}
	if found, err := i.Round(t.Context(), quick(effectOf)); !found || err != nil {
		t.Errorf("Round did not find the event that is due (%v)", err)
	}
	wantEffects(t, pool, "k", 1)
}

// TestMigrateWithoutLock: a migration succeeds although the server ends the session that has the lock,
// and no connection of the pool has the lock afterwards.
func TestMigrateWithoutLock(t *testing.T) {
	t.Parallel()
	pool := database(t)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	mine := pool.Config().ConnConfig.RuntimeParams["search_path"] + "_lost"
	_, err := pool.Exec(t.Context(), "CREATE SCHEMA "+mine)
	must(t, err)
	slow, err := pool.Begin(t.Context()) // the migration waits for this transaction
	must(t, err)
	_, err = slow.Exec(t.Context(), "CREATE TABLE "+mine+".migration (x int)")
	must(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := inbox.Migrate(t.Context(), db, mine+".")
		ended <- err
	}()
	const key = "hashtextextended('inbox ' || $1, 0)"
	const held = " FROM pg_locks WHERE locktype = 'advisory' AND (classid::bigint << 32 | objid::bigint) = " + key
	waits := "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%" + mine + ".migration%'"
	for n := 0; n == 0; time.Sleep(10 * time.Millisecond) {
		must(t, pool.QueryRow(t.Context(), waits).Scan(&n))
	}
	var killed bool
	must(t, pool.QueryRow(t.Context(), "SELECT pg_terminate_backend(pid)"+held, mine+".").Scan(&killed))
	must(t, slow.Rollback(t.Context()))
	if err := <-ended; err != nil || !killed {
		t.Errorf("Migrate = %v, session ended %t; want no error although the session ended", err, killed)
	}
	var locks int
	must(t, pool.QueryRow(t.Context(), "SELECT count(*)"+held, mine+".").Scan(&locks))
	if locks != 0 {
		t.Errorf("%d sessions still have the lock, want none", locks)
	}
}
