package cli

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/view"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
)

const (
	sampleEvery = time.Second
	logEvery    = 30 * time.Second // where no view can be drawn
	reportEvery = time.Minute
	// answerTime is how soon a store answers that can be asked.
	answerTime = 2 * time.Second
)

// monitor watches the crawl of this process: once a second it takes a sample,
// for the view or the log, and each minute it writes the report to its file.
type monitor struct {
	*session
	console *console
	started time.Time
	added   uint64      // URLs when the run began
	before  totals      // of the runs before
	closed  atomic.Bool // nothing can be added any more: see report.Sample
	fedAll  atomic.Bool // the seeds of this run were read
	poked   chan struct{}

	mu       sync.Mutex
	meter    report.Meter
	cpu      cpuMeter
	share    float64 // of all cores, at the last sample
	fed      seedCounts
	counters frontier.Stats // the newest
	counted  time.Time      // when the store was asked for them

	// run's alone
	paused    bool // as the log has it
	unreached bool // that no seed could be reached was said
	unsaved   bool // that the report was not written is in the log
}

// newMonitor begins the run that is watched.
func (ses *session) newMonitor(ctx context.Context, c *console, begun time.Time) (*monitor, error) {
	var stats frontier.Stats
	err := untilAvailable(ctx, c, "the crawl waits", func() (err error) {
		stats, err = ses.store.Counters(context.WithoutCancel(ctx))
		return err
	})
	if err != nil {
		return nil, err
	}
	return &monitor{
		session: ses, console: c, started: begun, added: stats.Added, cpu: newCPUMeter(begun), counters: stats, counted: begun,
		poked: make(chan struct{}, 1), paused: stats.Paused,
	}, nil
}

// poke makes the monitor look now: something that people wait to see has changed.
func (m *monitor) poke() {
	select {
	case m.poked <- struct{}{}:
	default:
	}
}

// run watches until ctx ends. What goes wrong with the store or the directory
// is for those to say who work with them.
func (m *monitor) run(ctx context.Context) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	logged, saved := m.started, m.started
	for {
		if r, err := m.look(ctx); err == nil {
			m.show(r, &logged)
			m.tellChanges(r)
			if r.Time.Sub(saved) >= reportEvery {
				m.save(ctx)
				saved = r.Time
			}
		}
		m.refusals.flush()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-m.poked:
		}
	}
}

// tellChanges says what cannot wait for the next line of progress, once each.
func (m *monitor) tellChanges(r report.Reading) {
	if paused := r.Gauges.Paused; paused != m.paused && r.Gauges.Silent == 0 {
		m.paused = paused
		if paused {
			m.log.Info("paused", slog.String("resume", m.command("resume")))
		} else {
			m.log.Info("resumed")
		}
	}
	if r.Unreached && !m.unreached {
		m.unreached = true
		warnUnreached(m.console, r.LastError)
	}
}

func (m *monitor) show(r report.Reading, logged *time.Time) {
	switch {
	case m.console.live != nil:
		m.console.live.Draw(r)
	case r.Time.Sub(*logged) >= logEvery:
		view.LogLine(m.log, r)
		*logged = r.Time
	}
}

// look takes the next sample.
func (m *monitor) look(ctx context.Context) (report.Reading, error) {
	now := time.Now()
	m.mu.Lock()
	m.share = m.cpu.read(now)
	m.mu.Unlock()
	s, err := m.sample(ctx, now)
	if err != nil {
		return report.Reading{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.meter.Read(s), nil
}

// sample returns the crawl as it is now; anybody may ask.
func (m *monitor) sample(ctx context.Context, now time.Time) (report.Sample, error) {
	stats, silent, err := m.count(ctx, now)
	if err != nil {
		return report.Sample{}, err
	}
	p := m.crawl.Progress()
	m.mu.Lock()
	share := m.share
	m.mu.Unlock()
	s := report.Sample{
		Time: now, Started: m.started,
		Pages: stats.Pages, Finished: stats.Done + stats.Failed, Failed: stats.Failed,
		Bytes: p.Bytes, Requests: p.Requests + p.Robots, Errors: p.Errors, LastError: lastError(p), Unreached: noneReached(p, stats),
		Queued: stats.Queued, Delayed: stats.Delayed, Leased: stats.Leased, Hosts: stats.Hosts,
		Found: stats.Found, Added: stats.Added, Seen: stats.Seen, Refused: stats.RefusedTotal(),
		MaxPages: uint64(m.maxPages), Closed: m.closed.Load(),
		Gauges: report.Gauges{
			Slots: p.Slots, Asking: p.Asking, Late: p.Late, Held: int(p.Hosts), Parked: int(p.Waiting), RateWaiting: int(p.Paying),
			StoreWaiting: int(p.Storing), RobotsWaiting: int(p.Ruling), Hosts: int(stats.Hosts), Due: p.DueWaits,
			BackingOff: p.BackingOff, NextTry: p.NextTry, Down: p.Down, ShortMemory: p.ShortMemory, Feeding: !m.fedAll.Load(),
			Paused: stats.Paused, Empty: stats.Queued+stats.Leased == 0, CPU: share, Cores: cores(),
			Delay: rounded(p.Delay), DelayFlag: m.delay, Rate: m.rate, Silent: silent, StoreName: m.engineName(),
		},
	}
	if m.maxTime > 0 {
		s.Deadline = m.started.Add(m.maxTime)
	}
	return s, nil
}

// count returns the store's counters. While it cannot be asked they are the last
// ones, and silent is how old.
func (m *monitor) count(ctx context.Context, now time.Time) (stats frontier.Stats, silent time.Duration, err error) {
	limited, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	stats, err = m.store.Counters(limited)
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

func (m *monitor) handleSample(w http.ResponseWriter, r *http.Request) {
	s, err := m.sample(r.Context(), time.Now())
	reply(w, s, err)
}

// rounded is a delay to be shown: one that follows a host's latency has
// nanoseconds.
func rounded(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// endOfSeeds notes that no more seeds come from the command line.
func (m *monitor) endOfSeeds(fed seedCounts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fed = fed
	m.fedAll.Store(true)
	m.closed.Store(fed.all && m.maxDepth == 0)
}

// save writes the report to its file. A report that cannot be written is no
// reason to end a crawl.
func (m *monitor) save(ctx context.Context) {
	r, err := m.report(ctx, 0)
	if err == nil {
		err = m.write(r)
	}
	switch {
	case err == nil && m.unsaved:
		m.log.Info("report written again")
	case err != nil && ctx.Err() == nil && !m.unsaved:
		m.log.Warn("report not written", slog.Any("err", err))
	}
	m.unsaved = err != nil
}

// cores is how many of them this process can use.
func cores() int { return min(runtime.GOMAXPROCS(0), runtime.NumCPU()) }

// cpuMeter tells which part of all cores this process uses.
type cpuMeter struct {
	at   time.Time
	used time.Duration
	last float64
}

func newCPUMeter(now time.Time) cpuMeter { return cpuMeter{at: now, used: cpuTime()} }

// read returns the share since the last read, 0 to 1.
func (c *cpuMeter) read(now time.Time) float64 {
	used, wall := cpuTime(), now.Sub(c.at)
	if wall < 10*time.Millisecond { // the system counts in ticks
		return c.last
	}
	c.last = min(max((used-c.used).Seconds()/wall.Seconds()/float64(cores()), 0), 1)
	c.at, c.used = now, used
	return c.last
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
