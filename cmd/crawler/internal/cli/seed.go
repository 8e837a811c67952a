package cli

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/seeds"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// newSeed returns the command that adds seeds to a crawl, running or not.
func newSeed(s streams) *cobra.Command {
	var at target
	var file, match, key string
	var fromLinks bool
	cmd := &cobra.Command{
		Use:   "seed [--dir DIR | --redis URL --name NAME] [--seeds FILE [--key KEY] | --from-links [--match RE]] [SEED...]",
		Short: "Add seeds to a crawl, running or not",
		Long: `Add seeds to a crawl, running or not. With --from-links, offer the links that the
crawl kept (--links) again: those that a rule refused, and that the present rules
allow, are queued as links, not as seeds.

With --key, a repeat of the command within 24 h adds nothing, goes on where the first
one was interrupted, and prints the counts of one uninterrupted command. Other seeds
under the same key are refused. Records of the seeds have the key as submission.`,
		Example: `  crawler seed --dir go.dev.crawl https://go.dev/doc
  crawler seed --dir go.dev.crawl --seeds urls.txt --key import-2026-11-30`,
	}
	at.addTo(cmd)
	cmd.Flags().StringVar(&file, "seeds", "", "read seeds from `FILE`, one a line, .gz too; - is stdin")
	restrict.Check(cmd.Flags(), "seeds", checkURLFile)
	cmd.Flags().BoolVar(&fromLinks, "from-links", false, "offer the links that the crawl kept again, under its present rules")
	keyFlag(cmd.Flags(), &key, "; auto: a digest of the seeds")
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
		case fromLinks && key != "":
			return usage(errors.New("--from-links takes no --key: it can be repeated as it is"))
		case fromLinks:
			return at.with(cmd.Context(), func(ctx context.Context, c *attached) error { return offerKept(ctx, c, match, s) })
		}
		if len(args) == 0 && file == "" {
			return usage(errors.New("no seeds: name a URL or --seeds FILE"))
		}
		if err := checkArguments(args); err != nil {
			return usage(err)
		}
		return at.with(cmd.Context(), func(ctx context.Context, c *attached) error {
			in := s.in
			if key == "auto" {
				digest, spool, err := digestSeeds(ctx, args, file, s.in)
				if err != nil {
					return err
				}
				defer spool.remove()
				if key = digest; spool != nil {
					in = spool
				}
			}
			r, err := seeds.Open(ctx, args, file, in)
			if err != nil {
				return usage(err)
			}
			defer r.Close()
			release, err := c.Keep(ctx)
			if err != nil {
				return err
			}
			var counts crawl.SeedCounts
			if key == "" {
				counts, err = seeds.Add(ctx, r, c.Handle, s.err)
			} else {
				counts, err = submitSeeds(ctx, r, c, key, s)
			}
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

// submitSeeds adds seeds under a key.
func submitSeeds(ctx context.Context, r *seeds.Reader, c *attached, key string, s streams) (crawl.SeedCounts, error) {
	sum, err := seeds.Submit(ctx, r, c.Handle, keyID("seed", key), key, s.err)
	switch all := sum.Added + sum.Seen + sum.Refused; {
	case errors.Is(err, crawl.ErrOtherPayload):
		err = usage(fmt.Errorf("--key %s was used for other seeds in the last 24 h: use another key; %d of these seeds are in the crawl: %w", key, sum.Added+sum.Seen, err))
	case sum.Repeated > 0 && sum.Repeated == all:
		fmt.Fprintf(s.err, "--key %s: an earlier command has added these seeds already; these are its counts\n", key)
	case sum.Repeated > 0:
		fmt.Fprintf(s.err, "--key %s: an earlier command had added %d of %d seeds; the counts are those of both\n", key, sum.Repeated, all)
	}
	return sum.SeedCounts, err
}

// keyID returns the identity of a change with a key.
func keyID(command, key string) [32]byte {
	return sha256.Sum256([]byte("crawler " + command + "\x00" + key))
}

// sayRepeated says that an earlier command had the answer, and returns the error of a command with a key.
func sayRepeated(s streams, key string, repeated bool, err error) error {
	if errors.Is(err, crawl.ErrOtherPayload) {
		return usage(fmt.Errorf("--key %s was used for another selection in the last 24 h: use another key: %w", key, err))
	}
	if repeated && err == nil {
		_, err = fmt.Fprintf(s.err, "--key %s: an earlier command has done this already; this is its answer\n", key)
	}
	return err
}

// keyFlag declares --key. The argument more is added to its help.
func keyFlag(flags *pflag.FlagSet, key *string, more string) {
	flags.StringVar(key, "key", "", "`KEY` of this change: a repeat has no second effect"+more)
	checkText(flags, "key", "1 to 255 visible ASCII characters without spaces", crawl.CheckKey)
}

// spool is a temporary file with the text of stdin.
type spool struct{ *os.File }

// remove removes the file. It does nothing for nil.
func (s *spool) remove() {
	if s != nil {
		_ = s.Close()
		_ = os.Remove(s.Name())
	}
}

// digestSeeds returns a digest of the seeds. If they come from stdin, it copies stdin to a file, which must be read instead.
func digestSeeds(ctx context.Context, args []string, file string, stdin io.Reader) (digest string, copied *spool, err error) {
	if file == "-" {
		f, err := os.CreateTemp("", "crawler-seeds-")
		if err != nil {
			return "", nil, err
		}
		copied = &spool{f}
		_, err = io.Copy(f, seeds.Interruptible(ctx, stdin))
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		if err != nil {
			copied.remove()
			return "", nil, err
		}
		stdin = io.NewSectionReader(f, 0, math.MaxInt64)
	}
	r, err := seeds.Open(ctx, args, file, stdin)
	if err != nil {
		copied.remove()
		return "", nil, usage(err)
	}
	defer r.Close()
	if digest, err = seeds.Digest(r); err != nil {
		copied.remove()
	}
	return digest, copied, err
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
