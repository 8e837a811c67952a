package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/internal/human"
)

// newRebuild makes a lost filter anew.
func newRebuild(s streams) *cobra.Command {
	var crawl target
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
	crawl.addTo(cmd)
	cmd.Flags().BoolVar(&acceptLoss, "accept-loss", false, "go on without the records that are missing from a pages.jsonl that became shorter, and say how many they are")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := crawl.existing(cmd.Context())
		if err != nil {
			return err
		}
		home, shared := at.home.(*sharedHome)
		why := toRebuild
		if acceptLoss {
			why = toAcceptLoss
		}
		if acceptLoss && shared {
			return usage(errors.New("--accept-loss is for a crawl in a directory: the records of workers count as far as they are there"))
		}
		if shared {
			if err := home.recreate(cmd.Context(), s.out); err != nil {
				return err
			}
		}
		ses, err := openStored(cmd.Context(), at, s, why)
		if err != nil {
			return err
		}
		if acceptLoss {
			if err := ses.acceptLoss(cmd.Context(), s.out); err != nil {
				return &exitError{exitFailed, errors.Join(err, ses.close())}
			}
		}
		if err := errors.Join(ses.rebuilt(cmd.Context(), s.out), ses.close()); err != nil {
			return &exitError{exitFailed, err}
		}
		return nil
	}
	return cmd
}

// rebuilt ends a rebuild: exact keys that wait are offered again.
func (ses *session) rebuilt(ctx context.Context, w io.Writer) error {
	e, shared := ses.store.(*sharedEngine)
	if shared && e.exactElsewhere {
		done, err := ses.reconcile(ctx, true)
		if err != nil {
			return err
		}
		printReconciled(w, done)
	}
	stats, err := ses.store.Stats(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "the filter of %s holds %s URLs again\n", ses.title(), human.Commas(stats.Filter.Keys))
	return nil
}
