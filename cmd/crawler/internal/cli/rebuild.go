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
		Short: "Make the filter anew, after it was lost",
		Long: `Make the filter anew, after it was lost. It is made of the queue and of the
outcomes in the crawl's directory. Redis has no outcomes: there the records say
what was crawled, and those of all workers must be here. A URL that is in none
of them is new to the crawl afterwards.

With --postgres the exact URLs that wait are queued again, and a crawl that Redis
has lost altogether is made again: only what waited and was not exact is lost.

A crawl does not start while its pages.jsonl is shorter than what was committed.
--accept-loss says how many records are missing and lets it go on. Their URLs stay
done: they are not fetched again.`,
		Args: cobra.NoArgs,

		DisableFlagsInUseLine: true,
	}
	target.addTo(cmd)
	cmd.Flags().BoolVar(&acceptLoss, "accept-loss", false, "go on without the records that are missing from a pages.jsonl that became shorter, and say how many they are")
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
			fmt.Fprintf(s.out, "%s is made again. %s\n", at, done.Lost.Loss())
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
