package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
	"github.com/bloomfrontier/crawler/sizing"
)

func newCrawl(s streams) *cobra.Command {
	o := new(options)
	cmd := &cobra.Command{
		Use:   "crawl [SEED...]",
		Short: "Crawl from seeds, or resume a crawl",
		Long: `Crawl from seeds, or resume a crawl.

A crawl lives in a directory; the same command resumes it. What changes which
URLs there are, how polite the crawl is or how large the filter, is fixed when
the crawl is created, and marked so below. A seed without a scheme is tried as
https. Ctrl-C finishes what is under way; twice stops at once; either way
nothing is lost.`,
		Example: `  crawler crawl --max-pages 100 https://go.dev/
  crawler crawl --seeds hosts.txt.gz --scope domain --dir archive.crawl
  crawler crawl --dir archive.crawl --concurrency 200`,
	}
	sections := o.flagSets()
	addSections(cmd, sections)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return runCrawl(cmd.Context(), o, cmd.Flags(), args, s)
	}
	return cmd
}

// addSections gives a command the flags of all sections, and a help that keeps
// their headings.
func addSections(cmd *cobra.Command, sections []section) {
	for _, sec := range sections {
		sec.SortFlags = false
		cmd.Flags().AddFlagSet(sec.FlagSet)
	}
	cmd.Flags().SortFlags = false
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		w := c.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n", c.UseLine())
		if c.HasExample() {
			fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
		}
		for _, sec := range sections {
			fmt.Fprintf(w, "\n%s:\n%s", sec.name(), sec.FlagUsagesWrapped(100))
		}
		fmt.Fprintf(w, "\nEach flag can stand in --config FILE (YAML) or in the environment (%sDELAY=2s).\n", envPrefix)
		return nil
	})
}

// name returns the heading, which pflag keeps as the set's name.
func (s section) name() string { return s.FlagSet.Name() }

// resolve brings flags, environment, config file and the crawl in dir together.
func resolve(o *options, flags *pflag.FlagSet, args []string) (*layers, checked, string, error) {
	l, err := readLayers(flags, o.config, os.Environ())
	if err != nil {
		return nil, checked{}, "", usage(err)
	}
	dir := o.dir
	if dir == "" {
		dir, err = defaultDir(args, o.seeds, func(seed string) (string, error) {
			url, err := parseSeed(seed)
			return url.Host(), err
		})
		if err != nil {
			return nil, checked{}, "", usage(err)
		}
	}
	stored, err := localstore.StoredSettings(nil, dir)
	if err != nil {
		return nil, checked{}, "", &exitError{exitFailed, err}
	}
	if err := l.adopt(stored); err != nil {
		return nil, checked{}, "", usage(err)
	}
	c, err := o.check()
	if err != nil {
		return nil, checked{}, "", usage(err)
	}
	if stored == nil && len(args) == 0 && o.seeds == "" {
		return nil, checked{}, "", usage(fmt.Errorf("no crawl in %s, and no seeds: name a URL or --seeds FILE", dir))
	}
	return l, c, dir, nil
}

func runCrawl(ctx context.Context, o *options, flags *pflag.FlagSet, args []string, s streams) (err error) {
	l, c, dir, err := resolve(o, flags, args)
	if err != nil {
		return err
	}
	seeds, err := newSeedReader(args, o.seeds, s.in)
	if err != nil {
		return usage(err)
	}
	defer seeds.close()
	limitMemory(o)
	ses, err := openSession(o, l, c, dir, s, localstore.Open)
	if err != nil {
		return err
	}
	stopProfile, err := startProfile(o.cpuProfile)
	if err != nil {
		return errors.Join(usage(err), ses.close())
	}
	begun := time.Now()
	end, counts, err := ses.work(ctx, seeds, s)
	stopProfile()
	stats, statsErr := ses.store.Stats(context.WithoutCancel(ctx))
	if err == nil {
		err = statsErr
	}
	if closeErr := ses.close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return &exitError{exitFailed, fmt.Errorf("%w\nwhat was committed is safe in %s", err, dir)}
	}
	summary{ses: ses, stats: stats, seeds: counts, end: end, took: time.Since(begun)}.print(s.err)
	if err := stats.Balance(); err != nil {
		return &exitError{exitFailed, err}
	}
	switch {
	case end == fetcher.Stopped && ctx.Err() != nil:
		return &exitError{signalCode(ctx), nil}
	case stats.Pages == 0 && end == fetcher.Empty:
		return &exitError{exitNothing, errors.New("no seed could be fetched")}
	}
	return nil
}

// heapRoom is what a crawl's heap may take beside its filter before the garbage
// collector works harder. Live data is a fraction of it.
const heapRoom = 160 << 20

// limitMemory keeps the process from growing because garbage is collected late.
func limitMemory(o *options) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	bits, _ := sizing.OptimalBits(uint64(o.urls), float64(o.fpr))
	debug.SetMemoryLimit(int64(bits/8) + heapRoom)
}

// startProfile profiles the run into a file, if it has a name.
func startProfile(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { pprof.StopCPUProfile(); _ = f.Close() }, nil
}

// endTime is the end of a run that --max-time stopped.
const endTime fetcher.End = "time"

// work feeds the seeds and crawls until an end.
func (ses *session) work(ctx context.Context, seeds *seedReader, s streams) (fetcher.End, seedCounts, error) {
	waitControl, err := ses.serveControl(ctx)
	if err != nil {
		return "", seedCounts{}, err
	}
	defer waitControl()
	run, stop := context.WithCancel(ctx)
	defer stop()
	timedOut := func() bool { return false }
	if ses.o.maxTime > 0 {
		limit := time.Now().Add(ses.o.maxTime)
		timer := time.AfterFunc(ses.o.maxTime, stop)
		defer timer.Stop()
		timedOut = func() bool { return !time.Now().Before(limit) && ctx.Err() == nil }
	}
	defer ses.secondSignal(ctx, s.err)()

	fed := make(chan error, 1)
	var counts seedCounts
	release := ses.crawl.Hold()
	go func() {
		defer release()
		var err error
		counts, err = feed(run, seeds, ses.offer, s.err)
		if run.Err() != nil {
			err = nil
		}
		if err != nil {
			stop()
		}
		fed <- err
	}()
	progress := startProgress(run, ses, s.err)
	end, err := ses.crawl.Run(run)
	stop()
	progress()
	if c, ok := seeds.input(); ok {
		_ = c.Close() // a read from a terminal or pipe does not end by itself
	}
	err = errors.Join(err, <-fed)
	if end == fetcher.Stopped && timedOut() {
		end = endTime
	}
	return end, counts, err
}

// secondSignal aborts requests under way when a second signal comes.
func (ses *session) secondSignal(ctx context.Context, stderr io.Writer) (cancel func()) {
	signals := make(chan os.Signal, 1)
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		fmt.Fprintf(stderr, "\nstopping: finishing what is under way, at most %v (again: at once)\n", ses.o.grace)
		select {
		case <-signals:
			ses.crawl.Abort()
		case <-done:
		}
	})
	return func() {
		stop()
		signal.Stop(signals)
		close(done)
	}
}

// resumeLine is the command that goes on with a crawl.
func resumeLine(dir string) string {
	if strings.ContainsAny(dir, " '\"$&;()*?") {
		dir = "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	}
	return "crawler crawl --dir " + dir
}

// status is what `crawler status --json` prints.
type status struct {
	Running  bool             `json:"running"`
	Stats    frontier.Stats   `json:"stats"`
	Progress fetcher.Progress `json:"progress"`
}
