package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/bench/contest"
	"github.com/bloomfrontier/crawler/bench/crawl"
	"github.com/bloomfrontier/crawler/internal/bench"
	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// measure makes the measurements that args name, in this order, each with servers of its own.
func measure(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var keys human.Count
	var fpr human.Rate
	flags := flag.NewFlagSet("bench measure", flag.ContinueOnError)
	flags.Var(&keys, "n", "URLs, keys or pages of the largest measurement")
	flags.Var(&fpr, "fpr", "false-positive rate of the filters (default several)")
	crawler := flags.String("crawler", "bin/crawler", "the crawler binary")
	concurrency := flags.String("concurrency", "", "broad, mix: hosts asked at once, as in 64,1000,auto (default 64,1000,4000)")
	each := flags.Duration("each", 0, "broad, mix: time of each crawl, shorter if -budget is too small (default 15s)")
	coreHour := flags.Float64("core-hour", 0, "mix: price of a core for an hour, in dollars (default 0.02)")
	more := flags.String("flags", "", "mix: further flags of the crawler, separated by spaces")
	tls := flags.Bool("tls", false, "broad: crawl over TLS, too")
	budget := flags.Duration("budget", 5*time.Minute, "time that all of it may take")
	dir := flags.String("report", "", "write report.json and RESULTS.md into this folder")
	seed := flags.Uint64("seed", rand.Uint64()>>1, "of the random keys")
	if err := flags.Parse(args); err != nil {
		return err
	}
	names := append(slices.Clone(bench.Names), "crawl", "broad", "mix")
	for _, name := range flags.Args() {
		if !slices.Contains(names, name) {
			return fmt.Errorf("measure: want %s, not %q", strings.Join(names, ", "), name)
		}
	}
	build, _ := debug.ReadBuildInfo() // a program that the go command built has it
	r := report.New("bench measure "+strings.Join(args, " "), build.Main.Version, *budget, *seed)
	product := contest.Binary(*crawler)
	for _, name := range flags.Args() {
		config, stop, err := start(ctx, name)
		if err != nil {
			return err
		}
		defer stop()
		config.Keys, config.FPR, config.Seed = uint64(keys), float64(fpr), *seed
		b, err := bench.Open(ctx, config)
		if err != nil {
			return err
		}
		defer b.Close()
		r.Servers = b.Servers
		switch name {
		case "crawl":
			r.Sections = append(r.Sections, crawl.Section(crawl.Config{
				Pages: uint64(keys), Dir: b.Dir, Self: contest.Self, Crawler: product}))
		case "broad":
			c := crawl.BroadConfig{Time: *each, TLS: *tls, Dir: b.Dir, Self: contest.Self, Crawler: product, Redis: b.Server}
			if *concurrency != "" {
				c.Concurrency = strings.Split(*concurrency, ",")
			}
			r.Sections = append(r.Sections, crawl.BroadSection(c))
		case "mix":
			c := crawl.MixConfig{CoreHour: *coreHour, More: strings.Fields(*more),
				BroadConfig: crawl.BroadConfig{Time: *each, Dir: b.Dir, Self: contest.Self, Crawler: product, Redis: b.Server}}
			if *concurrency != "" {
				c.Concurrency = strings.Split(*concurrency, ",")
			}
			r.Sections = append(r.Sections, crawl.MixSection(c))
		default:
			r.Sections = append(r.Sections, b.Sections(name)...)
		}
	}
	return bench.Run(ctx, r, *dir, false, stdout, stderr)
}

// start starts the servers of a measurement, and returns their URLs. A server whose program is
// not installed is left out. The Postgres syncs each commit, as a crawl requires. The Redis has
// an append-only file, as is recommended for crawls, but not when its memory is measured: then it
// also keeps no statistics, which would count. The file is not rewritten, so its size is the
// number of bytes that were written.
func start(ctx context.Context, name string) (config bench.Config, stop func(), err error) {
	options := servers.RedisOptions{AppendOnly: true, Config: map[string]string{"auto-aof-rewrite-percentage": "0"}}
	if name == "memory" || name == "fpr" {
		options = servers.RedisOptions{Config: map[string]string{"slowlog-log-slower-than": "-1", "latency-tracking": "no"}}
	}
	var closers []func() error
	stop = func() {
		for _, end := range closers {
			_ = end()
		}
	}
	redis, err := servers.StartRedis(ctx, options)
	if err == nil {
		config.Redis, closers = redis.URL(), append(closers, redis.Close)
	} else if !errors.Is(err, servers.ErrMissing) {
		return config, stop, err
	}
	postgres, err := servers.StartPostgres(ctx, servers.PostgresOptions{FSync: true})
	if err == nil {
		config.Postgres, closers = postgres.DSN(), append(closers, postgres.Close)
	} else if !errors.Is(err, servers.ErrMissing) {
		stop()
		return config, func() {}, err
	}
	return config, stop, nil
}
