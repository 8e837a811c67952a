package crawl

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// monitor watches the run of this process. It takes a sample each second, and writes
// the report to its file each minute.
type monitor struct {
	ses     *session
	stop    atomic.Pointer[func(error)] // ends the run; nil means Run was not called yet
	started time.Time
	added   uint64 // URLs that had been added when the run began
	before  totals // the totals of earlier runs

	mu        sync.Mutex
	meter     report.Meter
	reading   report.Reading  // the last one of meter
	timeline  report.Timeline // of all runs in this directory
	filter    filterState     // for boards
	cpu       report.CPUMeter
	share     float64              // the share of all cores that this process used, at the last sample
	counters  frontier.Stats       // the newest counters of the store
	counted   time.Time            // when counters was read
	relays    []report.RelayStatus // all relays, as they were read last
	journals  []engine.Journal     // journals that Redis knows, as they were read last
	elsewhere bool                 // another process runs the relay of Config.Events, as far as this one knows
	shared    fetcher.Examples     // the examples of all workers; nil for an embedded crawl
	ownRelay  *report.RelayStatus  // the newest state of the relay of Config.Events; nil if this process runs none

	waits     *report.Waits // as of waitsAt; nil means not known yet
	waitsAt   time.Time
	waitsTook time.Duration

	unsaved bool // the last report was not written, and the log says so; only run uses this field
}

const (
	sampleEvery = time.Second
	reportEvery = time.Minute
	shareEvery  = 10 * time.Second
	// answerTime is how long to wait for an answer of the store.
	answerTime = 2 * time.Second
)

// newMonitor sets ses.monitor. It waits until the store is available.
func (ses *session) newMonitor(ctx context.Context, begun time.Time) error {
	var stats frontier.Stats
	err := ses.untilAvailable(ctx, "the crawl waits", func() (err error) {
		stats, err = ses.engine.Counters(context.WithoutCancel(ctx))
		return err
	})
	if err != nil {
		return err
	}
	m := &monitor{
		ses: ses, started: begun, added: stats.Added, cpu: report.NewCPUMeter(begun), counters: stats, counted: begun,
	}
	m.readTotals()
	if last, err := ses.lastReport(); err == nil && last != nil && last.Timeline != nil {
		m.timeline = *last.Timeline
	}
	ses.monitor = m
	return nil
}

// wake makes a Watch of this process take a sample now.
func (ses *session) wake() {
	select {
	case ses.changed <- struct{}{}:
	default:
	}
}

