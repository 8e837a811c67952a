package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/crawl/control"
	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// Crawl is a Handle on a crawl that this process has open and can run.
type Crawl struct {
	*Handle
	ses        *session
	endServing func() // closes the control socket
	ending     *ending
}

// Reasons why a run ends early, besides the end of its context.
var (
	ErrTimeOver = control.ErrTimeOver
	ErrStopped  = control.ErrStopped
)

// TimeOver is Result.End if Settings.MaxTime stopped the run.
const TimeOver fetcher.End = "time"

// Result is the outcome of a run.
type Result struct {
	End    fetcher.End // fetcher.Empty, Limit, Blocked or Stopped, or TimeOver
	Stats  frontier.Stats
	Took   time.Duration
	Report *report.Report
	// Unreached says why no host of a seed answered, and wraps ErrUnreached. It is nil if a host answered.
	Unreached error

	stopped, noSeed, handler error // see Err
}

// endedByItself reports whether nothing has stopped the run.
func (r *Result) endedByItself() bool {
	return r.End == fetcher.Empty || r.End == fetcher.Limit || r.End == fetcher.Blocked
}

// SeedCounts counts seeds by their answers.
type SeedCounts struct {
	Added, Seen, Refused uint64
	All                  bool // no more seeds follow
}

// Feed prevents Run from ending for lack of URLs until the caller calls done. The caller
// passes to done the counts of the seeds that the caller has added. The report adds these
// counts to those of Config.Seeds and of other calls of Feed. Feed must be called before Run.
func (c *Crawl) Feed() (done func(SeedCounts)) {
	return c.ses.feedSeeds()
}

// Stopping returns a channel that is closed when a run begins to end early, because its
// context ended, MaxTime is over or another process stopped it. After that, the run ends
// within Settings.Grace, unless a disk or a server hangs.
func (c *Crawl) Stopping() <-chan struct{} { return c.ending.begun }

// Abort ends requests under way at once. Their URLs go back to the frontier, and
// Run returns soon.
func (c *Crawl) Abort() { c.ses.worker.Abort() }

// FilterBytes returns how much of this process's memory the filter takes. It is 0 for a
// filter in Redis.
func (c *Crawl) FilterBytes() uint64 { return c.ses.engine.FilterBytes() }

// Run adds Config.Seeds and crawls until nothing is left, a limit is reached or ctx
// ends. After ctx has ended, requests under way and calls of Config.OnPage can take up to
// Settings.Grace. Run does not wait longer for an OnPage that ignores its context: its page goes
// back to the frontier. While Run
// runs, Handles of other processes reach the crawl through the directory's control
// socket, and the report in the directory is at most a minute old. Run must not be
// called twice.
func (c *Crawl) Run(ctx context.Context) (*Result, error) {
	ses := c.ses
	begun := time.Now()
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(ctx, func() { c.ending.begin(context.Cause(ctx), ses.plan.Settings.Grace) })()
	endRun := func(why error) {
		if errors.Is(why, ErrTimeOver) || errors.Is(why, ErrStopped) || errors.Is(why, frontier.ErrParamsMismatch) {
			c.ending.begin(why, ses.plan.Settings.Grace)
		}
		stop(why)
	}
	defer context.AfterFunc(run, ses.engine.CancelWait)()
	defer ses.engine.Forward(ctx)()
	m := ses.monitor
	m.stop.Store(&endRun)
	go func() {
		select {
		case <-ses.engine.StopRequested():
			endRun(ErrStopped)
		case <-run.Done():
		}
	}()
	defer c.endServing()
	if ses.plan.Settings.MaxTime > 0 {
		timer := time.AfterFunc(ses.plan.Settings.MaxTime, func() { endRun(ErrTimeOver) })
		defer timer.Stop()
	}
	fed := ses.addSeeds(run, stop)
	watching, endWatching := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { m.run(watching) })
	watch.Go(func() { m.watchRelays(watching) })
	if ses.plan.Redis != nil {
		watch.Go(func() { ses.watchPolicy(watching) })
	}
	if ses.plan.jar != nil {
		watch.Go(func() { ses.saveCookies(watching) })
	}
	revisited := ses.revisit(watching, endRun)
	m.reportJournal(watching, false) // before the first record
	reporting, endReporting := context.WithCancel(watching)
	var reports sync.WaitGroup
	reports.Go(func() { m.watchJournals(reporting) })
	finish := m.deliver(ctx)
	r := new(Result)
	var err error
	r.End, err = ses.worker.Run(run)
	cause := context.Cause(run)
	stop(nil)
	err = errors.Join(err, <-fed)
	m.finishDelivery(ctx, finish, c.ending)
	endReporting()
	reports.Wait()
	m.finishJournals(ctx, c.ending, r.endedByItself())
	endWatching()
	watch.Wait()
	err = errors.Join(err, <-revisited)
	if secret, is := errors.AsType[*SecretError](cause); is {
		err = errors.Join(secret, err)
	}
	if err != nil {
		return nil, err
	}
	if r.End == fetcher.Stopped && errors.Is(cause, ErrTimeOver) {
		r.End = TimeOver
	}
	r.Took = time.Since(begun)
	err = m.sumUp(ctx, r, c.ending)
	r.fault(ctx, c)
	return r, err
}

