// Package bench is the subcommand `crawler bench`: it measures filters and stores
// on this machine, and compares them with the predictions of `crawler size`.
//
// It owns the command's flags and the display. The packages in the folder bench of this
// module contain the measurements, the measured servers and the form of the report.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	benchcrawl "github.com/bloomfrontier/crawler/bench/crawl"
	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/bench/agenda"
	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
	"github.com/bloomfrontier/crawler/internal/human"
)

// options are the flags of the command.
type options struct {
	redis    string
	postgres string
	keys     human.Count
	fpr      human.Rate
	html     string
	broad    benchcrawl.BroadConfig // Dir, Program and Redis are not set
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
	var chosen []string
	command := &cobra.Command{
		Use:   "bench [" + strings.Join(names(), "|") + "|all]...",
		Short: "Measure filters and stores on this machine",
		Long: `crawler bench measures on this machine how often the filters err and what the
stores cost, and compares it with what crawler size calculates. If no flag names a
server and its program is installed, crawler bench starts one. It lists the
measurements that it cannot make.

The exit code is 1 if a promise does not hold. After Ctrl-C the report contains
what was measured until then.`,
		Example: `  crawler bench                                  all there is, in five minutes
  crawler bench fpr --n 10M --budget 1h
  crawler bench broad --concurrency 1000,4000 --tls --each 40s --budget 20m
  crawler bench --redis redis://10.0.0.5:6379/3 --report out`,
		Args: func(_ *cobra.Command, args []string) (err error) {
			chosen, err = choose(args)
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), chosen, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgs: append(names(), "all"),
	}
	o.addTo(command.Flags())
	command.AddCommand(parts()...)
	return command
}

func (o *options) addTo(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.redis, "redis", "", "measure in the Redis of this `URL`, which others may use meanwhile (default one of its own)")
	restrict.Check(f, "redis", checkRedis)
	f.StringVar(&o.postgres, "postgres", "", "measure in the Postgres of this `URL`, which gets the schema crawler (default one of its own)")
	restrict.Check(f, "postgres", func(text string) error { return (&crawl.Postgres{URL: text}).Validate() })
	f.Var(&o.keys, "n", "URLs or keys of the largest measurement (default 1M; fpr: keys of each set, 250k or 25k)")
	restrict.Within(f, "n", &o.keys, minKeys, maxKeys, "a whole number from 1000 to 10G, such as 250k or 1M")
	f.Var(&o.fpr, "fpr", "false-positive rate of the filters (default several)")
	restrict.Within(f, "fpr", &o.fpr, minFPR, 1, "a probability from 1e-12 to 0.99, such as 1e-6, 0.1% or '1 in 1000000'")
	f.StringVar(&o.html, "html", "", "crawl the HTML files in `DIR`, too")
	addBroad(f, &o.broad)
	restrict.Number(f, &o.budget, "budget", 5*time.Minute, "time that all of it may take; the report says where it ended the run", 1, math.MaxInt64, "a time of more than 0 with its unit, such as 5m or 90s")
	f.StringVar(&o.dir, "report", "", "write report.json, RESULTS.md and plots into `DIR`")
	f.Uint64Var(&o.seed, "seed", 0, "use the same random keys as an earlier run (default new keys each time)")
	f.BoolVar(&o.json, "json", false, "print JSON")
}

func checkRedis(text string) error {
	options, err := redisstore.ParseURL(text)
	if err != nil {
		return fmt.Errorf("want redis://[USER:PASSWORD@]HOST[:PORT], rediss:// with TLS or unix:///PATH: %w", err)
	}
	if len(options.Addrs) > 1 {
		return errors.New("want a single server, not a cluster")
	}
	return nil
}

// addBroad declares the flags that concern only the crawl of many hosts.
func addBroad(f *pflag.FlagSet, c *benchcrawl.BroadConfig) {
	f.StringSliceVar(&c.Concurrency, "concurrency", nil, "broad: `LIST` of hosts asked at once, numbers or auto (default 64,1000,4000)")
	restrict.Check(f, "concurrency", func(text string) error {
		if n, err := strconv.Atoi(text); text != benchcrawl.AutoConcurrency && (err != nil || n < 1 || n > maxConcurrency) {
			return fmt.Errorf("want whole numbers from 1 to 100000, or %s, as in 64,1000,%s", benchcrawl.AutoConcurrency, benchcrawl.AutoConcurrency)
		}
		return nil
	})
	restrict.Number(f, &c.Time, "each", 0, "broad: `TIME` of each crawl, shorter if --budget is too small (default 15s)",
		1, math.MaxInt64, "a time of more than 0 with its unit, such as 15s")
	f.BoolVar(&c.TLS, "tls", false, "broad: crawl over TLS, too")
}

