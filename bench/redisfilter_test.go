package main

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/redisbits"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/sizing"
)

var filterKeys = flag.Uint64("filter.keys", 100_000, "keys of BenchmarkRedisFilter")

// BenchmarkRedisFilter fills a filter in a Redis that has an append-only file (the log). The
// error rate p of the filter is one in a million. The benchmark then probes the filter with
// new keys: as many as were added, but at least a million and at most 100/p. At the end it
// restarts the server twice: first with the unchanged log, then with a log that was just
// rewritten. It reports keys/s, the errors in a million probes with their 95 % interval,
// and for each restart its time and the size of the log. `crawler bench memory` measures
// the memory of the filter. Command for a long run:
//
//	go -C bench test -run '^$' -bench RedisFilter -benchtime 1x -timeout 0 -filter.keys 100000000
//
// For the embedded store, BenchmarkRestart of package localstore measures restarts.
func BenchmarkRedisFilter(b *testing.B) {
	for b.Loop() {
		redisFilter(b, *filterKeys)
	}
}

func redisFilter(b *testing.B, n uint64) {
	const p = 1e-6
	server := servers.Redis(b, servers.RedisOptions{AppendOnly: true})
	config := redisbits.Config{Name: "long", Capacity: n, FPR: p}
	filter := openFilter(b, server, config)

	began := time.Now()
	var group errgroup.Group
	for i := range uint64(fillers) {
		group.Go(func() error {
			_, err := bloomrate.Fill(b.Context(), filter, drawn(i), n/fillers)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(n)/time.Since(began).Seconds(), "keys/s")

	probes := min(uint64(100/p), max(n, 1_000_000))
	claimed, err := bloomrate.Probe(b.Context(), filter, drawn(fillers), probes)
	if err != nil {
		b.Fatal(err)
	}
	lo, hi := sizing.Interval(claimed, probes)
	b.ReportMetric(float64(claimed)/float64(probes)*1e6, "errors/M")
	b.ReportMetric(lo*1e6, "errors/M-low")
	b.ReportMetric(hi*1e6, "errors/M-high")

	restart(b, server, "asis")
	rewriteLog(b, server)
	restart(b, server, "rewritten")
	const sample = 10_000
	asked := min(n/fillers, sample)
	known, err := bloomrate.Probe(b.Context(), openFilter(b, server, config), drawn(0), asked)
	if err != nil || known != asked {
		b.Fatalf("after the restarts, %d of %d keys are known, want all (%v)", known, asked, err)
	}
}

// fillers is the number of concurrent callers that fill the filter.
const fillers = 4

// drawn returns random keys, which depend only on the seed.
func drawn(seed uint64) bloomrate.Keys { return bloomrate.RandomKeys(rand.New(rand.NewPCG(seed, 0))) }

// openFilter opens or creates the filter. It uses a new client, because server.Client does
// not work after a restart.
func openFilter(b *testing.B, server *servers.RedisServer, config redisbits.Config) bloomstore.Filter {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: server.Socket(), ReadTimeout: time.Minute})
	b.Cleanup(func() { _ = client.Close() })
	filter, err := redisbits.Open(b.Context(), client, config)
	if err != nil {
		b.Fatal(err)
	}
	return filter
}

// restart stops the server gracefully, and reports the time from its new start to its
// first answer.
func restart(b *testing.B, server *servers.RedisServer, what string) {
	size, err := server.AOFSize()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if err := server.Restart(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(time.Since(began).Seconds(), "s/start-"+what)
	b.ReportMetric(float64(size)/1e6, "MB-log-"+what)
}

// rewriteLog makes the server rewrite its log, and waits for the end of the rewriting.
func rewriteLog(b *testing.B, server *servers.RedisServer) {
	if err := server.Client().BgRewriteAOF(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
	for {
		running, err := server.Info("persistence", "aof_rewrite_in_progress")
		if err != nil {
			b.Fatal(err)
		}
		scheduled, err := server.Info("persistence", "aof_rewrite_scheduled")
		if err != nil {
			b.Fatal(err)
		}
		if running == "0" && scheduled == "0" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
