package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/human"
)

// newRebuild makes a lost filter anew.
func newRebuild(s streams) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "rebuild [--dir DIR]",
		Short: "Make the filter anew from queue and outcomes, after its file was lost",
		Args:  cobra.NoArgs,

		DisableFlagsInUseLine: true,
	}
	addDir(cmd, &dir)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := existing(cmd.Context(), dir)
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
