package inbox_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// size returns the size of a test. It is full with -args -proof, and small otherwise.
func size(small, full int) int {
	if *proof {
		return full
	}
	return small
}

// BenchmarkOnce measures deliveries of new events and of repeated events in three ways: with
// Once, with Once and a cache, and with the usual hand-written statement (naiveMark) in place
// of Once. With -cpu 8, eight deliveries are under way at a time.
func BenchmarkOnce(b *testing.B) {
	server := servers.Postgres(b, servers.PostgresOptions{FSync: true})
	pool := prepare(b, server.DSN())
	_, err := pool.Exec(b.Context(), "CREATE TABLE mark (id text PRIMARY KEY); INSERT INTO mark VALUES ('k')")
	must(b, err)
	plain := open(b, pool)
	cached := open(b, pool, func(c *inbox.Config) { c.Cache = cacheOf(b, servers.Redis(b, servers.RedisOptions{})) })
	bare := func(ctx context.Context, id string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, naiveMark, id)
			if err != nil || tag.RowsAffected() == 0 {
				return err
			}
			return effect(ctx, tx, id)
		})
	}
	once := func(i *inbox.Inbox) func(context.Context, string) error {
		return func(ctx context.Context, id string) error {
			_, err := i.Once(ctx, id, func(ctx context.Context, tx pgx.Tx) error { return effect(ctx, tx, id) })
			return err
		}
	}
	must(b, once(plain)(b.Context(), "k"))
	must(b, once(cached)(b.Context(), "k")) // a duplicate, which warms the cache
	var next atomic.Int64
	for _, way := range []struct {
		name string
		call func(ctx context.Context, id string) error
	}{{"bare", bare}, {"once", once(plain)}, {"cached", once(cached)}} {
		for _, repeat := range []bool{false, true} {
			b.Run(fmt.Sprintf("way=%s/repeated=%v", way.name, repeat), func(b *testing.B) {
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						id := "k"
						if !repeat {
							id = fmt.Sprint(next.Add(1))
						}
						if err := way.call(b.Context(), id); err != nil {
							b.Error(err)
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}

// BenchmarkWork measures events from Store to the end of their handlers.
func BenchmarkWork(b *testing.B) {
	server := servers.Postgres(b, servers.PostgresOptions{FSync: true})
	pool := prepare(b, server.DSN())
	i := open(b, pool)
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	ctx, cancel := context.WithCancel(b.Context())
	cfg := inbox.WorkConfig{Workers: 8, Poll: time.Millisecond, Handlers: map[string]inbox.Handler{"mail": func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		if left.Add(-1) == 0 {
			cancel()
		}
		return effectOf(ctx, tx, e)
	}}}
	var over sync.WaitGroup
	over.Go(func() { must(b, i.Work(ctx, cfg)) })
	for n := range b.N {
		_, err := i.Store(b.Context(), inbox.Event{ID: fmt.Sprint(n), Type: "mail"})
		must(b, err)
	}
	over.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// TestMemoryIsFlat: Work uses no more memory for many pending events than for few. At full
// size there are a million pending events. The time is only logged.
func TestMemoryIsFlat(t *testing.T) {
	const events = 400
	measure := func(pending int) (peak uint64, took time.Duration) {
		pool := database(t)
		_, err := pool.Exec(t.Context(), `INSERT INTO stored (grp, id, type, data, stored, due)
			SELECT 'mail', n, 'mail', repeat('x', 500)::bytea, now(), now() - n * interval '1 microsecond'
			FROM generate_series(1, $1) AS n`, pending)
		must(t, err)
		_, err = pool.Exec(t.Context(), "ANALYZE stored")
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var handled atomic.Int64
		var mu sync.Mutex
		cfg := quick(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
			switch n := handled.Add(1); {
			case n == events:
				cancel()
			case n%50 == 0:
				mu.Lock()
				defer mu.Unlock()
				var memory runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&memory)
				peak = max(peak, memory.HeapAlloc)
			}
			return effectOf(ctx, tx, e)
		})
		started := time.Now()
		must(t, open(t, pool).Work(ctx, cfg))
		return peak, time.Since(started)
	}
	few, quickly := measure(2 * events)
	many, slowly := measure(size(20_000, 1_000_000))
	t.Logf("heap %.2f MB with few pending events, %.2f MB with many; it took %v and %v to handle %d of them",
		float64(few)/1e6, float64(many)/1e6, quickly, slowly, events)
	if many > few+1e6 {
		t.Errorf("the heap has %d bytes with few pending events and %d bytes with many, want at most 1 MB more", few, many)
	}
}

// TestSweepLatency: while expired marks are swept, the 99th percentile of the time of Once
// is at most twice as high as without a sweep. The sweep is paused repeatedly, so that
// other load of the machine affects both measurements. At full size ten million marks
// expire. The small size does not check the time.
func TestSweepLatency(t *testing.T) {
	marks, slice := size(20_000, 10_000_000), time.Duration(size(100, 2_000))*time.Millisecond
	pool := database(t)
	for _, statement := range []string{ // with so many random keys, building the indexes last is faster
		"ALTER TABLE seen DROP CONSTRAINT seen_pkey", "DROP INDEX seen_expires_idx",
		fmt.Sprintf(`INSERT INTO seen (grp, id, expires)
			SELECT 'another', md5(n::text), now() - n * interval '1 millisecond' FROM generate_series(1, %d) AS n`, marks),
		"ALTER TABLE seen ADD PRIMARY KEY (grp, id)", "CREATE INDEX ON seen (expires) WHERE expires IS NOT NULL",
		"VACUUM ANALYZE seen",
	} {
		_, err := pool.Exec(t.Context(), statement)
		must(t, err)
	}
	metrics := new(pausing)
	i := open(t, pool, func(c *inbox.Config) { c.Metrics = metrics })
	ctx, cancel := context.WithCancel(t.Context())
	var sweep sync.WaitGroup
	var over atomic.Bool
	metrics.pause.Lock()
	sweep.Go(func() {
		if _, err := i.SweepOnce(ctx, inbox.SweepConfig{}); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		over.Store(true)
	})
	var without, with []time.Duration
	var took time.Duration
	next := 0
	for inTime(t) && !over.Load() {
		without = append(without, latencies(t, i, &next, slice)...)
		metrics.pause.Unlock()
		started := time.Now()
		for time.Since(started) < 5*slice && !over.Load() {
			with = append(with, latencies(t, i, &next, slice/4)...)
		}
		took += time.Since(started)
		metrics.pause.Lock()
	}
	metrics.pause.Unlock()
	cancel()
	sweep.Wait()
	var left int
	must(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM seen WHERE grp = 'another'").Scan(&left))
	if inTime(t) && left > 0 {
		t.Errorf("%d expired marks are left after the sweep, want 0", left)
	}
	before, during := percentile(without), percentile(with)
	t.Logf("the 99th percentile of Once is %v, and %v while %d of %d marks are swept in %v (%d calls without a sweep, %d with one)",
		before, during, metrics.swept, marks, took, len(without), len(with))
	if *proof && during > 2*before {
		t.Errorf("the 99th percentile of Once is %v during a sweep, want at most twice the %v without one", during, before)
	}
}

// pausing makes a sweep wait after each batch as long as a test holds the lock.
type pausing struct {
	counter
	pause sync.Mutex
}

func (p *pausing) Swept(deleted int, lag time.Duration) {
	p.pause.Lock()
	defer p.pause.Unlock()
	p.counter.Swept(deleted, lag)
}

// inTime reports whether the test has more than a minute left. When it returns false, the
// test ends the sweep, even if expired marks are left.
func inTime(t *testing.T) bool {
	deadline, limited := t.Deadline()
	return !limited || time.Until(deadline) > time.Minute
}

// latencies calls Once from two goroutines for some time.
func latencies(t *testing.T, i *inbox.Inbox, next *int, d time.Duration) (all []time.Duration) {
	var mu sync.Mutex
	var over sync.WaitGroup
	for end := time.Now().Add(d); len(all) == 0; {
		for range 2 {
			over.Go(func() {
				for time.Now().Before(end) {
					mu.Lock()
					*next++
					id := fmt.Sprint(*next)
					mu.Unlock()
					started := time.Now()
					_, err := i.Once(t.Context(), id, func(ctx context.Context, tx pgx.Tx) error { return effect(ctx, tx, id) })
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					all = append(all, time.Since(started))
					mu.Unlock()
				}
			})
		}
		over.Wait()
	}
	return all
}

// percentile returns the 99th percentile.
func percentile(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)*99/100]
}
