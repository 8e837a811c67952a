package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl/seeds"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// newSeed returns the command that adds seeds to a crawl, running or not.
func newSeed(s streams) *cobra.Command {
	var crawl target
	var file string
	cmd := &cobra.Command{
		Use:   "seed [--dir DIR | --redis URL --name NAME] [--seeds FILE] [SEED...]",
		Short: "Add seeds to a crawl, running or not",
	}
	crawl.addTo(cmd)
	cmd.Flags().StringVar(&file, "seeds", "", "read seeds from `FILE`, one a line, .gz too; - is stdin")
	restrict.Check(cmd.Flags(), "seeds", checkURLFile)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && file == "" {
			return usage(errors.New("no seeds: name a URL or --seeds FILE"))
		}
		if err := checkArguments(args); err != nil {
			return usage(err)
		}
		return crawl.with(cmd.Context(), func(ctx context.Context, c *attached) error {
			r, err := seeds.Open(ctx, args, file, s.in)
			if err != nil {
				return usage(err)
			}
			defer r.Close()
			release, err := c.Keep(ctx)
			if err != nil {
				return err
			}
			counts, err := seeds.Add(ctx, r, c.Handle, s.err)
			if err = errors.Join(err, release()); err != nil {
				return err
			}
			fmt.Fprintf(s.out, "%s: %d added, %d known, %d refused\n", human.Plural(counts.Added+counts.Seen+counts.Refused, "seed"),
				counts.Added, counts.Seen, counts.Refused)
			if counts.Added+counts.Seen == 0 && counts.Refused > 0 {
				return &exitError{exitFailed, nil}
			}
			return nil
		})
	}
	return cmd
}

// checkArguments returns an error for arguments that are names of files.
func checkArguments(args []string) error {
	var errs []error
	for _, arg := range args {
		if seed.HasScheme(arg) {
			continue
		}
		if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
			errs = append(errs, fmt.Errorf("argument %q is a file here, want --seeds %s to read seeds from it (or https://%s for the host)",
				arg, shellQuote(arg), strings.TrimLeft(arg, "/")))
		}
	}
	return errors.Join(errs...)
}
