package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/crawl"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/cmd/crawler/internal/sanitize"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/dedup"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/sizing"
)

// dedupFlags are the flags of `crawler dedup`.
type dedupFlags struct {
	config dedup.Config // complete after check
	urls   human.Count
	fpr    human.Rate
	key    string
	window human.Period
	form   crawl.Settings // only those of formNames
	print  string

	given func(flag string) bool
}

// Values of --key and --print.
const (
	keyURL         = "url" // value of --key; dedup.KeyURL in settings
	printInput     = "input"
	printCanonical = "canonical"
)

// newDedup returns the command that prints the URLs of a stream that were not seen before.
func newDedup() *cobra.Command {
	o := &dedupFlags{urls: 10_000_000, fpr: 1e-6}
	command := &cobra.Command{
		Use:   "dedup",
		Short: "Print the URLs of a stream, or other lines, that were not seen before",
		Long: `crawler dedup reads URLs, one a line, and prints those whose canonical form it
has not seen before: in order, and at once, so that it can stand in a pipe that
stays open. A Bloom filter remembers them in a few bytes each; it takes a new URL
for a known one with a probability of at most --fpr. With --exact it never does.

With --key lines are notifications, orders or other things with an id. With
--window an id is forgotten some time after its line was printed.

With --dir what was printed stays known to later runs, whatever ends this one.
Of URLs that were being printed at the moment of a kill some are printed twice;
none is lost.`,
		Example: `  crawler dedup < urls.txt > new.txt
  tail -f found.log | crawler dedup --dir seen.dedup --urls 100M
  crawler dedup --exact --print canonical < urls.txt
  crawler dedup --key json:id --window 24h --exact --dir orders.dedup < orders.jsonl
  cut -d ' ' -f 7 access.log | crawler dedup --base https://example.org/ --print canonical`,
		// Args also checks the flags, because an error of Args counts as a fault of the
		// command line, like an unknown flag.
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q is an argument, want URLs on stdin, as in: crawler dedup < %s", args[0], args[0])
			}
			o.given = cmd.Flags().Changed
			return o.check()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := sanitize.Unwrap(cmd.OutOrStdout()) // dedup.Run syncs a regular file, so it needs the file itself
			return runDedup(cmd.Context(), o.config, cmd.InOrStdin(), out, cmd.ErrOrStderr())
		},
	}
	o.addTo(command.Flags())
	return command
}

func (o *dedupFlags) addTo(f *pflag.FlagSet) {
	// Bounds that package membits sets.
	const maxKeys, minFPR = 1 << 40, 1e-12
	f.SortFlags = false
	f.StringVar(&o.config.Dir, "dir", "", "keep what was printed in `DIR`, for the next run")
	f.Var(&o.urls, "urls", "URLs that the filter is sized for; it grows beyond (fixed with --dir)")
	f.Var(&o.fpr, "fpr", "probability that a new URL is taken for a known one (fixed with --dir)")
	f.StringVar(&o.key, "key", keyURL, "what identifies a line: `url|raw|json:FIELD|sha256` (fixed with --dir)")
	f.Var(&o.window, "window", "forget a line some `TIME` after it was printed, such as 24h or 30d; --urls are then the new ones of that time (default never; fixed with --dir)")
	f.BoolVar(&o.config.Exact, "exact", false, "keep 16 bytes of each URL instead of a filter: no errors, 6 times the memory (fixed with --dir)")
	o.form = crawl.DefaultSettings()
	addRows(f, &o.form, formNames...)
	f.StringVar(&o.config.Base, "base", "", "lines can be relative to `URL`: for logs of paths, https://example.org/")
	restrict.Check(f, "base", func(text string) error {
		c, err := canon.New(canon.Options{})
		if err == nil {
			_, err = c.Parse(text)
		}
		if err != nil {
			return fmt.Errorf("want an http or https URL: %w", err)
		}
		return nil
	})
	f.StringVar(&o.print, "print", printInput, "print lines as they came or URLs in `input|canonical` form")
	f.BoolVarP(&o.config.Null, "null", "0", false, "lines end with a zero byte, not with a newline, in and out")
	restrict.Within(f, "urls", &o.urls, 1, maxKeys, "a whole number from 1 to 1.09T, such as 250000, 10M or 1e9")
	restrict.Within(f, "fpr", &o.fpr, minFPR, 1, "a probability from 1e-12 to 0.99, such as 1e-6, 0.1% or '1 in 1000000'")
	restrict.Check(f, "key", func(text string) error {
		if text == keyURL {
			return nil
		}
		return dedup.CheckLineKey(text)
	})
	restrict.Within(f, "window", &o.window, human.Period(time.Minute), human.Period(forever), "a time of 1m or more, such as 24h or 30d")
	restrict.Flag(f, "print", printInput+" or "+printCanonical, func() bool { return o.print == printInput || o.print == printCanonical })
}

