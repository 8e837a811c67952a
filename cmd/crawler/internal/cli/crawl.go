package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
)

func newCrawl(s streams) *cobra.Command {
	o := new(options)
	var p *plan
	cmd := &cobra.Command{
		Use:   "crawl [SEED...] [flags]",
		Short: "Crawl from seeds, or resume a crawl",
		Long: `Crawl from seeds, or resume a crawl.

A crawl lives in a directory, and the same command resumes it. A seed without
a scheme is tried as https. Ctrl-C finishes what is under way, twice stops at
once; either way nothing is lost. Records go to DIR/pages.jsonl, one line of
JSON for each URL.

With --redis and --name a crawl lives in a Redis, and any number of workers on
any machines share it: the first command creates it, the same command joins it.
Each worker has a directory of its own for its records; crawler export merges
them. --postgres has the URLs that --exact names, whatever becomes of Redis.`,
		Example: `  crawler crawl --max-pages 100 https://go.dev/
  crawler crawl --seeds hosts.txt.gz --scope domain --dir archive.crawl
  crawler crawl --dir archive.crawl --concurrency 200
  crawler crawl --redis redis://10.0.0.5 --name archive --seeds hosts.txt.gz`,
		DisableFlagsInUseLine: true,
	}
	addSections(cmd, o.newFlags())
	cmd.PreRunE = func(cmd *cobra.Command, args []string) (err error) {
		if p, err = o.resolve(cmd.Context(), cmd.Flags(), args); err == nil && p.stored == nil && len(args) == 0 && o.seeds == "" {
			err = usage(fmt.Errorf("%s, and no seeds: name a URL or --seeds FILE", p.missing()))
		}
		return err
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.within(func() error { return p.run(cmd.Context(), args, s) })
	}
	return cmd
}

// run crawls until an end.
func (p *plan) run(ctx context.Context, args []string, s streams) (err error) {
	c := newConsole(s.err)
	if p.quiet {
		c = newQuietConsole(s.err)
	}
	s.err = c
	config, files, err := p.runConfig(s)
	if err != nil {
		return usage(err)
	}
	defer func() { err = errors.Join(err, files.close()) }()
	if p.stored == nil && p.seeds == "" {
		if err := refuseAll(ctx, config, args); err != nil { // and leave no directory behind
			return err
		}
	}
	reading, endReading := context.WithCancel(ctx)
	defer endReading()
	seeds, err := newSeedReader(reading, args, p.options.seeds, s.in)
	if err != nil {
		return usage(err)
	}
	defer seeds.close()
	var filled atomic.Pointer[crawl.Crawl]
	keeper := newKeeper(uint64(p.memory), func() uint64 {
		if c := filled.Load(); c != nil {
			return c.FilterBytes()
		}
		return 0
	})
	config.Scarce = keeper.scarce
	r := &running{plan: p, console: c, files: files, log: config.Logger, seeds: seeds}
	config.Resume = r.resume
	opened, err := crawl.Open(ctx, config)
	if err != nil {
		return p.explain(err)
	}
	filled.Store(opened)
	keeper.follow()
	r.Crawl, r.dir = opened, opened.Dir()
	stopProfile, err := startProfile(p.cpuProfile)
	if err != nil {
		return errors.Join(usage(err), opened.Close())
	}
	result, err := r.work(ctx, endReading)
	stopProfile()
	if err == nil && result.Unreached != nil {
		result.Unreached = r.unreached(ctx, result)
	}
	if closeErr := opened.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return r.failure(err)
	}
	r.print(result)
	return r.exit(ctx, result)
}

// runConfig returns the config of a run, and the files that it appends to.
func (p *plan) runConfig(s streams) (config crawl.Config, files runFiles, err error) {
	if config, err = p.config(); err != nil {
		return config, files, err
	}
	level := p.logLevel
	if p.quiet && (level == "info" || level == "debug") {
		level = "warn"
	}
	config.Logger = newLogger(s.err, level, p.logFormat)
	if config.Tests.Crash, err = crashHook(p.crashAt); err != nil {
		return config, files, err
	}
	if files.refused, err = openRefusals(p.refused); err != nil {
		return config, files, err
	}
	config.OnRefused = files.refused.onRefused()
	switch p.out {
	case toFiles, "":
	case "-":
		config.Records.Stream = s.out
	default:
		if files.appended, err = openAppend(p.out); err != nil {
			return config, files, errors.Join(fmt.Errorf("--out: %w", err), files.close())
		}
		config.Records.Stream = files.appended
	}
	return config, files, nil
}

// runFiles are the files that a run appends to, beside those of the crawl.
type runFiles struct {
	appended *os.File    // of --out; nil: none
	refused  *refusalLog // of --refused; nil: none
}

func (f *runFiles) close() error {
	err := f.refused.close()
	if f.appended != nil {
		err = errors.Join(err, f.appended.Close())
	}
	return err
}

// refuseAll returns an error if none of seeds can be crawled.
func refuseAll(ctx context.Context, config crawl.Config, seeds []string) error {
	faults, err := config.CheckSeeds(ctx, seeds)
	if err != nil {
		return usage(err)
	}
	var why []error
	for _, fault := range faults {
		if fault == nil {
			return nil
		}
		why = append(why, fmt.Errorf("seed refused: argument: %w", fault))
	}
	if why == nil {
		return nil
	}
	return &exitError{exitNothing, errors.Join(append(why, errNoSeed)...)}
}

