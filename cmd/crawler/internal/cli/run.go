package cli

import (
	"cmp"
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

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/crawl/seeds"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
)

// running is a crawl that this command runs, with its display.
type running struct {
	plan    *plan
	crawl   *crawl.Crawl
	console *console
	files   runFiles
	log     *slog.Logger
	given   *seeds.Reader // the seeds of the command line
	dir     string        // the directory of this process's records
	allFed  atomic.Bool   // all seeds were read; a run that is stopped does not wait for it
	paused  bool          // whether the crawl was paused when the run began
}

// work adds the seeds and runs the crawl. When the run has ended, work calls endReading
// to end the reading of seeds.
func (r *running) work(ctx context.Context, endReading func()) (*crawl.Result, error) {
	endServing, err := r.serveAdmin(ctx, r.console.notices())
	if err != nil {
		return nil, err
	}
	defer endServing()
	defer r.followStop()()
	if err := r.announce(ctx, r.console); err != nil {
		return nil, err
	}
	crawling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	fed := r.feedSeeds(crawling, stop)
	watching, endWatching := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(watching) })
	result, err := r.crawl.Run(crawling)
	stop(nil)
	endReading()
	err = errors.Join(err, <-fed)
	endWatching()
	watch.Wait()
	r.console.clear()
	return result, err
}

// feedSeeds adds the seeds while the crawl runs. The crawl does not end before they are
// added. An error stops the crawl, and is sent to the returned channel.
func (r *running) feedSeeds(ctx context.Context, stop func(error)) (fed <-chan error) {
	ended := make(chan error, 1)
	done := r.crawl.Feed()
	go func() {
		var counts crawl.SeedCounts
		err := r.markKnown(ctx)
		if err == nil {
			counts, err = seeds.Add(ctx, r.given, r.crawl.Handle, r.console)
		}
		if ctx.Err() != nil {
			err = nil
		}
		if err != nil {
			stop(err)
		}
		r.allFed.Store(counts.All)
		done(counts)
		ended <- err
	}()
	return ended
}

// markKnown marks the URLs of --known as seen, before any seed is added. A resumed run
// marks them again, because the file might have grown.
func (r *running) markKnown(ctx context.Context) error {
	if r.plan.known == "" {
		return nil
	}
	list, err := seeds.Open(ctx, nil, r.plan.known, nil)
	if err == nil {
		var known seeds.Known
		known, err = seeds.MarkSeen(ctx, list, r.crawl, r.console)
		err = errors.Join(err, list.Close())
		if err == nil && !r.plan.quiet {
			fmt.Fprintf(r.console, "known: %s, %s of them new here, %s malformed\n",
				human.Plural(known.URLs, "URL"), human.Commas(known.Fresh), human.Plural(known.Malformed, "line"))
		}
	}
	if err != nil {
		return fmt.Errorf("--known: %w", err)
	}
	return nil
}

// failure adds an exit code and advice for the user to the error of a run.
func (r *running) failure(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist): // the directory was removed
		return &exitError{exitFailed, err}
	case errors.Is(err, frontier.ErrFilterLost), errors.Is(err, frontier.ErrParamsMismatch):
		return r.plan.at.explain(err)
	}
	return &exitError{exitFailed, fmt.Errorf("%w\nwhat was committed is safe in %s", err, r.plan.at)}
}

// exit returns an error with the exit code of a run that has ended, or nil for exit
// code 0.
func (r *running) exit(ctx context.Context, result *crawl.Result) error {
	if err := crawl.Promises(result.Stats); err != nil {
		return &exitError{exitFailed, err}
	}
	switch {
	case result.End == fetcher.Stopped:
		return &exitError{signalCode(ctx), nil}
	case result.Unreached != nil:
		return &exitError{exitUnreached, result.Unreached}
	case result.Report.Denied != nil:
		return &exitError{exitDenied, r.denied(result.Report)}
	case result.Stats.Pages == 0 && result.End == fetcher.Empty:
		return &exitError{exitNothing, errNoSeed}
	}
	if err := missingEvents(result.Report); err != nil {
		return err
	}
	if blocked := result.Report.Blocked; blocked != nil {
		return &exitError{exitBlocked, r.blocked(blocked)}
	}
	return r.fullHosts(result)
}

// blocked returns the error of a run after which only blocked hosts have URLs left.
func (r *running) blocked(b *report.BlockedHosts) error {
	lines := []string{fmt.Sprintf("only blocked hosts have URLs left, which stay queued: %s", human.Plural(b.Count, "host"))}
	for i := range b.Hosts {
		lines = append(lines, "  "+b.Hosts[i].String())
	}
	if more := b.Count - uint64(len(b.Hosts)); more > 0 {
		lines = append(lines, fmt.Sprintf("  and %s more", human.Commas(more)))
	}
	lines = append(lines, fmt.Sprintf("ask their owners for access; '%s' tries again from the time given", r.plan.at.command("crawl")))
	return errors.New(strings.Join(lines, "\n"))
}

