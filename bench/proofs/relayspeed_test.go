package proofs

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// TestRelaySpeed measures how much records in Postgres, and a relay that reads them, slow
// down a crawl. It runs two workers in three ways: with records in files, with records in
// Postgres, and with records in Postgres while a relay reads and prints them. The three kinds
// of runs take turns, five times. The test checks no limit, because a rate is not a promise.
func TestRelaySpeed(t *testing.T) {
	if !*proof {
		t.Skip("measures a rate, only with -proof")
	}
	cfg := testweb.Config{Seed: newSeed(t), Hosts: 400, Pages: 40_000, Hardships: testweb.None, LargestShare: 0.01}
	var table, relay []float64
	for range 5 {
		files := outboxRate(t, cfg, "jsonl", false)
		rows := outboxRate(t, cfg, "postgres", false)
		table = append(table, rows/files)
		relay = append(relay, outboxRate(t, cfg, "postgres", true)/rows)
	}
	slices.Sort(table)
	slices.Sort(relay)
	figure(t, "table", "with a table %.2f of the page rate with files (median of %.2f)", table[len(table)/2], table)
	figure(t, "relay", "with a relay %.2f of the page rate without one (median of %.2f)", relay[len(relay)/2], relay)
}

func outboxRate(t *testing.T, cfg testweb.Config, sink string, relay bool) float64 {
	web := serveSite(t, cfg, nil)
	queue := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	database := servers.Postgres(t, servers.PostgresOptions{FSync: true})
	m := newTeam(t, queue.URL(), rand.New(rand.NewPCG(cfg.Seed, 28)), append(speedFlags(web), "--sink", sink)...)
	m.name = append(m.name, "--postgres", database.DSN())
	ctx, cancel := context.WithCancel(t.Context())
	var printed lineCount
	var relaying sync.WaitGroup
	if relay {
		relaying.Go(func() {
			for ctx.Err() == nil { // the relay ends at once as long as there is no crawl
				cmd := exec.CommandContext(ctx, m.bin, slices.Concat([]string{"relay", "--to", "-", "--relay", "speed"}, m.name)...)
				cmd.Stdout = &printed
				_ = cmd.Run()
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	m.run(2)
	cancel()
	relaying.Wait()
	checkOnce(t, web)
	if relay && int(printed) < cfg.Pages/2 {
		t.Errorf("the relay had printed %d of %d events when the crawl ended, want at least half, or its cost was not measured", printed, cfg.Pages)
	}
	return pageRate(web)
}

type lineCount int

func (n *lineCount) Write(text []byte) (int, error) {
	*n += lineCount(bytes.Count(text, []byte("\n")))
	return len(text), nil
}
