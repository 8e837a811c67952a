package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/human"
)

// Without --probe, random fingerprints are looked up in the filter for at most this long, to
// measure its rate of false positives. The limit exists because look-ups take processor time.
const (
	probeStopped = time.Second
	probeRunning = 200 * time.Millisecond // while the crawl runs
)

// newReport returns the command that prints the report of a crawl.
func newReport(s streams) *cobra.Command {
	var crawl target
	var asJSON, seeds bool
	var probe time.Duration
	cmd := &cobra.Command{
		Use:   "report [--dir DIR | --redis URL --name NAME] [--json] [--out FILE]",
		Short: "Print the report of a crawl, running or not",
		Long: `Print the report of a crawl, running or not: its books with every reason for a
refusal, its rates, what limited it, the hosts with the highest numbers, the
filter, and how many URLs its false positives may have lost. DIR/report.json has
the same content. It is written each minute and at the end of a run.`,
		Args: cobra.NoArgs,
	}
	crawl.addTo(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&seeds, "seeds", false, "write DIR/seeds.jsonl again, with the result of each seed")
	restrict.Number(cmd.Flags(), &probe, "probe", 0, "probe the filter for at most this `TIME` (default 1s, 200ms while the crawl runs)", 1, forever, timeNotZero)
	cmd.RunE = crawl.run(func(ctx context.Context, c *attached) error {
		if seeds {
			path, n, err := c.WriteSeeds(ctx)
			if err == nil {
				_, err = fmt.Fprintf(s.out, "%s in %s\n", human.Plural(n, "seed"), path)
			}
			return err
		}
		r, err := askReport(ctx, c, probe)
		if err != nil {
			return err
		}
		if asJSON {
			enc := json.NewEncoder(s.out)
			enc.SetIndent("", "  ")
			return enc.Encode(r)
		}
		if err := r.WriteText(s.out); err != nil {
			return err
		}
		if err := c.writeResults(s.out, r); err != nil || r.Fault == "" {
			return err
		}
		return printed{&exitError{exitFailed, nil}}
	})
	return cmd
}

// askReport returns the report of a crawl.
func askReport(ctx context.Context, c *attached, probe time.Duration) (*report.Report, error) {
	most := probeStopped
	if c.Running(ctx) {
		most = probeRunning
	}
	r, err := c.Report(ctx, cmp.Or(probe, most))
	if err == nil && r.Resume == "" && strings.HasPrefix(r.End, "not running") && r.Books.Queued+r.Books.Leased > 0 {
		r.Resume = c.at.command("crawl")
	}
	return r, err
}

// print writes the summary of a run, unless --quiet is given.
func (r *running) print(result *crawl.Result) {
	if result.Report.Resume != "" && !r.allFed.Load() && r.plan.options.seeds == "-" {
		fmt.Fprintln(r.console, "the seeds on stdin were not read to their end: give them again")
	}
	_ = result.Report.WriteSummary(r.console.notices())
	r.writeResults(r.console.notices(), result.Report)
}
