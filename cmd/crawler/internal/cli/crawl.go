package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

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
	defer context.AfterFunc(ctx, func() { p.ending.begin(p.grace) })()
	c := newConsole(s.err)
	if p.quiet {
		c = newQuietConsole(s.err)
	}
	s.err = c
	if p.stored == nil && p.seeds == "" {
		if why := p.refuseAll(ctx, args); why != nil { // and leave no directory behind
			return &exitError{exitNothing, errors.Join(append(why, errNoSeed)...)}
		}
	}
	reading, endReading := context.WithCancel(ctx)
	defer endReading()
	seeds, err := newSeedReader(reading, args, p.options.seeds, s.in)
	if err != nil {
		return usage(err)
	}
	defer seeds.close()
	ses, err := openSession(ctx, p, s, toCrawl)
	if err != nil {
		return err
	}
	stopProfile, err := startProfile(p.cpuProfile)
	if err != nil {
		return errors.Join(usage(err), ses.close())
	}
	result, err := ses.work(ctx, seeds, endReading, c)
	stopProfile()
	if closeErr := ses.close(); err == nil {
		err = closeErr
	}
	if err != nil {
		switch {
		case errors.Is(err, fs.ErrNotExist): // a directory that was removed
		case errors.Is(err, frontier.ErrFilterLost):
			err = p.withRemedy(err)
		default:
			err = fmt.Errorf("%w\nwhat was committed is safe in %s", err, p.title())
		}
		return &exitError{exitFailed, err}
	}
	result.print(c)
	return result.exit(ctx)
}

// errNoSeed is the message of exit code 3.
var errNoSeed = errors.New("no seed could be fetched")

