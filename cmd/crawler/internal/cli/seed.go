package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newSeed adds seeds to a crawl, running or not.
func newSeed(s streams) *cobra.Command {
	var crawl target
	var file string
	cmd := &cobra.Command{
		Use:   "seed [--dir DIR | --redis URL --name NAME] [--seeds FILE] [SEED...]",
		Short: "Add seeds to a crawl, running or not",

		DisableFlagsInUseLine: true,
	}
	crawl.addTo(cmd)
	cmd.Flags().StringVar(&file, "seeds", "", "read seeds from `FILE`, one a line, .gz too; - is stdin")
	restrict.Check(cmd.Flags(), "seeds", checkURLFile)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if len(args) == 0 && file == "" {
			return usage(errors.New("no seeds: name a URL or --seeds FILE"))
		}
		if err := checkArguments(args); err != nil {
			return usage(err)
		}
		at, err := crawl.existing(ctx)
		if err != nil {
			return err
		}
		seeds, err := newSeedReader(ctx, args, file, s.in)
		if err != nil {
			return usage(err)
		}
		defer seeds.close()
		var counts seedCounts
		err = visitCrawl(ctx, at, s,
			func() error {
				counts, err = feed(ctx, seeds, remoteOffer(at.dir), s.err)
				return err
			},
			func(ses *session) error {
				counts, err = feed(ctx, seeds, ses.offer, s.err)
				return err
			})
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "%s: %d added, %d known, %d refused\n", human.Plural(counts.added+counts.known+counts.refused, "seed"),
			counts.added, counts.known, counts.refused)
		if counts.added+counts.known == 0 && counts.refused > 0 {
			return &exitError{exitFailed, nil}
		}
		return nil
	}
	return cmd
}

// remoteOffer offers seeds to the process that runs the crawl.
func remoteOffer(dir string) offerFunc {
	return func(ctx context.Context, seeds []string, check bool) (replies []seedReply, err error) {
		body := map[string]any{"seeds": seeds, "check": check}
		return replies, callControl(ctx, dir, "POST", "/seed", body, &replies)
	}
}
