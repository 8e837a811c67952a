// Package size is the subcommand `crawler size`, which computes before a crawl what a
// filter will cost and lose.
//
// It owns the command's flags and the report as text and JSON. The arithmetic is
// in package sizing. The package opens no crawl and connects to no server.
package size

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/sizing"
)

// options are the flags of the command.
type options struct {
	urls      human.Count
	fpr       human.Rate
	memory    human.Bytes
	hashes    uint
	maxHashes uint
	lost      loss
	growth    human.Switch

	blockBits   int
	partitions  int
	urlBytes    int
	queued      human.Count
	hosts       human.Count
	delay       time.Duration
	latency     time.Duration
	workers     int
	concurrency int

	window  human.Period
	recrawl bool
	json    bool
}

// Values that are assumed for flags that are not given.
const (
	defaultURLs        = 10_000_000
	defaultFPR         = 1e-6
	defaultURLsPerHost = 100
)

// Command returns the command with its flags.
func Command() *cobra.Command {
	o := options{growth: true}
	var plan sizing.Plan
	command := &cobra.Command{
		Use:   "size",
		Short: "Calculate what a filter costs and loses, before the crawl",
		Long: `crawler size does the arithmetic of a Bloom filter. Give any of the number of
URLs, the false-positive rate, the memory, the number of hash functions and the
number or share of URLs that may be lost; it calculates the rest, the size
of the filter in memory and in Redis, the size of the same URLs in exact stores,
and the time that a polite crawl of them takes.`,
		Example: `  crawler size --urls 1e9 --fpr '1 in 1000000'
  crawler size --urls 100M --memory 512MiB       which rate is that?
  crawler size --memory 2GiB --fpr 0.1%          how many URLs is that?
  crawler size --urls 1e9 --lost 1000            lose at most 1000 of them`,
		// Args also calls solve, because an error of Args counts as a fault of the command
		// line, like an unknown flag.
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if err = cobra.NoArgs(cmd, args); err == nil {
				plan, err = o.solve()
			}
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.OutOrStdout(), o, plan)
		},
	}
	o.addTo(command.Flags())
	return command
}

func (o *options) addTo(f *pflag.FlagSet) {
	const count, hashes = "a whole number of 1 or more", "a whole number from 1 to 64"
	f.SortFlags = false
	f.Var(&o.urls, "urls", "URLs that the crawl will see (default 10M, unless --memory is given)")
	f.Var(&o.fpr, "fpr", "false-positive rate when the filter is full: 1e-6, 0.1%, '1 in 1000000' (default 1e-06)")
	f.Var(&o.memory, "memory", "size of the filter's bits: 512MiB, 2GB")
	f.Var(&o.lost, "lost", "URLs that may be lost over the whole crawl: a number, or a rate of them")
	restrict.Number(f, &o.hashes, "hashes", 0, "hash functions (default the best number)", 1, 64, hashes)
	restrict.Number(f, &o.maxHashes, "max-hashes", 0, "largest number of hash functions to consider (default 64)", 1, 64, hashes)
	f.Var(&o.growth, "growth", "on: the filter grows by layers, which share the rate; off: one layer has the whole rate")
	f.IntVar(&o.blockBits, "block", sizing.DefaultBlockBits, "bits of a block in Redis")
	restrict.Flag(f, "block", "a multiple of 32 from 64 to 65536", func() bool {
		return o.blockBits >= 64 && o.blockBits <= 1<<16 && o.blockBits%32 == 0
	})
	restrict.Number(f, &o.partitions, "partitions", sizing.DefaultPartitions, "partitions in Redis", 1, 1<<16, "a whole number from 1 to 65536")
	restrict.Number(f, &o.urlBytes, "url-bytes", 80, "mean length of a URL, for the exact stores", 1, math.MaxInt, count)
	f.Var(&o.queued, "queued", "URLs waiting at once in the queue (default none)")
	f.Var(&o.hosts, "hosts", "hosts of the crawl (default one for 100 URLs)")
	restrict.Number(f, &o.delay, "delay", time.Second, "from one request to the next at one host",
		0, math.MaxInt64, "a time of 0 or more with its unit, such as 1s or 500ms")
	restrict.Number(f, &o.latency, "latency", 300*time.Millisecond, "of one answer, in the mean",
		1, math.MaxInt64, "a time of more than 0 with its unit, such as 1s or 500ms")
	restrict.Number(f, &o.workers, "workers", 1, "workers of the crawl", 1, math.MaxInt, count)
	restrict.Number(f, &o.concurrency, "concurrency", 64, "hosts that one worker works on at once", 1, math.MaxInt, count)
	f.Var(&o.window, "window", "also size filters that forget a key some `TIME` after it was added, such as 24h or 30d; --urls come in that time")
	f.BoolVar(&o.recrawl, "recrawl", false, "also size the rows of a crawl that visits its pages again, if all URLs are pages")
	f.BoolVar(&o.json, "json", false, "print JSON")
}

