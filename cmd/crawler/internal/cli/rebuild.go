package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newRebuild returns the command that rebuilds a lost filter, or a whole crawl that Redis
// has lost. With --accept-loss, the command rebuilds the filter of a crawl in a directory even
// if records are missing.
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

// printLoss prints which records are missing. It assumes that the end of a file was cut
// off, because it cannot locate lines that are missing from the middle.
func printLoss(w io.Writer, at location, cut *crawl.Loss) {
	switch {
	case cut.None && cut.Name == "":
		fmt.Fprintf(w, "the records of %s are in no file: no loss to accept\n", at)
		return
	case cut.None:
		fmt.Fprintf(w, "%s is as long as was committed: no loss to accept\n", crawl.RecordsFile(at.Dir))
		return
	}
	fmt.Fprintf(w, "%s has %s of the %s bytes that were committed: %s bytes are missing\n",
		cut.Name, human.Commas(uint64(cut.Size)), human.Commas(uint64(cut.Committed)), human.Commas(uint64(cut.Committed-cut.Size)))
	if half := cut.Size - cut.Whole; half > 0 {
		fmt.Fprintf(w, "its last %s bytes are part of a line, which goes too\n", human.Commas(uint64(half)))
	}
	fmt.Fprintf(w, "lost: %s of %s", human.Plural(cut.Records, "record"), human.Commas(cut.Left+cut.Records))
	if cut.Records > 0 && cut.Away == 0 {
		fmt.Fprintf(w, ", numbers %s to %s (bytes %s to %s of the file) if its end was cut off",
			human.Commas(cut.Left+1), human.Commas(cut.Left+cut.Records), human.Commas(uint64(cut.Whole)), human.Commas(uint64(cut.Committed)))
	}
	fmt.Fprintln(w)
	if cut.Away > 0 {
		fmt.Fprintf(w, "they include those of %s that is not in the directory\n", human.Plural(uint64(cut.Away), "closed file"))
	}
	fmt.Fprintln(w, "their URLs stay done or failed and are not fetched again, but for those that 'crawler retry' offers again")
}