// fullHosts returns an error with an exit code if URLs were refused because of --max-per-host.
func (r *running) fullHosts(result *crawl.Result) error {
	refused := result.Stats.Refused[frontier.ReasonHostLimit]
	if refused == 0 {
		return nil
	}
	which := result.Report.FullHosts.String()
	if which == "" { // another worker, or the delivery of exact URLs, has met the limit
		which = human.Plural(refused, "URL") + " refused"
	}
	return &exitError{exitHostLimit, fmt.Errorf("--max-per-host is reached: %s\nthe limit of a crawl is fixed; if it is auto, "+
		"'%s URL' with a URL of the host lifts it for links that are found later", which, r.plan.at.command("seed"))}
}

// missingEvents returns an error with an exit code if events that workers should have delivered are
// not delivered, and no process delivers them.
func missingEvents(r *report.Report) error {
	var errs []error
	for i := range r.Relays {
		if relay := &r.Relays[i]; relay.Missing() {
			errs = append(errs, fmt.Errorf("events are not delivered: relay %s: %s\nto send them: %s", human.Printable(relay.Title()), relay.Words(), relay.Send))
		}
	}
	if errs == nil {
		return nil
	}
	return &exitError{exitFailed, errors.Join(errs...)}
}

// startProfile writes a CPU profile to a file until stop is called. It does nothing if
// name is empty.
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

// announce prints which crawl begins or is resumed, and warnings about its settings.
func (r *running) announce(ctx context.Context, c *console) error {
	w := c.notices()
	if r.plan.settings.Robots == "ignore" {
		fmt.Fprintln(c, "robots.txt is not obeyed (--robots ignore): crawl sites that are yours, or that allowed it")
	}
	if insecure := r.plan.settings.InsecureHosts; len(insecure) > 0 {
		fmt.Fprintf(w, "certificates of %s are not verified (--insecure-host): others may read and change what they answer; --ca FILE is safe\n",
			strings.Join(insecure, ", "))
	}
	r.announcePrivate(w)
	for _, o := range r.crawl.Overrides() {
		if o.Name == "proxy" {
			o.Given, _ = withoutSecret(o.Name, o.Given)
		}
		fmt.Fprintf(w, "for this run, --%s is %s, not %s as stored\n", o.Name, cmp.Or(o.Given, "empty"), cmp.Or(o.Stored, "empty"))
	}
	where := r.plan.at.String()
	if where != r.dir {
		where += ", records in " + r.dir
	}
	if r.plan.crawl.New() {
		fmt.Fprintf(w, "crawling into %s; Ctrl-C stops, the same command resumes\n", where)
		return nil
	}
	var st report.Status
	waits := func(err error) { fmt.Fprintf(c, "the crawl waits: %v\n", err) }
	err := crawl.UntilAvailable(ctx, waits, func() (err error) {
		st, err = r.crawl.Status(context.WithoutCancel(ctx))
		return err
	})
	if err != nil {
		return err
	}
	stats := st.Stats
	verb := "resuming"
	if r.plan.at.Redis != nil { // other workers may run
		verb = "joining"
	}
	fmt.Fprintf(w, "%s %s: %s, %s queued\n", verb, where, human.Plural(stats.Pages, "page"), human.Commas(stats.Queued+stats.Leased))
	if r.paused = stats.Paused; r.paused {
		fmt.Fprintf(c, "it is paused: '%s' goes on\n", r.plan.at.command("resume"))
	}
	return nil
}

// announcePrivate prints which headers may be secret, and to which origins they are sent.
func (r *running) announcePrivate(w io.Writer) {
	names := r.crawl.PrivateHeaders()
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(w, "sent to the origins of seeds only: %s; 'hosts:' in the config file names headers for others\n", strings.Join(names, ", "))
	if !r.plan.crawl.New() && r.plan.options.seeds == "" && r.plan.layers.flags.NArg() == 0 {
		fmt.Fprintln(w, "these origins are those of the seeds of runs with such headers: if the seeds were named in others, name them again")
	}
}

// followStop handles stops in the background until cancel is called. When a signal,
// --max-time or another process stops the crawl, the time of --grace begins. followStop also
// prints a message, except for --max-time. A second signal aborts the requests under way. A
// third signal ends the process with the system's default action.
func (r *running) followStop() (cancel func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM) // this also receives the first signal, which ends ctx
	quit := make(chan struct{})
	var followers sync.WaitGroup
	followers.Go(func() {
		select {
		case <-r.crawl.Stopping():
			r.plan.ending.begin(r.plan.settings.Grace)
		case <-quit:
			return
		}
		if r.crawl.StoppedBy() != crawl.ErrTimeOver {
			fmt.Fprintf(r.console.notices(), "stopping: finishing what is under way, at most %v (again: at once)\n", r.plan.settings.Grace)
		}
	})
	followers.Go(func() {
		for range 2 {
			select {
			case <-signals:
			case <-quit:
				return
			}
		}
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		r.crawl.Abort()
	})
	return func() {
		signal.Stop(signals)
		close(quit)
		followers.Wait()
	}
}