// addSeeds adds Config.Seeds while the crawl runs. The run does not end before all seeds are
// added. The returned channel receives the error, or nil.
func (ses *session) addSeeds(run context.Context, stop func(error)) <-chan error {
	fed := make(chan error, 1)
	if len(ses.plan.Seeds) == 0 {
		fed <- nil
		return fed
	}
	done := ses.feedSeeds()
	go func() {
		var counts SeedCounts
		defer func() { done(counts) }()
		var answers []SeedAnswer
		err := ses.untilAvailable(run, "seeds wait", func() (err error) {
			answers, err = ses.seed(run, seedQuestion{ses.plan.Seeds, true})
			return err
		})
		for i, a := range answers {
			counts.Count(a)
			if a.Answer == frontier.Refused.String() {
				ses.plan.Logger.Warn("seed refused", slog.String("seed", ses.plan.Seeds[i]), slog.String("err", a.Message))
				ses.refusal = cmp.Or(ses.refusal, ses.plan.Seeds[i]+": "+a.Message)
			}
		}
		if run.Err() != nil {
			err = nil
		} else if err != nil {
			stop(err)
		}
		counts.All = err == nil
		fed <- err
	}()
	return fed
}

// Count adds one answer.
func (c *SeedCounts) Count(a SeedAnswer) {
	switch a.Answer {
	case frontier.Added.String():
		c.Added++
	case frontier.Seen.String():
		c.Seen++
	default:
		c.Refused++
	}
}

