// Package dedup is the subcommand `crawler dedup`: it reads URLs and prints those
// that were not seen before, in order and without delay.
//
// It owns the stream of lines, the set of seen URLs (a filter, or an exact set) and the
// directory that keeps the set between runs. Package canon decides which URLs are equal.
// docs/reference/dedup.md lists the guarantees. The package does not depend on crawls.
package dedup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/cmd/crawler/internal/form"
	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/human"
)

// options are the flags of the command.
type options struct {
	dir   string
	urls  human.Count
	fpr   human.Rate
	exact bool
	form  form.Flags
	print string
	null  bool

	given func(flag string) bool

	// For tests.
	interval uint64 // keys between two checkpoints; 0 means the default
}

// Values of --print.
const (
	printInput     = "input"
	printCanonical = "canonical"
)

// Bounds that package membits sets for --urls and --fpr.
const (
	maxURLs = 1 << 40
	minFPR  = 1e-12
)

// heapRoom is the size of the heap, without the set of seen URLs, at which garbage is
// collected. Live objects are about a tenth of it.
const heapRoom = 16 << 20

// Command returns the command, with its flags.
func Command() *cobra.Command { return newCommand(new(options)) }

func newCommand(o *options) *cobra.Command {
	o.urls, o.fpr = 10_000_000, 1e-6
	var options canon.Options
	var want settings
	command := &cobra.Command{
		Use:   "dedup",
		Short: "Print the URLs of a stream that were not seen before",
		Long: `crawler dedup reads URLs, one a line, and prints those whose canonical form it
has not seen before: in order, and at once, so that it can stand in a pipe that
stays open. A Bloom filter remembers them in a few bytes each; it takes a new URL
for a known one with a probability of at most --fpr. With --exact it never does.

With --dir what was printed stays known to later runs, whatever ends this one.
Of URLs that were being printed at the moment of a kill some are printed twice;
none is lost.`,
		Example: `  crawler dedup < urls.txt > new.txt
  tail -f found.log | crawler dedup --dir seen.dedup --urls 100M
  crawler dedup --exact --print canonical < urls.txt`,
		// Args also checks the flags, because an error of Args counts as a fault of the
		// command line, like an unknown flag.
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) > 0 {
				return fmt.Errorf("%q is an argument, want URLs on stdin, as in: crawler dedup < %s", args[0], args[0])
			}
			o.given = cmd.Flags().Changed
			options, want, err = o.check()
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), options, want, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addTo(command.Flags())
	return command
}

func (o *options) addTo(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.dir, "dir", "", "keep what was printed in `DIR`, for the next run")
	f.Var(&o.urls, "urls", "URLs that the filter is sized for; it grows beyond (fixed with --dir)")
	f.Var(&o.fpr, "fpr", "probability that a new URL is taken for a known one (fixed with --dir)")
	f.BoolVar(&o.exact, "exact", false, "keep 16 bytes of each URL instead of a filter: no errors, 6 times the memory (fixed with --dir)")
	o.form.AddTo(f)
	f.StringVar(&o.print, "print", printInput, "print lines as they came or URLs in `input|canonical` form")
	f.BoolVarP(&o.null, "null", "0", false, "lines end with a zero byte, not with a newline, in and out")
	restrict.Within(f, "urls", &o.urls, 1, maxURLs, "a whole number from 1 to 1.09T, such as 250000, 10M or 1e9")
	restrict.Within(f, "fpr", &o.fpr, minFPR, 1, "a probability from 1e-12 to 0.99, such as 1e-6, 0.1% or '1 in 1000000'")
	restrict.Flag(f, "print", printInput+" or "+printCanonical, func() bool { return o.print == printInput || o.print == printCanonical })
}