// solve computes the properties of the filter that the flags do not give.
func (o *options) solve() (sizing.Plan, error) {
	urls, fpr := uint64(o.urls), float64(o.fpr)
	if urls == 0 && o.memory == 0 {
		urls = defaultURLs
	}
	if fpr == 0 && !o.lost.set() && (urls == 0 || o.memory == 0) {
		fpr = defaultFPR
	}
	answer, err := sizing.Solve(sizing.Question{
		Keys: urls, Bits: 8 * uint64(o.memory), FPR: fpr,
		LostShare: o.lost.share, LostKeys: o.lost.number,
		Hashes: o.hashes, MaxHashes: o.maxHashes,
	})
	if impossible, ok := errors.AsType[*sizing.ImpossibleError](err); ok {
		return sizing.Plan{}, errors.New(explain(impossible))
	}
	if err == nil {
		err = checkAnswer(answer, fpr > 0 || o.lost.set())
	}
	if err != nil {
		return sizing.Plan{}, err
	}
	plan := sizing.Plan{
		Filter: answer, FPR: answer.FPR, Growth: bool(o.growth), Hosts: uint64(o.hosts), URLBytes: o.urlBytes, Queued: uint64(o.queued), Revisits: o.recrawl,
		BlockBits: o.blockBits, Partitions: o.partitions,
		Delay: o.delay, Latency: o.latency, HostsAtOnce: uint64(o.workers) * uint64(o.concurrency),
	}
	if fpr > 0 && !o.lost.set() {
		plan.FPR = fpr
	}
	if plan.Hosts == 0 {
		plan.Hosts = max(answer.Keys/defaultURLsPerHost, 1)
	}
	return plan, nil
}

// checkAnswer returns an error for a filter that has too few bits to be useful. rateGiven
// reports whether a rate or a loss was given. If it is false, checkAnswer also returns an
// error for a filter that has more bits than it can use.
func checkAnswer(a sizing.Answer, rateGiven bool) error {
	if a.FPR > 0.99 {
		hint := ""
		if most, err := sizing.Solve(sizing.Question{Bits: a.Bits, FPR: defaultFPR}); err == nil {
			hint = fmt.Sprintf("; possible: --urls %d at --fpr %g", most.Keys, defaultFPR)
		}
		return fmt.Errorf("%s fill %s to the last bit: nearly every URL would be taken for a known one%s",
			human.Plural(a.Keys, "URL"), human.IBytes(a.Bits/8), hint)
	}
	if a.FPR < human.MinRate && !rateGiven {
		m, _ := sizing.OptimalBits(a.Keys, human.MinRate)
		return fmt.Errorf("%s are more than a filter for %s can use: %s hold them at p = %g",
			human.IBytes(a.Bits/8), human.Plural(a.Keys, "URL"), human.IBytes((m+7)/8), human.MinRate)
	}
	return nil
}

// explain describes what is impossible, and the flags with which it would be possible.
func explain(e *sizing.ImpossibleError) string {
	var b strings.Builder
	q := e.Question
	if q.Keys > 0 {
		fmt.Fprintf(&b, "%s with what was asked for do not fit into %s; possible:", human.Plural(q.Keys, "URL"), human.IBytes(q.Bits/8))
	} else {
		fmt.Fprintf(&b, "%s hold no URL with what was asked for; possible:", human.IBytes(q.Bits/8))
	}
	for _, a := range e.Possible {
		switch {
		case a.Bits != q.Bits:
			fmt.Fprintf(&b, "\n  --memory %s for %s", ibytesUp((a.Bits+7)/8), human.Plural(a.Keys, "URL"))
		case a.Keys != q.Keys:
			fmt.Fprintf(&b, "\n  --urls %d in that memory", a.Keys)
		default:
			fmt.Fprintf(&b, "\n  --fpr %.3g with both: %s lost", rateUp(a.FPR), human.Plural(uint64(a.LostKeys+0.5), "URL"))
		}
		fmt.Fprintf(&b, " (k = %d)", a.Hashes)
	}
	return b.String()
}

// report is the output of the command. --json prints it in this form.
type report struct {
	sizing.Report
	Reserve string        `json:"bf_reserve"`
	Window  *windowReport `json:"window,omitempty"` // with --window

	plan sizing.Plan
}

// run prints the report.
func run(out io.Writer, o options, plan sizing.Plan) error {
	r := report{
		Report: plan.Report(), plan: plan,
		Reserve: fmt.Sprintf("BF.RESERVE crawl:seen %.4g %d NONSCALING", plan.FPR, plan.Filter.Keys),
	}
	if o.window > 0 {
		r.Window = newWindowReport(plan, time.Duration(o.window))
	}
	if o.json {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	_, err := io.WriteString(out, r.text())
	return err
}
