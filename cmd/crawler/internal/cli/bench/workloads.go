package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/bench/contest"
	"github.com/bloomfrontier/crawler/bench/crawl"
	"github.com/bloomfrontier/crawler/internal/bench/agenda"
	"github.com/bloomfrontier/crawler/internal/bench/fpr"
	"github.com/bloomfrontier/crawler/internal/bench/memory"
	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
	"github.com/bloomfrontier/crawler/internal/bench/speed"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// subjects are the measurements, in the order in which they run. The fields redis, bloom
// and postgres name the parts of a measurement that need a Redis, its Bloom module, or a
// Postgres. Without that server or module, these parts are left out.
var subjects = []struct {
	name                   string
	steps                  func(o *options, h *sets.Host) (*report.Section, []*agenda.Step)
	redis, bloom, postgres string // empty means no part
}{
	{name: "fpr", steps: fprSteps, redis: "redisbits and redisstore", postgres: "pgstore"},
	{name: "memory", steps: memorySteps, redis: "all that is kept in Redis", bloom: "BF.RESERVE", postgres: "all that is kept in Postgres"},
	{name: "seen", steps: seenSteps, redis: "redisbits and redisstore, SADD and BF.MADD", bloom: "BF.MADD", postgres: "pgstore"},
	{name: "frontier", steps: frontierSteps, redis: "redisstore"},
	{name: "crawl", steps: crawlSteps},
	{name: "broad", steps: broadSteps, redis: "crawls on Redis"},
}

// rates returns the false-positive rate of --fpr. Without --fpr it returns the defaults.
func (o *options) rates(defaults ...float64) []float64 {
	if o.fpr != 0 {
		return []float64{float64(o.fpr)}
	}
	return defaults
}

// fprSteps returns the steps that measure the false-positive rates of all available sets of
// seen URLs.
func fprSteps(o *options, h *sets.Host) (*report.Section, []*agenda.Step) {
	all := []fpr.Subject{fpr.Memory(), fpr.Exact(sets.Local(h.Dir), 20*time.Microsecond)}
	if h.Redis != nil {
		all = append(all, fpr.Exact(sets.RedisStore(h.SameRedis), 60*time.Microsecond), fpr.Redis(h.SameRedis))
	}
	if h.Postgres != "" {
		all = append(all, fpr.Exact(sets.Postgres(h.SamePostgres), 40*time.Microsecond))
	}
	return fpr.Steps(fpr.Config{Keys: uint64(o.keys), Seed: o.seed, Subjects: all, Rates: o.rates()})
}

// memorySteps returns the steps that measure the memory of all available stores.
func memorySteps(o *options, h *sets.Host) (*report.Section, []*agenda.Step) {
	rates := o.rates(0.01, 1e-4, 1e-6)
	all := memory.InHeap(rates)
	if h.Redis != nil {
		// Statistics that Redis keeps about commands would count as memory of the store.
		quiet := servers.RedisOptions{Config: map[string]string{"slowlog-log-slower-than": "-1", "latency-tracking": "no"}}
		all = append(all, memory.InRedis(h.AnotherRedis(quiet), rates, h.HasBloom)...)
	}
	all = append(all, memory.OnDisk(h.Dir)...)
	if h.Postgres != "" {
		all = append(all, memory.InPostgres(h.Postgres)...)
	}
	return memory.Steps(memory.Config{Keys: uint64(o.keys), Subjects: all})
}

// logged configures a Redis with an append-only file, as is recommended for crawls. The
// file is not rewritten, so its size is the number of bytes that were written.
var logged = servers.RedisOptions{AppendOnly: true, Config: map[string]string{"auto-aof-rewrite-percentage": "0"}}

// seenSteps returns the steps that measure how fast our sets and other common sets decide
// whether links are new.
func seenSteps(o *options, h *sets.Host) (*report.Section, []*agenda.Step) {
	all := []sets.Kind{sets.Memory(), sets.Local(h.Dir)}
	if h.Redis != nil {
		open := h.AnotherRedis(logged)
		all = append(all, sets.RedisFilter(open), sets.RedisStore(open), sets.RedisSet(open, false))
		if h.HasBloom {
			all = append(all, sets.RedisBloom(open))
		}
	}
	if h.Postgres != "" {
		all = append(all, sets.Postgres(h.AnotherPostgres))
	}
	return speed.Seen(speed.Config{Keys: uint64(o.keys), Sets: all})
}

// frontierSteps returns the steps that measure how fast pages are leased and completed.
func frontierSteps(o *options, h *sets.Host) (*report.Section, []*agenda.Step) {
	all := []sets.Kind{sets.Local(h.Dir)}
	if h.Redis != nil {
		all = append(all, sets.RedisStore(h.AnotherRedis(logged)))
	}
	return speed.Frontier(speed.Config{Keys: uint64(o.keys), Sets: all})
}

// crawlSteps returns the steps that measure whole crawls.
func crawlSteps(o *options, h *sets.Host) (*report.Section, []*agenda.Step) {
	return crawl.Steps(crawl.Config{Pages: uint64(o.keys), HTML: o.html, Dir: h.Dir, Program: self})
}

// broadSteps returns the steps that measure crawls of many hosts that answer late.
func broadSteps(o *options, h *sets.Host) (*report.Section, []*agenda.Step) {
	config := o.broad
	config.Dir, config.Program = h.Dir, self
	if h.Redis != nil {
		config.Redis = h.AnotherRedis(servers.RedisOptions{AppendOnly: true})
	}
	return crawl.BroadSteps(config)
}

// parts returns hidden commands. Measurements run parts of themselves in other processes
// with these commands.
func parts() []*cobra.Command {
	hidden := func(use string, run func(cmd *cobra.Command, order string) error) *cobra.Command {
		return &cobra.Command{Use: use, Hidden: true, Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd, args[0])
		}}
	}
	return []*cobra.Command{
		hidden(contest.ServeCommand, func(cmd *cobra.Command, order string) error {
			return contest.Serve(cmd.Context(), order, cmd.InOrStdin(), cmd.OutOrStdout())
		}),
		hidden(contest.LoopCommand, func(cmd *cobra.Command, order string) error {
			return contest.Obey(cmd.Context(), order, cmd.OutOrStdout(), contest.Tokenizing)
		}),
	}
}

// self returns a command that runs this program.
func self(ctx context.Context, args ...string) *exec.Cmd {
	program, err := os.Executable()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Err = errors.Join(cmd.Err, err)
	return cmd
}
