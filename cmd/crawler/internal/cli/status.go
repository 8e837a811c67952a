package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newStatus returns the command that prints the state of a crawl.
func newStatus(s streams) *cobra.Command {
	var crawl target
	var asJSON, recount, watch bool
	cmd := &cobra.Command{
		Use:   "status [--dir DIR | --redis URL --name NAME] [--watch] [--audit] [--json] [--out FILE]",
		Short: "Print the state of a crawl, running or not",
		Args:  cobra.NoArgs,
	}
	crawl.addTo(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&recount, "audit", false, "check the counters: count the queue, the filter and the records; reads everything")
	cmd.Flags().BoolVar(&watch, "watch", false, "print the status each second while the crawl runs")
	cmd.RunE = crawl.run(func(ctx context.Context, c *attached) error {
		switch {
		case watch && c.Running(ctx):
			return watchStatus(ctx, c, s.out, asJSON)
		case watch && c.at.Dir == "":
			return watchShared(ctx, c, s, asJSON)
		case recount:
			return runAudit(ctx, c, s, asJSON)
		}
		st, err := c.Status(ctx)
		switch {
		case err != nil:
			return err
		case asJSON:
			return json.NewEncoder(s.out).Encode(st)
		}
		return printStatus(s.out, c, &st)
	})
	return cmd
}

// printStatus prints a status for people.
func printStatus(w io.Writer, c *attached, st *report.Status) error {
	r := c.Summary(*st)
	if err := r.WriteSummary(w); err != nil {
		return err
	}
	if err := r.Errors.WriteExamples(w); err != nil {
		return err
	}
	for _, rule := range st.Pauses {
		if _, err := fmt.Fprintf(w, "  paused      %s; '%s' ends it\n", rule, c.at.command("resume")+" "+ruleFlags(rule)); err != nil {
			return err
		}
	}
	for _, rule := range st.Drops {
		if _, err := fmt.Fprintf(w, "  dropped     %s\n", rule); err != nil {
			return err
		}
	}
	if p := st.Progress; p != nil && p.StoreAway > 0 {
		if _, err := fmt.Fprintf(w, "  store       %s\n", report.StoreWait(p)); err != nil {
			return err
		}
	}
	f := st.Stats.Filter
	if _, err := fmt.Fprintf(w, "  filter      %s of %s, %s, false-positive rate now %.2g\n", human.Commas(f.Keys),
		human.Plural(f.Capacity, "URL"), human.IBytes(f.Bytes), f.FPR); err != nil || st.Shared == nil {
		return err
	}
	return printWorkers(w, st.Shared)
}

// printWorkers prints the workers of a crawl.
func printWorkers(w io.Writer, sh *report.Sharing) error {
	for _, who := range sh.Workers {
		_, err := fmt.Fprintf(w, "  worker      %s: holds %s, looks after %s, since %s\n", who.Name,
			human.Plural(uint64(who.Leases), "host"), human.Plural(uint64(who.Partitions), "partition"), who.Started.Format(time.DateTime))
		if err != nil {
			return err
		}
	}
	again := ""
	if sh.FoundAgain > 0 {
		again = fmt.Sprintf("; lost, then found again: %s", human.Commas(sh.FoundAgain))
	}
	_, err := fmt.Fprintf(w, "  acknowledged and lost: %s%s\n", human.Commas(sh.Lost), again)
	return err
}
