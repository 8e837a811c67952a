// Package bench is the subcommand `crawler bench`: it measures filters and stores
// on this machine, and compares them with the predictions of `crawler size`.
//
// It owns the command's flags. The packages in the folder internal/bench of this module make
// the measurements and the report.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/bench"
	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/human"
)

// options are the flags of the command.
type options struct {
	redis    string
	postgres string
	keys     human.Count
	fpr      human.Rate
	dir      string
	budget   time.Duration
	seed     uint64
	json     bool

	version string
}

// Command returns the command with its flags. The argument version is the version of the
// program.
func Command(version string) *cobra.Command {
	o := &options{version: version}
	command := &cobra.Command{
		Use:   "bench [" + strings.Join(bench.Names, "|") + "]...",
		Short: "Measure filters and stores on this machine",
		Long: `crawler bench measures on this machine how often the filters err and what the
stores cost, and compares it with what crawler size calculates. It measures the
Redis and the Postgres that flags name, and lists what it leaves out without them.

The exit code is 1 if a promise does not hold. After Ctrl-C the report contains
what was measured until then.`,
		Example: `  crawler bench                                  all that needs no server, in five minutes
  crawler bench fpr --n 10M --budget 1h
  crawler bench --redis redis://10.0.0.5:6379/3 --report out`,
		Args: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				if !slices.Contains(bench.Names, name) {
					return fmt.Errorf("%q is nothing to measure, want %s", name, strings.Join(bench.Names, ", "))
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = bench.Names
			}
			return o.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgs: bench.Names,
	}
	o.addTo(command.Flags())
	return command
}

func (o *options) addTo(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.redis, "redis", "", "measure in the Redis of this `URL`, which nothing else should use meanwhile")
	restrict.Check(f, "redis", checkRedis)
	f.StringVar(&o.postgres, "postgres", "", "measure in the Postgres of this `URL`, which gets the schema crawler")
	restrict.Check(f, "postgres", func(text string) error { return (&crawl.Postgres{URL: text}).Validate() })
	f.Var(&o.keys, "n", "URLs or keys of the largest measurement (default 1M; fpr: keys of each set, 250k or 25k)")
	restrict.Within(f, "n", &o.keys, minKeys, maxKeys, "a whole number from 1000 to 10G, such as 250k or 1M")
	f.Var(&o.fpr, "fpr", "false-positive rate of the filters (default several)")
	restrict.Within(f, "fpr", &o.fpr, minFPR, 1, "a probability from 1e-12 to 0.99, such as 1e-6, 0.1% or '1 in 1000000'")
	restrict.Number(f, &o.budget, "budget", 5*time.Minute, "time that all of it may take; the report says where it ended the run", 1, math.MaxInt64, "a time of more than 0 with its unit, such as 5m or 90s")
	f.StringVar(&o.dir, "report", "", "write report.json and RESULTS.md into `DIR`")
	f.Uint64Var(&o.seed, "seed", 0, "use the same random keys as an earlier run (default new keys each time)")
	f.BoolVar(&o.json, "json", false, "print JSON")
}

func checkRedis(text string) error {
	options, err := redisstore.ParseURL(text)
	if err != nil {
		return fmt.Errorf("want redis://[USER:PASSWORD@]HOST[:PORT], rediss:// with TLS or unix:///PATH: %w", err)
	}
	if len(options.Addrs) > 1 || options.MasterName != "" {
		return errors.New("want a single server, not a cluster or Sentinels")
	}
	return nil
}

// Bounds of --n and --fpr.
const (
	minKeys = 1000           // fewer keys show nothing
	maxKeys = 10_000_000_000 // more keys do not fit into the memory of a machine
	minFPR  = 1e-12          // filters with a smaller rate cannot be made
)

// run measures, and prints the report.
func (o *options) run(ctx context.Context, chosen []string, out, progress io.Writer) (err error) {
	if o.seed == 0 {
		o.seed = rand.Uint64() >> 1
	}
	r := report.New(o.line(chosen), o.version, o.budget, o.seed)
	b, err := bench.Open(ctx, bench.Config{Redis: o.redis, Postgres: o.postgres, Keys: uint64(o.keys), FPR: float64(o.fpr), Seed: o.seed})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	r.Servers = b.Servers
	for _, name := range chosen {
		r.Sections = append(r.Sections, b.Sections(name)...)
	}
	return bench.Run(ctx, r, o.dir, o.json, out, progress)
}

// line returns the command line of this run, without secrets.
func (o *options) line(chosen []string) string {
	line := append([]string{"crawler", "bench"}, chosen...)
	if o.redis != "" {
		line = append(line, "--redis", (&crawl.Redis{URL: o.redis}).Where())
	}
	if o.postgres != "" {
		line = append(line, "--postgres", (&crawl.Postgres{URL: o.postgres}).Where())
	}
	for _, flag := range [][2]string{{"--n", o.keys.String()}, {"--fpr", o.fpr.String()}, {"--budget", o.budget.String()}, {"--seed", fmt.Sprint(o.seed)}, {"--report", o.dir}} {
		if flag[1] != "" {
			line = append(line, flag[:]...)
		}
	}
	return strings.Join(line, " ")
}