// check completes the config. Settings that are not given come from an existing --dir.
// The error lists all faults.
func (o *dedupFlags) check() error {
	var errs []error
	cfg := &o.config
	if o.key != keyURL {
		cfg.LineKey = o.key
	}
	cfg.Window = human.Seconds(o.window)
	cfg.Canon, cfg.Canonical, cfg.SetBytes = formOptions(&o.form), o.print == printCanonical, limitMemory
	if !cfg.Exact {
		cfg.URLs, cfg.FPR = uint64(o.urls), float64(o.fpr)
	} else if o.given("urls") || o.given("fpr") {
		errs = append(errs, errors.New("--exact has no filter that --urls and --fpr could size"))
	}
	stored, options, err := dedup.ReadSettings(cfg.Dir)
	known := err == nil
	if known {
		o.adopt(stored, options)
	} else if !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, err)
	}
	c, err := canon.New(cfg.Canon)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if cfg.LineKey == dedup.KeyURL {
		cfg.Form = c.Form()
	} else if o.given("base") || o.given("print") && cfg.Canonical || slices.ContainsFunc(formNames, o.given) {
		errs = append(errs, fmt.Errorf("--base, --print canonical, %s are for URLs, not for --key %s", "--"+strings.Join(formNames, ", --"), cfg.LineKey))
	}
	if cfg.Window > 0 && !cfg.Exact && cfg.FPR < dedup.MinWindowFPR {
		errs = append(errs, fmt.Errorf("--fpr is %g, want %g or more with --window", cfg.FPR, dedup.MinWindowFPR))
		return errors.Join(errs...)
	}
	if !known {
		cfg.Settings = cfg.WithGenerations()
	}
	if known && cfg.Settings != stored {
		errs = append(errs, otherSettings(cfg.Dir, stored, cfg.Settings))
	}
	return errors.Join(errs...)
}

// adopt takes the stored value of each setting that was not given. With --exact, adopt
// takes only the canonical form.
func (o *dedupFlags) adopt(stored dedup.Settings, options canon.Options) {
	cfg := &o.config
	if !slices.ContainsFunc(formNames, o.given) {
		cfg.Canon = options
	}
	if !o.given("key") {
		cfg.LineKey = stored.LineKey
	}
	if !o.given("window") {
		cfg.Window = stored.Window
	}
	if cfg.Window == stored.Window {
		cfg.Generations = stored.Generations
	}
	if cfg.Exact {
		return
	}
	if !o.given("exact") && !o.given("urls") && !o.given("fpr") {
		cfg.Exact = stored.Exact
	}
	if !o.given("urls") {
		cfg.URLs = stored.URLs
	}
	if !o.given("fpr") {
		cfg.FPR = stored.FPR
	}
}

// otherSettings returns an error that lists the differences between the stored settings of
// a directory and the given ones.
func otherSettings(dir string, stored, given dedup.Settings) error {
	var faults strings.Builder
	note := func(name string, there, here any) {
		if there != here {
			fmt.Fprintf(&faults, "\n  %s is %v there, %v here", name, there, here)
		}
	}
	note("--exact", stored.Exact, given.Exact)
	if stored.Exact == given.Exact { // otherwise one of the two has no filter, so no --urls and no --fpr
		note("--urls", stored.URLs, given.URLs)
		note("--fpr", stored.FPR, given.FPR)
	}
	key := func(s dedup.Settings) string { return cmp.Or(s.LineKey, keyURL) }
	note("--key", key(stored), key(given))
	note("--window", time.Duration(stored.Window), time.Duration(given.Window))
	if key(stored) == key(given) {
		note("the canonical form", stored.Form, given.Form)
	}
	return fmt.Errorf("%s was created with other settings, which are fixed:%s\nleave them out, or begin another --dir", dir, &faults)
}