// check returns the canonical form and the settings that the flags ask for, or an error
// that lists all faults. Settings that are not given come from an existing --dir.
func (o *options) check() (canon.Options, settings, error) {
	var errs []error
	if o.exact && (o.given("urls") || o.given("fpr")) {
		errs = append(errs, errors.New("--exact has no filter that --urls and --fpr could size"))
	}
	want := settings{Exact: o.exact, URLs: uint64(o.urls), FPR: float64(o.fpr)}
	if o.exact {
		want.URLs, want.FPR = 0, 0
	}
	options := o.form.Options()
	var stored card
	if o.dir != "" {
		var err error
		if stored, err = readCard(o.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	known := stored.Format != 0
	if known {
		want = o.adopt(want, stored.settings)
		if !slices.ContainsFunc(form.Names, o.given) {
			options = stored.Canon
		}
		if err := canon.CheckForm(stored.Form); err != nil {
			return options, want, errors.Join(append(errs, fmt.Errorf("%s: %w", o.dir, err))...)
		}
	}
	c, err := canon.New(options)
	if err != nil {
		return options, want, errors.Join(append(errs, err)...)
	}
	if want.Form = c.Form(); known {
		errs = append(errs, want.differ(stored.settings, o.dir))
	}
	return options, want, errors.Join(errs...)
}

// adopt returns the requested settings, with the stored value for each setting that was
// not given. With --exact, adopt returns the requested settings unchanged.
func (o *options) adopt(requested, stored settings) settings {
	if o.exact {
		return requested
	}
	if !o.given("exact") && !o.given("urls") && !o.given("fpr") {
		requested.Exact = stored.Exact
	}
	if !o.given("urls") {
		requested.URLs = stored.URLs
	}
	if !o.given("fpr") {
		requested.FPR = stored.FPR
	}
	return requested
}

// differ returns an error that lists the differences between the settings of a run and
// those of dir, or nil.
func (s settings) differ(stored settings, dir string) error {
	var faults []string
	note := func(name string, there, here any) {
		if there != here {
			faults = append(faults, fmt.Sprintf("\n  %s is %v there, %v here", name, there, here))
		}
	}
	note("--exact", stored.Exact, s.Exact)
	note("--urls", stored.URLs, s.URLs)
	note("--fpr", stored.FPR, s.FPR)
	note("the canonical form", stored.Form, s.Form)
	if faults == nil {
		return nil
	}
	return fmt.Errorf("%s was created with other settings, which are fixed:%s\nleave them out, or begin another --dir",
		dir, strings.Join(faults, ""))
}

// run reads lines from input, and writes those with new URLs to out. It writes a summary
// to report.
func (o *options) run(ctx context.Context, options canon.Options, want settings, input io.Reader, out, report io.Writer) (err error) {
	begun := time.Now()
	s := &stream{
		out: out, faults: report, canonical: o.print == printCanonical, grew: limitMemory,
	}
	if s.end = '\n'; o.null {
		s.end = 0
	}
	if s.canon, err = canon.New(options); err != nil {
		return err
	}
	key := bloomstore.NewKey()
	if o.dir == "" {
		s.seen, err = want.newSeen()
	} else {
		s.keep, err = openStore(o.dir, want, options)
	}
	if err != nil {
		return err
	}
	if s.keep != nil {
		defer func() { err = errors.Join(err, s.keep.close()) }()
		s.keep.interval = o.interval
		s.seen, key = s.keep.seen, bloomstore.Key(s.keep.card.Key)
	}
	s.hasher = bloomstore.NewHasher(key)
	before := s.seen.keys()
	err = s.run(ctx, input)
	summary{counts: s.counts, settings: want, before: before, keys: s.seen.keys(), bytes: s.seen.bytes(), took: time.Since(begun)}.print(report)
	if c, ok := input.(io.Closer); ok && ctx.Err() != nil {
		_ = c.Close() // this can end a Read that is under way
	}
	return err
}

// limitMemory bounds the garbage on the heap. By default, Go would let the process grow
// to twice the size of the set.
func limitMemory(bytes uint64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(bytes) + heapRoom)
	}
}
