package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/human"
)

// newRebuild makes a lost filter anew.
func newRebuild(s streams) *cobra.Command {
	var crawl target
	cmd := &cobra.Command{
		Use:   "rebuild [--dir DIR | --redis URL --name NAME]",
		Short: "Make the filter anew, after it was lost",
		Long: `Make the filter anew, after it was lost. It is made of the queue and of the
outcomes in the crawl's directory. Redis has no outcomes: there the records say
what was crawled, and those of all workers must be here. A URL that is in none
of them is new to the crawl afterwards.`,
		Args: cobra.NoArgs,

		DisableFlagsInUseLine: true,
	}
	crawl.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := crawl.existing(cmd.Context())
		if err != nil {
			return err
		}
		ses, err := openStored(cmd.Context(), at, s, toRebuild)
		if err != nil {
			return err
		}
		stats, err := ses.store.Stats(cmd.Context())
		if err = errors.Join(err, ses.close()); err != nil {
			return &exitError{exitFailed, err}
		}
		fmt.Fprintf(s.out, "the filter of %s holds %s URLs again\n", at.title(), human.Commas(stats.Filter.Keys))
		return nil
	}
	return cmd
}
