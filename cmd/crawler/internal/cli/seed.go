package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
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
	var file, match string
	var fromLinks bool
	cmd := &cobra.Command{
		Use:   "seed [--dir DIR | --redis URL --name NAME] [--seeds FILE | --from-links [--match RE]] [SEED...]",
		Short: "Add seeds to a crawl, running or not",
		Long: `Add seeds to a crawl, running or not. With --from-links, offer the links that the
crawl kept (--links) again: those that a rule refused, and that the present rules
allow, are queued as links, not as seeds.`,
	}
	crawl.addTo(cmd)
	cmd.Flags().StringVar(&file, "seeds", "", "read seeds from `FILE`, one a line, .gz too; - is stdin")
	restrict.Check(cmd.Flags(), "seeds", checkURLFile)
	cmd.Flags().BoolVar(&fromLinks, "from-links", false, "offer the links that the crawl kept again, under its present rules")
	cmd.Flags().StringVar(&match, "match", "", "with --from-links: only links to URLs that match `RE`")
	checkText(cmd.Flags(), "match", "a regular expression", func(text string) error {
		_, err := regexp.Compile(text)
		return err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case match != "" && !fromLinks:
			return usage(errors.New("--match needs --from-links"))
		case fromLinks && (len(args) > 0 || file != ""):
			return usage(errors.New("--from-links takes no seeds"))
		case fromLinks:
			return crawl.with(cmd.Context(), func(ctx context.Context, c *attached) error { return offerKept(ctx, c, match, s) })
		}
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

// offerKept offers the links that the crawl kept again.
func offerKept(ctx context.Context, c *attached, match string, s streams) error {
	re, err := regexp.Compile(match)
	if err != nil {
		return usage(err)
	}
	release, err := c.Keep(ctx)
	if err != nil {
		return err
	}
	n, err := c.OfferKept(ctx, re)
	if err = errors.Join(err, release()); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s: %s added, %s known, %s refused\n", human.Plural(n.Found, "link"), human.Commas(n.Added), human.Commas(n.Seen), human.Commas(n.Refused))
	return nil
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