// runDedup writes the lines with new URLs to out, and a summary to report.
func runDedup(ctx context.Context, cfg dedup.Config, input io.Reader, out, report io.Writer) error {
	begun := time.Now()
	result, err := dedup.Run(ctx, cfg, input, out, report)
	if result != nil {
		printDedup(report, cfg.Settings, result, time.Since(begun))
	}
	if err == nil && result != nil && result.Malformed > 0 && result.New+result.Seen == 0 {
		hint := ""
		if cfg.Base == "" {
			hint = "; if they are paths, name the site with --base URL"
		}
		if cfg.LineKey != dedup.KeyURL {
			return &exitError{exitFailed, fmt.Errorf("no line has the key %s", cfg.LineKey)}
		}
		return &exitError{exitFailed, fmt.Errorf("no line is a URL%s", hint)}
	}
	if other, is := errors.AsType[*dedup.SettingsError](err); is { // another process created the directory since the check
		return otherSettings(cfg.Dir, other.Stored, other.Given)
	}
	if c, ok := input.(io.Closer); ok && ctx.Err() != nil {
		_ = c.Close() // this can end a Read that is under way
	}
	return err
}

// limitMemory bounds the garbage on the heap. The set of known URLs has setBytes bytes. By
// default, Go would let the process grow to twice this size.
func limitMemory(setBytes uint64) {
	// heapRoom is the size of the heap, without the set, at which garbage is collected.
	// Live objects are about a tenth of it.
	const heapRoom = 16 << 20
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(setBytes) + heapRoom)
	}
}

// printDedup prints the summary of a run.
func printDedup(w io.Writer, settings dedup.Settings, r *dedup.Result, took time.Duration) {
	rate := float64(r.Lines) / took.Seconds()
	fmt.Fprintf(w, "%s in %v (%s/s): %s new, %s seen, %s malformed",
		human.Plural(r.Lines, "line"), took.Round(time.Millisecond), human.Commas(uint64(rate)),
		human.Commas(r.New), human.Commas(r.Seen), human.Commas(r.Malformed))
	if r.Empty > 0 {
		fmt.Fprintf(w, ", %s empty", human.Commas(r.Empty))
	}
	thing := "URL"
	if settings.LineKey != dedup.KeyURL {
		thing = "key"
	}
	fmt.Fprintf(w, "\n%s known, in %s", human.Plural(r.Keys, thing), human.IBytes(r.Bytes))
	if settings.Window > 0 {
		window := human.Period(settings.Window)
		kept := human.Period(sizing.Window{Generations: settings.Generations}.Kept(time.Duration(window)))
		fmt.Fprintf(w, ", forgotten after %s to %s", &window, &kept)
	}
	if settings.Exact {
		fmt.Fprintln(w, ", exactly")
		return
	}
	if settings.Window > 0 {
		fmt.Fprintf(w, " made for %s of one window; at most about %s new ones of this run were taken for known ones\n",
			human.Commas(settings.URLs), human.Few(float64(r.New)*settings.FPR))
		return
	}
	chain := sizing.Chain{Keys: settings.URLs, FPR: settings.FPR, Growth: true}
	begin, end := chain.At(r.Before), chain.At(r.Keys)
	rateNow := "below 1e-15"
	if end.FPR >= 1e-15 {
		rateNow = fmt.Sprintf("%.2g", end.FPR)
	}
	fmt.Fprintf(w, " made for %s; p is %s now, about %s new URLs of this run were taken for known ones\n",
		human.Commas(settings.URLs), rateNow, human.Few(end.LostKeys-begin.LostKeys))
}
