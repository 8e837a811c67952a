package pgstore_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// table returns the name of a crawl's own table.
func table(t testing.TB, cfg pgstore.Config, template string) string {
	id := query[int](t, cfg.DSN, "SELECT id FROM crawler.crawl WHERE name = $1", cfg.Crawl)
	return fmt.Sprintf("crawler.%s_%d", template, id)
}

// fill stores the first n keys in a crawl's table as done. A key has a window if it counts as
// seen only for some time. If window is set, each key gets a window that ended an hour ago.
func fill(t testing.TB, cfg pgstore.Config, n int, window bool) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), cfg.DSN)
	must(t, err)
	defer conn.Close(t.Context())
	var expires *time.Time
	if window {
		over := time.Now().Add(-time.Hour)
		expires = &over
	}
	next := 0
	name := pgx.Identifier{"crawler", table(t, cfg, "exact_key")[len("crawler."):]}
	_, err = conn.CopyFrom(t.Context(), name, []string{"fingerprint", "expires", "round", "http", "class", "outcome"},
		pgx.CopyFromFunc(func() ([]any, error) {
			if next == n {
				return nil, nil
			}
			next++
			return []any{[16]byte(key(next - 1).Fingerprint), expires, int32(0), int16(200), "1", "o"}, nil
		}))
	must(t, err)
	execute(t, cfg.DSN, "VACUUM ANALYZE "+table(t, cfg, "exact_key"), "CHECKPOINT")
}