// sumUp completes r with the state of the store. If the store is unavailable, sumUp
// waits for it. After a stop it does not wait, because Run must return within
// Settings.Grace.
func (m *monitor) sumUp(ctx context.Context, r *Result, ending *ending) error {
	once := func() (err error) {
		if r.Stats, err = m.ses.engine.Stats(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		limited, cancel := ending.limit(ctx)
		defer cancel()
		m.ses.seedsAfter(limited, r.Stats)
		return m.conclude(ctx, r)
	}
	if r.endedByItself() {
		if err := m.ses.untilAvailable(ctx, "the summary waits", once); err == nil || ctx.Err() == nil {
			return err
		}
	}
	return once()
}

// untilAvailable is like UntilAvailable. If the store is unavailable, it logs one warning
// with the given message and the error.
func (ses *session) untilAvailable(ctx context.Context, message string, operation func() error) error {
	return UntilAvailable(ctx, func(err error) { ses.plan.Logger.Warn(message, slog.Any("err", err)) }, operation)
}

// UntilAvailable calls operation, and calls it again while the error is
// frontier.ErrUnavailable, because a short outage of the store must not end a crawl.
// After the first such error, UntilAvailable calls onWait with that error.
func UntilAvailable(ctx context.Context, onWait func(error), operation func() error) error {
	const least, most = 100 * time.Millisecond, 10 * time.Second
	for wait := least; ; wait = min(2*wait, most) {
		err := operation()
		if !errors.Is(err, frontier.ErrUnavailable) {
			return err
		}
		if wait == least {
			onWait(err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ending is the early end of a run.
type ending struct {
	once  sync.Once
	begun chan struct{} // closed when the run begins to end; the fields below are set before that

	why  error         // ErrTimeOver, ErrStopped, or the cause of the context
	end  time.Time     // when the grace is over
	rest time.Duration // part of the grace that is reserved for closing the store
}

// begin starts the grace. Further calls do nothing.
func (e *ending) begin(why error, grace time.Duration) {
	e.once.Do(func() {
		e.why, e.end, e.rest = why, time.Now().Add(grace), min(grace/10, time.Second)
		close(e.begun)
	})
}

// limit returns a context for steps that a run can omit at its end. The context
// outlives ctx, and ends early enough to close the store within the grace.
func (e *ending) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	select {
	case <-e.begun:
		return context.WithDeadlineCause(ctx, e.end.Add(-e.rest), errors.New("the grace is over"))
	default:
		return ctx, func() {}
	}
}

// errUnreached returns the error for a run in which no host of a seed answered.
func (ses *session) errUnreached() error {
	last := ses.worker.Progress().LastError
	if last != nil {
		return fmt.Errorf("%w: %v", ErrUnreached, last)
	}
	return ErrUnreached
}

// feedSeeds implements Crawl.Feed.
func (ses *session) feedSeeds() (done func(SeedCounts)) {
	release := ses.worker.Hold()
	ses.seedsMu.Lock()
	ses.feeding.Add(1)
	ses.closed.Store(false)
	ses.seedsMu.Unlock()
	return func(counts SeedCounts) {
		ses.seedsMu.Lock()
		ses.counts.Added += counts.Added
		ses.counts.Seen += counts.Seen
		ses.counts.Refused += counts.Refused
		ses.partial = ses.partial || !counts.All
		ses.closed.Store(ses.feeding.Add(-1) == 0 && !ses.partial && ses.plan.policy.Load().Rules.MaxDepth == 0)
		ses.seedsMu.Unlock()
		release()
	}
}

// seedCounts returns the counts of the seeds of this run.
func (ses *session) seedCounts() SeedCounts {
	ses.seedsMu.Lock()
	defer ses.seedsMu.Unlock()
	return ses.counts
}

// MarkSeen adds URLs to the filter as seen, without queueing them, and returns how
// many of them the filter did not contain yet. It leaves out URLs without a canonical
// form, and returns the reasons in faults, index for index.
func (c *Crawl) MarkSeen(ctx context.Context, urls []string) (fresh int, faults []error, err error) {
	faults = make([]error, len(urls))
	var marked []engine.SeenURL
	for i, text := range urls {
		url, err := c.ses.plan.canon.Parse(text)
		if err != nil {
			faults[i] = err
			continue
		}
		marked = append(marked, engine.SeenURL{Host: c.ses.plan.canon.HostKey(url), URL: url.String()})
	}
	fresh, err = c.ses.engine.MarkSeen(ctx, marked)
	return fresh, faults, err
}

// PrivateHeaders returns the names of the headers that are sent only to the origins of
// seeds.
func (c *Crawl) PrivateHeaders() []string { return c.ses.plan.client.PrivateHeaders() }

// Dir returns the directory that has the records, the report and the control
// socket of this process.
func (c *Crawl) Dir() string { return c.ses.dir }

// WorkersDir returns the directory in which other processes find the records of this crawl's workers,
// if they must be told. It returns "" for a crawl of one directory, and for the usual directory of
// the workers of a crawl in Redis.
func (c *Crawl) WorkersDir() string {
	if c.ses.plan.Redis == nil || c.ses.dir == "" {
		return ""
	}
	usual, dir := engine.JournalsOf(c.ses.plan.Redis.Name), filepath.Clean(c.ses.dir)
	for _, workers := range []string{filepath.Dir(dir), dir} {
		if engine.HoldsOneCrawl(workers) {
			if workers == filepath.Clean(usual) {
				return ""
			}
			return workers
		}
	}
	return ""
}

// New reports whether Open created the crawl.
func (c *Crawl) New() bool { return c.ses.plan.stored == nil }

// Err returns the error that made the frontier unusable, or nil.
func (c *Crawl) Err() error { return c.ses.engine.Err() }

// CheckSeeds returns, index for index, why a seed would be refused, or nil if it would
// be accepted. It looks up the names of hosts.
func (p *Plan) CheckSeeds(ctx context.Context, seeds []string) []error {
	faults := make([]error, len(seeds))
	for i, raw := range seeds {
		_, faults[i] = p.checkSeed(ctx, raw, true)
	}
	return faults
}

// Ready returns an error if the frontier does not answer.
func (c *Crawl) Ready(ctx context.Context) error {
	_, err := c.ses.engine.Counters(ctx)
	return err
}

// Progress returns what this process has done and is doing.
func (c *Crawl) Progress() fetcher.Progress { return c.ses.worker.Progress() }

// Meters returns distributions of the answers to this process.
func (c *Crawl) Meters() fetcher.Meters { return c.ses.worker.Meters() }

// FailedHosts returns the n hosts with the most failed attempts of this process.
func (c *Crawl) FailedHosts(n int) (hosts []report.HostCount) {
	c.ses.worker.Hosts(func(run fetcher.HostCounts) { hosts = report.HostCounts(run.Errors, n) })
	return hosts
}

// Commits returns how often this process committed changes to the embedded frontier.
// The result embedded is false for a frontier in Redis.
func (c *Crawl) Commits() (commits uint64, embedded bool) { return c.ses.engine.Committed() }

// StoppedBy returns why the run ends early: ErrTimeOver, ErrStopped, or the cause of
// Run's context. It returns nil until Stopping is closed.
func (c *Crawl) StoppedBy() error {
	select {
	case <-c.ending.begun:
		return c.ending.why
	default:
		return nil
	}
}

// Overrides returns the settings of this run that differ from the stored defaults.
func (c *Crawl) Overrides() []Override { return c.ses.plan.overrides }