// errNoSeed is the message of exit code 3.
var errNoSeed = errors.New("no seed could be fetched")

// running is a crawl that this command runs, with what shows it.
type running struct {
	*plan
	*crawl.Crawl
	console *console
	files   runFiles
	log     *slog.Logger
	seeds   *seedReader
	dir     string           // of this process's records
	fed     crawl.SeedCounts // set when all was fed
	paused  bool             // when the run began
}

// work feeds the seeds and crawls until an end. endReading makes the reader of
// seeds give up.
func (r *running) work(ctx context.Context, endReading func()) (*crawl.Result, error) {
	endServing, err := r.serveAdmin(ctx, r.console.notices())
	if err != nil {
		return nil, err
	}
	defer endServing()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-r.Stopping():
			r.ending.begin(r.options.crawl.Grace)
		case <-over:
		}
	}()
	defer r.secondSignal(ctx, r.console.notices())()
	if err := r.announce(ctx, r.console); err != nil {
		return nil, err
	}
	crawling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	fed := r.feedSeeds(crawling, stop)
	watching, endWatching := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(watching) })
	result, err := r.Run(crawling)
	stop(nil)
	endReading()
	err = errors.Join(err, <-fed)
	endWatching()
	watch.Wait()
	r.console.clear()
	return result, err
}

// feedSeeds adds the seeds beside the crawl, which cannot end before; then fed has
// what came of it. An error stops the crawl.
func (r *running) feedSeeds(ctx context.Context, stop func(error)) (fed <-chan error) {
	ended := make(chan error, 1)
	done := r.Feed()
	go func() {
		var counts crawl.SeedCounts
		err := r.markKnown(ctx, r.Crawl)
		if err == nil {
			counts, err = feed(ctx, r.seeds, r.Handle, r.console)
		}
		if ctx.Err() != nil {
			err = nil
		}
		if err != nil {
			stop(err)
		}
		r.fed = counts
		done(counts)
		ended <- err
	}()
	return ended
}

// failure says what to do about the error of a run.
func (r *running) failure(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist): // a directory that was removed
		return &exitError{exitFailed, err}
	case errors.Is(err, frontier.ErrFilterLost):
		return r.explain(err)
	}
	return &exitError{exitFailed, fmt.Errorf("%w\nwhat was committed is safe in %s", err, r.place)}
}

// exit returns what the exit code says of a run that came to an end.
func (r *running) exit(ctx context.Context, result *crawl.Result) error {
	if err := crawl.Promises(result.Stats); err != nil {
		return &exitError{exitFailed, err}
	}
	switch {
	case result.End == fetcher.Stopped:
		return &exitError{signalCode(ctx), nil}
	case result.Unreached != nil:
		return &exitError{exitUnreached, result.Unreached}
	case result.Stats.Pages == 0 && result.End == fetcher.Empty:
		return &exitError{exitNothing, errNoSeed}
	}
	return nil
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

// announce says which crawl this is.
func (r *running) announce(ctx context.Context, c *console) error {
	w := c.notices()
	if r.options.crawl.Fixed.Robots == "ignore" {
		fmt.Fprintln(c, "robots.txt is not obeyed (--robots ignore): crawl sites that are yours, or that allowed it")
	}
	r.trust.announce(w)
	r.announcePrivate(w)
	where := r.place.String()
	if where != r.dir {
		where += ", records in " + r.dir
	}
	if r.stored == nil {
		fmt.Fprintf(w, "crawling into %s; Ctrl-C stops, the same command resumes\n", where)
		return nil
	}
	var st report.Status
	err := untilAvailable(ctx, c, "the crawl waits", func() (err error) {
		st, err = r.Status(context.WithoutCancel(ctx))
		return err
	})
	if err != nil {
		return err
	}
	stats := st.Stats
	fmt.Fprintf(w, "resuming %s: %s, %s queued\n", where, human.Plural(stats.Pages, "page"), human.Commas(stats.Queued+stats.Leased))
	if r.paused = stats.Paused; r.paused {
		fmt.Fprintf(c, "it is paused: '%s' goes on\n", r.command("resume"))
	}
	return nil
}

// announcePrivate says where headers are sent that may be secret.
func (r *running) announcePrivate(w io.Writer) {
	names := r.PrivateHeaders()
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(w, "sent to the origins of seeds only: %s; 'hosts:' in the config file names headers for others\n", strings.Join(names, ", "))
	if r.stored != nil && r.options.seeds == "" && r.flags.NArg() == 0 {
		fmt.Fprintln(w, "these origins are those of the seeds of runs with such headers: if the seeds were named in others, name them again")
	}
}

// secondSignal says that the crawl stops because ctx ended or another process
// wants it, and aborts requests under way when a second signal
// comes; a third ends the process as if nobody listened.
func (r *running) secondSignal(ctx context.Context, stderr io.Writer) (cancel func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM) // from the start: the first ends ctx too
	quit, ended, said := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(said)
		select {
		case <-r.Stopping():
		case <-quit:
			return
		}
		if r.StoppedBy() == crawl.ErrTimeOver {
			return
		}
		fmt.Fprintf(stderr, "stopping: finishing what is under way, at most %v (again: at once)\n", max(r.options.crawl.Grace, 0))
	}()
	go func() {
		defer close(ended)
		for range 2 {
			select {
			case <-signals:
			case <-quit:
				return
			}
		}
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		r.Abort()
	}()
	return func() {
		signal.Stop(signals)
		close(quit)
		<-ended
		<-said
	}
}