// maxConcurrency bounds --concurrency.
const maxConcurrency = 100_000

func names() []string {
	var all []string
	for _, s := range subjects {
		all = append(all, s.name)
	}
	return all
}

// choose returns the names of the measurements in args. It returns all names if args is
// empty or contains "all".
func choose(args []string) ([]string, error) {
	if len(args) == 0 || slices.Contains(args, "all") {
		args = names()
	}
	var errs []error
	for _, name := range args {
		if !slices.Contains(names(), name) {
			errs = append(errs, fmt.Errorf("%q is nothing to measure, want %s or all", name, strings.Join(names(), ", ")))
		}
	}
	return args, errors.Join(errs...)
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
	r := &report.Report{
		Format: report.Format, Command: o.line(chosen), Version: o.version, Commit: report.Commit(), Began: time.Now().UTC(),
		Budget: o.budget.Seconds(), Seed: o.seed, Go: runtime.Version(), Machine: report.Machine(), Servers: []report.Server{},
	}
	logging.Disable() // go-redis also returns the errors that it prints
	h, err := sets.OpenHost(ctx, o.redis, o.postgres)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	r.Servers = append(r.Servers, h.Servers...)
	var steps []*agenda.Step
	for _, s := range subjects {
		if !slices.Contains(chosen, s.name) {
			continue
		}
		section, more := s.steps(o, h)
		for _, missing := range []struct{ what, why string }{{s.redis, h.NoRedis}, {s.bloom, h.NoBloom()}, {s.postgres, h.NoPostgres}} {
			if missing.what != "" && missing.why != "" {
				section.Miss(missing.what, missing.why)
			}
		}
		r.Sections = append(r.Sections, section)
		steps = append(steps, more...)
	}
	watch := newWatch(progress, r, o.dir)
	measured := agenda.Run(ctx, o.budget-time.Since(r.Began), steps, watch)
	watch.close()
	if err := o.finish(r, out); err != nil {
		return errors.Join(err, verdict(ctx, r, measured))
	}
	if err := verdict(ctx, r, measured); err != nil {
		return Reported{err}
	}
	return nil
}

// Reported wraps the error of a run that has printed its whole report.
type Reported struct{ error }

func (r Reported) Unwrap() error { return r.error }

// finish prints the report, and writes it to the directory of --report.
func (o *options) finish(r *report.Report, out io.Writer) error {
	r.Took = time.Since(r.Began).Seconds()
	var errs []error
	if o.dir != "" {
		errs = append(errs, r.Write(o.dir))
	}
	if o.json {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return errors.Join(append(errs, encoder.Encode(r))...)
	}
	_, err := io.WriteString(out, r.Markdown(false))
	return errors.Join(append(errs, err)...)
}

// verdict returns the error of a run, or nil. The argument measured is the error of the
// measurements. The returned error lists the broken promises. It also contains the error of
// the measurements, unless ctx ended the run. If ctx ended the run and no promise is broken,
// verdict returns the error of ctx.
func verdict(ctx context.Context, r *report.Report, measured error) error {
	broken := r.Broken()
	switch {
	case ctx.Err() != nil && len(broken) == 0:
		return ctx.Err()
	case ctx.Err() != nil:
		measured = nil
	}
	if len(broken) == 0 {
		return measured
	}
	return errors.Join(fmt.Errorf("%s broken:\n  %s", human.Plural(uint64(len(broken)), "promise"), strings.Join(broken, "\n  ")), measured)
}

// line returns the command line of this run, without secrets.
func (o *options) line(chosen []string) string {
	line := []string{"crawler", "bench", strings.Join(chosen, " ")}
	add := func(given bool, words ...string) {
		if given {
			line = append(line, words...)
		}
	}
	add(o.redis != "", "--redis", (&crawl.Redis{URL: o.redis}).Where())
	add(o.postgres != "", "--postgres", (&crawl.Postgres{URL: o.postgres}).Where())
	add(o.keys != 0, "--n", o.keys.String())
	add(o.fpr != 0, "--fpr", o.fpr.String())
	add(o.html != "", "--html", o.html)
	add(len(o.broad.Concurrency) > 0, "--concurrency", strings.Join(o.broad.Concurrency, ","))
	add(o.broad.Time != 0, "--each", o.broad.Time.String())
	add(o.broad.TLS, "--tls")
	add(true, "--budget", o.budget.String(), "--seed", fmt.Sprint(o.seed))
	add(o.dir != "", "--report", o.dir)
	return strings.Join(line, " ")
}