// exit returns what the exit code says of a run that came to an end.
func (r *result) exit(ctx context.Context) error {
	if err := promises(r.stats); err != nil {
		return &exitError{exitFailed, err}
	}
	switch {
	case r.end == fetcher.Stopped:
		return &exitError{signalCode(ctx), nil}
	case r.unreached != nil:
		return &exitError{exitUnreached, r.unreached}
	case r.stats.Pages == 0 && r.end == fetcher.Empty:
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

// endTime is the end of a run that --max-time stopped.
const endTime fetcher.End = "time"

// Why a run is told to end, beside a signal.
var (
	errTimeOver = errors.New("--max-time is over")
	errStopped  = errors.New("stopped by another process")
)

// result is what a run came to.
type result struct {
	*session
	end    fetcher.End
	fed    seedCounts
	stats  frontier.Stats
	took   time.Duration
	report *report.Report

	unreached error // no seed was
}

// work feeds the seeds and crawls until an end; endReading makes the reader of
// seeds give up.
func (ses *session) work(ctx context.Context, seeds *seedReader, endReading func(), c *console) (*result, error) {
	r := &result{session: ses}
	begun := time.Now()
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var err error
	ses.stop = func(why error) {
		if errors.Is(why, errTimeOver) || errors.Is(why, errStopped) {
			ses.ending.begin(ses.grace)
		}
		stop(why)
	}
	defer context.AfterFunc(run, ses.store.letGo)()
	defer ses.store.relay(ctx)()
	if ses.monitor, err = ses.newMonitor(ctx, c, begun); err != nil {
		return nil, err
	}
	ses.monitor.readTotals()
	endServing, err := ses.serve(run, ctx, c)
	if err != nil {
		return nil, err
	}
	defer endServing()
	if ses.maxTime > 0 {
		timer := time.AfterFunc(ses.maxTime, func() { ses.stop(errTimeOver) })
		defer timer.Stop()
	}
	defer ses.secondSignal(run, ctx, c.notices())()
	ses.announce(c)
	fed := ses.feedSeeds(run, seeds, r, c)
	watching, endWatching := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { ses.monitor.run(watching) })
	r.end, err = ses.crawl.Run(run)
	stop(nil)
	endReading()
	err = errors.Join(err, <-fed)
	endWatching()
	watch.Wait()
	c.clear()
	if err != nil {
		return nil, err
	}
	if r.end == fetcher.Stopped && errors.Is(context.Cause(run), errTimeOver) {
		r.end = endTime
	}
	r.took = time.Since(begun)
	return r, r.sumUp(ctx, c)
}

// sumUp asks the store what the run came to. A store that is away just now is
// waited for, unless a signal, --max-time or crawler stop wants the end: then all
// of it has to be done within --grace.
func (r *result) sumUp(ctx context.Context, w io.Writer) error {
	once := func() (err error) {
		if r.stats, err = r.store.Stats(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		limited, cancel := r.ending.limit(ctx)
		defer cancel()
		r.seedsAfter(limited, r.stats)
		return r.conclude(ctx)
	}
	if r.end == fetcher.Empty || r.end == fetcher.Limit {
		if err := untilAvailable(ctx, w, "the summary waits", once); err == nil || ctx.Err() == nil {
			return err
		}
	}
	return once()
}

// serve answers other processes until endServing: those that look at the crawl
// and, with --admin, those that watch this process. run ends when the crawl is
// to stop.
func (ses *session) serve(run, ctx context.Context, c *console) (endServing func(), err error) {
	closeControl, err := ses.serveControl(ctx, c)
	if err != nil {
		return nil, err
	}
	closeAdmin, err := ses.serveAdmin(run, c.notices())
	if err != nil {
		closeControl()
		return nil, err
	}
	return func() { closeAdmin(); closeControl() }, nil
}

// feedSeeds offers the seeds beside the crawl, which cannot end before; then fed
// has what came of it.
func (ses *session) feedSeeds(run context.Context, seeds *seedReader, r *result, w io.Writer) (fed <-chan error) {
	done := make(chan error, 1)
	release := ses.crawl.Hold()
	go func() {
		defer release()
		err := ses.know(run, w)
		if err == nil {
			r.fed, err = feed(run, seeds, ses.offer, w)
		}
		if run.Err() != nil {
			err = nil
		}
		if err != nil {
			ses.stop(err)
		}
		ses.monitor.endOfSeeds(r.fed)
		done <- err
	}()
	return done
}

// announce says which crawl this is.
func (ses *session) announce(c *console) {
	w := c.notices()
	if ses.robots == "ignore" {
		fmt.Fprintln(c, "robots.txt is not obeyed (--robots ignore): crawl sites that are yours, or that allowed it")
	}
	ses.trust.announce(w)
	ses.announcePrivate(w)
	where := ses.title()
	if where != ses.dir {
		where += ", records in " + ses.dir
	}
	if ses.stored == nil {
		fmt.Fprintf(w, "crawling into %s; Ctrl-C stops, the same command resumes\n", where)
		return
	}
	stats := ses.monitor.counters
	fmt.Fprintf(w, "resuming %s: %s, %s queued\n", where, human.Plural(stats.Pages, "page"), human.Commas(stats.Queued+stats.Leased))
	if stats.Paused {
		fmt.Fprintf(c, "it is paused: '%s' goes on\n", ses.command("resume"))
	}
}

// announcePrivate says where headers are sent that may be secret.
func (ses *session) announcePrivate(w io.Writer) {
	names := ses.client.PrivateHeaders()
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(w, "sent to the origins of seeds only: %s; 'hosts:' in the config file names headers for others\n", strings.Join(names, ", "))
	if ses.stored != nil && ses.options.seeds == "" && ses.flags.NArg() == 0 {
		fmt.Fprintln(w, "these origins are those of the seeds of runs with such headers: if the seeds were named in others, name them again")
	}
}

// secondSignal says that the crawl stops when run ends because ctx did or
// another process wants it, and aborts requests under way when a second signal
// comes; a third ends the process as if nobody listened.
func (ses *session) secondSignal(run, ctx context.Context, stderr io.Writer) (cancel func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM) // from the start: the first ends ctx too
	quit, ended, said := make(chan struct{}), make(chan struct{}), make(chan struct{})
	say := context.AfterFunc(run, func() {
		defer close(said)
		if ctx.Err() == nil && !errors.Is(context.Cause(run), errStopped) {
			return
		}
		fmt.Fprintf(stderr, "stopping: finishing what is under way, at most %v (again: at once)\n", ses.grace)
	})
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
		ses.crawl.Abort()
	}()
	return func() {
		if !say() {
			<-said // later, ctx has ended for whatever reason
		}
		signal.Stop(signals)
		close(quit)
		<-ended
	}
}
