package pgstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// BenchmarkBytes takes keys through their states. At any time, a tenth of the keys wait. The
// keys are finished in random order. BenchmarkBytes reports how many bytes a key takes in
// tables and indexes, and in the write-ahead log.
func BenchmarkBytes(b *testing.B) {
	sizes := []int{1_000_000}
	if *proof {
		sizes = append(sizes, 10_000_000)
	}
	server := servers.Postgres(b, servers.PostgresOptions{Config: map[string]string{
		"full_page_writes": "on", "max_wal_size": "4GB", "shared_buffers": "256MB", "autovacuum_naptime": "5s", "autovacuum_vacuum_cost_delay": "0",
	}})
	for _, n := range sizes {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			for b.Loop() {
				cfg := anyCrawl(server.DSN())
				set := open(b, cfg)
				const wal = "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"
				before := query[float64](b, cfg.DSN, wal)
				live(b, set, n, n/10)
				b.ReportMetric((query[float64](b, cfg.DSN, wal)-before)/float64(n), "WAL-B/key")
				b.ReportMetric(bytesOf(b, cfg, "exact_waiting", "exact_pending")/float64(n/10), "B/waiting-key")
				b.ReportMetric(bytesOf(b, cfg, "exact_key")/float64(n), "B/key")
				set.Close()
				must(b, pgstore.Delete(b.Context(), cfg))
			}
		})
	}
}

// bytesOf returns the size on disk of tables of a crawl and their indexes.
func bytesOf(b *testing.B, cfg pgstore.Config, templates ...string) (sum float64) {
	for _, template := range templates {
		sum += query[float64](b, cfg.DSN, fmt.Sprintf("SELECT pg_total_relation_size('%s')", table(b, cfg, template)))
	}
	return sum
}

// live takes n keys through their states, with the given number of keys waiting at any time.
func live(b *testing.B, set *pgstore.Store, n, waiting int) {
	const size = 500
	r := rand.New(rand.NewPCG(1, 1))
	var queue []exact.Key
	finish := func() {
		batch := queue[:min(size, len(queue))]
		for i := range batch { // any of the waiting keys
			j := i + r.IntN(len(queue)-i)
			queue[i], queue[j] = queue[j], queue[i]
		}
		must(b, set.Finish(b.Context(), finishedOK(0, batch...), nil))
		queue = queue[len(batch):]
	}
	for from := 0; from < n; from += size {
		batch := keys(from, from+size)
		_, err := set.Decide(b.Context(), batch)
		must(b, err)
		must(b, set.Queued(b.Context(), refs(0, batch...)))
		if queue = append(queue, batch...); len(queue) > waiting {
			finish()
		}
	}
	for len(queue) > 0 {
		finish()
	}
}