// BenchmarkDecide calls Decide with batches of known and new keys, on one connection, in a
// table with a million rows, with fsync as in production.
func BenchmarkDecide(b *testing.B) {
	const rows, size = 1_000_000, 500
	server := servers.Postgres(b, servers.PostgresOptions{FSync: true, Config: map[string]string{"shared_buffers": "256MB", "max_wal_size": "4GB"}})
	cfg := anyCrawl(server.DSN())
	cfg.MaxConns = 1
	set := open(b, cfg)
	fill(b, cfg, rows, false)
	backend := query[int](b, cfg.DSN, "SELECT pid FROM pg_stat_activity WHERE application_name = 'crawler'")
	next := rows
	for _, known := range []int{100, 90, 0} {
		b.Run(fmt.Sprintf("known=%d%%/batch=%d", known, size), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			before := processorTime(b, backend)
			for b.Loop() {
				b.StopTimer()
				batch := make([]exact.Key, size)
				for i := range batch {
					if i*100 < known*size {
						batch[i] = key(r.IntN(rows))
					} else {
						batch[i] = key(next)
						next++
					}
				}
				r.Shuffle(size, func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
				b.StartTimer()
				if _, err := set.Decide(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "verdicts/s")
			b.ReportMetric(float64((processorTime(b, backend)-before).Nanoseconds())/1000/float64(b.N*size), "server-µs/verdict")
		})
	}
}

// processorTime returns the processor time of a process, or 0 if it is unknown. All other
// figures depend on what else the machine does.
func processorTime(b *testing.B, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	var user, system int
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	must(b, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// BenchmarkLife takes batches of keys through all states: with Decide, Queued and Finish.
func BenchmarkLife(b *testing.B) {
	const size = 500
	server := servers.Postgres(b, servers.PostgresOptions{FSync: true, Config: map[string]string{"shared_buffers": "256MB", "max_wal_size": "4GB"}})
	set := open(b, anyCrawl(server.DSN()))
	next := 0
	for b.Loop() {
		batch := keys(next, next+size)
		next += size
		if _, err := set.Decide(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		must(b, set.Queued(b.Context(), refs(0, batch...)))
		must(b, set.Finish(b.Context(), finishedOK(0, batch...), nil))
	}
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "keys/s")
}

// BenchmarkSweep measures how long the Decide calls of eight workers take, first for 10 s
// without Sweep, and then while Sweep deletes a million keys. It reports both durations and
// their ratio.
func BenchmarkSweep(b *testing.B) {
	const rows, workers, size = 1_000_000, 8, 100
	server := servers.Postgres(b, servers.PostgresOptions{FSync: true, Config: map[string]string{"shared_buffers": "256MB", "max_wal_size": "4GB"}})
	for b.Loop() {
		cfg := anyCrawl(server.DSN())
		cfg.MaxConns = workers + 1
		cfg.Windows[frontier.Exact] = time.Hour
		set := open(b, cfg)
		fill(b, cfg, rows, true)
		quiet := decideWhile(b, set, workers, size, rows, func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
		})
		swept, calls, began := 0, 0, time.Now()
		busy := decideWhile(b, set, workers, size, 10*rows, func(ctx context.Context) {
			for swept < rows && ctx.Err() == nil {
				n, _, err := set.Sweep(ctx, 1000)
				if err != nil {
					b.Error(err)
					return
				}
				swept, calls = swept+n, calls+1
			}
		})
		b.ReportMetric(float64(swept)/time.Since(began).Seconds(), "swept/s")
		b.ReportMetric(float64(quiet.Microseconds())/1000, "quiet-p99-ms")
		b.ReportMetric(float64(busy.Microseconds())/1000, "busy-p99-ms")
		b.ReportMetric(float64(busy)/float64(quiet), "busy/quiet")
		b.Logf("%d keys swept in %d calls", swept, calls)
	}
}

// decideWhile lets workers call Decide with new keys until operation returns. The keys have
// numbers of at least from. It returns the 99th percentile of the duration of the calls.
func decideWhile(b *testing.B, set *pgstore.Store, workers, size, from int, operation func(context.Context)) time.Duration {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var mu sync.Mutex
	var took []time.Duration
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for next := from + w*1_000_000; ctx.Err() == nil; next += size {
				batch := keys(next, next+size)
				began := time.Now()
				if _, err := set.Decide(ctx, batch); err != nil && ctx.Err() == nil {
					b.Error(err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	operation(ctx)
	cancel()
	group.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
}

// BenchmarkRecords stores records in batches: in a table with an empty column xid and no index
// on this column (bare), in the normal table (outbox), and in the normal table with events for
// change data capture (cdc).
func BenchmarkRecords(b *testing.B) {
	const size, text = 200, `{"url":%q,"fingerprint":"%x","host":"www.example.org","outcome":"ok","status":200,"depth":3,"title":"%0400d"}`
	server := servers.Postgres(b, servers.PostgresOptions{FSync: true, Config: map[string]string{"max_wal_size": "4GB"}})
	next := 0
	batch := func() (rows []exact.Row) {
		for range size {
			row := record(key(next), 0, "")
			row.Record = fmt.Appendf(nil, text, row.URL, row.Fingerprint, next)
			rows = append(rows, row)
			next++
		}
		return rows
	}
	for _, kind := range []string{"bare", "outbox", "cdc"} {
		b.Run(kind, func(b *testing.B) {
			cfg := anyCrawl(server.DSN())
			cfg.MaxConns = 1
			cfg.Capture = kind == "cdc"
			set := open(b, cfg)
			if kind == "bare" { // the same statement, but xid stays empty and has no index
				execute(b, cfg.DSN, fmt.Sprintf("ALTER TABLE %s ALTER COLUMN xid DROP NOT NULL, ALTER COLUMN xid DROP DEFAULT", table(b, cfg, "record")),
					fmt.Sprintf("DROP INDEX %s_xid_sequence_idx", table(b, cfg, "record")))
			}
			backend := query[int](b, cfg.DSN, "SELECT max(pid) FROM pg_stat_activity WHERE application_name = 'crawler'")
			before := processorTime(b, backend)
			for b.Loop() {
				b.StopTimer()
				rows := batch()
				b.StartTimer()
				must(b, set.Finish(b.Context(), nil, rows))
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64((processorTime(b, backend)-before).Nanoseconds())/1000/float64(b.N*size), "server-µs/record")
			set.Close()
		})
	}
}