// run takes samples until ctx ends. It ignores errors of the store: the worker
// reports them.
func (m *monitor) run(ctx context.Context) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	saved, shared := m.started, m.started
	for {
		m.countWaits(ctx)
		if now := time.Now(); now.Sub(shared) >= shareEvery {
			_ = m.shareExamples(ctx) // the worker reports errors of the store
			shared = now
		}
		if at, err := m.takeSample(ctx); err == nil && at.Sub(saved) >= reportEvery {
			m.save(ctx)
			saved = at
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// takeSample takes the next sample.
func (m *monitor) takeSample(ctx context.Context) (time.Time, error) {
	now := time.Now()
	m.mu.Lock()
	m.share = m.cpu.Read(now)
	m.mu.Unlock()
	s, err := m.sample(ctx, now)
	if err != nil {
		return now, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reading = m.meter.Read(s)
	m.timeline.Add(report.Moment{
		Time: now.UTC().Truncate(time.Millisecond), Pages: s.Pages, Bytes: m.counters.Bytes, Finished: s.Finished, Waiting: s.Queued + s.Leased,
	})
	return now, nil
}

// sample returns the state of the crawl now. It is safe for concurrent use.
func (m *monitor) sample(ctx context.Context, now time.Time) (report.Sample, error) {
	stats, silent, err := m.count(ctx, now)
	if err != nil {
		return report.Sample{}, err
	}
	p := m.ses.worker.Progress()
	p.Delay = rounded(p.Delay)
	m.mu.Lock()
	share := m.share
	m.mu.Unlock()
	set, rules := &m.ses.plan.Settings, m.ses.plan.policy.Load()
	s := report.Sample{
		Time: now, Started: m.started,
		Pages: stats.Pages, Finished: stats.Done + stats.Failed, Failed: stats.Failed,
		Bytes: p.Bytes, Requests: p.Requests + p.Robots, Errors: p.Errors, LastError: p.LastError, Unreached: noneReached(p, stats),
		Queued: stats.Queued, Delayed: stats.Delayed, Leased: stats.Leased, Hosts: stats.Hosts,
		Found: stats.Found, Added: stats.Added, Seen: stats.Seen, Refused: stats.RefusedTotal(),
		MaxPages: lastPages(rules), Closed: m.ses.closed.Load(), Relays: m.lags(), FullHosts: m.fullHosts(), Causes: m.errors(stats),
		Pauses: textsOf(rules.Pause),
		Gauges: report.Gauges{
			Worker: p, Hosts: int(stats.Hosts), Feeding: m.ses.feeding.Load() > 0,
			Paused: stats.Paused, Empty: stats.Queued+stats.Leased == 0, CPU: share, Cores: report.Cores(),
			DelayFlag: set.Delay, Rate: set.Rate, Bandwidth: set.Bandwidth, Silent: silent, StoreName: m.ses.storeName(),
		},
	}
	m.addWaits(&s.Gauges, stats)
	if set.MaxTime > 0 {
		s.Deadline = m.started.Add(set.MaxTime)
	}
	s.Visits, _ = m.ses.visitFigures(ctx) // the run reports errors of the rows
	return s, nil
}

// countWaits counts what the hosts wait for. Usually it does so each second, and less often if it takes more than a
// fiftieth of the time.
func (m *monitor) countWaits(ctx context.Context) {
	begun := time.Now()
	m.mu.Lock()
	stats, wait := m.counters, max(sampleEvery, 50*m.waitsTook)-time.Millisecond
	early := begun.Sub(m.waitsAt) < wait
	m.mu.Unlock()
	if early {
		return
	}
	limited, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	waits, err := m.ses.waits(limited, &stats)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waitsAt, m.waitsTook = begun, time.Since(begun)
	if m.waits = &waits; err != nil {
		m.waits = nil
	}
}

// addWaits adds what the hosts wait for, and the limits of the policy, to the gauges. Of the hosts that this worker
// has leased, some wait for their delay.
func (m *monitor) addWaits(g *report.Gauges, stats frontier.Stats) {
	policy := m.ses.plan.policy.Load()
	g.Pages, g.MaxPages = stats.Pages, lastPages(policy)
	g.Full = m.ses.plan.Redis != nil && policy.MaxQueued > 0 && stats.Queued >= policy.MaxQueued
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waits != nil {
		waits := *m.waits
		waits.Move(uint64(g.Worker.Parked), report.WaitWorker, report.WaitDelay)
		g.Waits = &waits
	}
}

// limit returns what limits the crawl, if its present gauges are g.
func (m *monitor) limit(g report.Gauges) report.Factor {
	m.mu.Lock()
	f := m.meter.Limit()
	m.mu.Unlock()
	if was := f.Gauges; f.Kind == report.Unknown || g.Paused != was.Paused || g.Silent > 0 != (was.Silent > 0) || g.Empty != was.Empty {
		return report.Factor{Kind: g.Kind(), Gauges: g}
	}
	return f
}

// count returns the store's counters. If the store does not answer, count returns the
// last known counters, and their age in the result silent.
func (m *monitor) count(ctx context.Context, now time.Time) (stats frontier.Stats, silent time.Duration, err error) {
	limited, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	stats, err = m.ses.engine.Counters(limited)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.counters, m.counted = stats, now
		return stats, 0, nil
	case ctx.Err() == nil && (errors.Is(err, frontier.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)):
		return m.counters, max(now.Sub(m.counted), time.Nanosecond), nil
	}
	return stats, 0, err
}

// rounded rounds a delay for display, because a delay that follows a host's latency
// is precise to the nanosecond.
func rounded(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// save writes the report to its file. If that fails, it logs a warning: the crawl
// goes on.
func (m *monitor) save(ctx context.Context) {
	r, err := m.account(ctx, 0)
	if err == nil {
		err = m.write(r)
	}
	switch {
	case err == nil && m.unsaved:
		m.ses.plan.Logger.Info("report written again")
	case err != nil && ctx.Err() == nil && !m.unsaved:
		m.ses.plan.Logger.Warn("report not written", slog.Any("err", err))
	}
	m.unsaved = err != nil
}

// storeName returns the name of the store for messages about its silence. It can be
// empty.
func (ses *session) storeName() string {
	if ses.plan.Redis != nil {
		return "Redis"
	}
	return ""
}

// noneReached reports whether no worker has received a page or a robots.txt so far, and
// nothing can be tried now.
func noneReached(p fetcher.Progress, stats frontier.Stats) bool {
	// If URLs are leased, but none by this worker, another worker may be requesting them now.
	waits := stats.Leased == 0 || p.Held > 0
	return p.Stuck && !p.Answered && p.LastError != nil && waits && stats.Pages+stats.Done == 0
}
