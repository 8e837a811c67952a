package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newRebuild returns the command that rebuilds a lost filter.
func newRebuild(s streams) *cobra.Command {
	var target target
	var acceptLoss bool
	cmd := &cobra.Command{
		Use:   "rebuild [--dir DIR | --redis URL --name NAME] [--accept-loss]",
		Short: "Rebuild the filter after it was lost",
		Long: `Rebuild the filter after it was lost, from the queue and from the outcomes in the
crawl's directory. Redis stores no outcomes. For a crawl in Redis the records are
read instead, and the records of all workers must be on this machine. A URL that
is neither in the queue nor in the outcomes or records is new to the crawl
afterwards.

With --postgres the exact URLs that wait are queued again. If Redis has lost the
whole crawl, it is restored: only bulk URLs that waited are lost.

A crawl does not start while its pages.jsonl is shorter than what was committed.
With --accept-loss the number of missing records is printed, and the crawl can
continue. The URLs of these records stay done: they are not fetched again.`,
		Args: cobra.NoArgs,
	}
	target.addTo(cmd)
	cmd.Flags().BoolVar(&acceptLoss, "accept-loss", false, "continue without the records that are missing because pages.jsonl became shorter, and print their number")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := target.location()
		if err != nil {
			return err
		}
		call := crawl.Rebuild
		if acceptLoss {
			call = crawl.AcceptLoss
		}
		done, err := call(cmd.Context(), at.Location)
		if err != nil {
			return at.explain(err)
		}
		if done.Lost != nil {
			fmt.Fprintf(s.out, "%s is restored. %s\n", at, done.Lost.Loss())
		}
		if done.Loss != nil {
			printLoss(s.out, at, done.Loss)
		}
		if done.Reconciled != nil {
			printReconciled(s.out, *done.Reconciled)
		}
		_, err = fmt.Fprintf(s.out, "the filter of %s holds %s URLs again\n", at, human.Commas(done.Keys))
		return err
	}
	return cmd
}
