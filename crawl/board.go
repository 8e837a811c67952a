package crawl

import (
	"context"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/frontier"
)

// Board returns the state of the crawl for displays that are refreshed each second. The store reads counters for it, and no
// whole table.
func (h *Handle) Board(ctx context.Context) (report.Board, error) {
	return ask(ctx, h, verbBoard, nothing{})
}

// Settings returns the settings of the policy (see Change), in the form in which they are stored, by name. Values of headers,
// which may be secret, are left out.
func (h *Handle) Settings(ctx context.Context) (map[string]string, error) {
	return ask(ctx, h, verbSettings, nothing{})
}

// settings implements Handle.Settings.
func (ses *session) settings(ctx context.Context) (map[string]string, error) {
	newest, err := ses.engine.NewestVersion(ctx)
	if err != nil {
		return nil, err
	}
	now, err := ses.plan.settingsAt(newest)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for _, row := range settings.Rows() {
		if row.Who == settings.Live && row.Name != settings.HeaderName {
			all[row.Name] = row.Value(&now).Stored()
		}
	}
	return all, nil
}

// filterState is the state of the filter as it was last measured. To count the bits of a large filter takes time, so it is
// measured again only after fifty times as long.
type filterState struct {
	stats  frontier.FilterStats
	layers []frontier.FilterLayer
	again  time.Time // when it is measured again
}

// board implements Handle.Board.
func (ses *session) board(ctx context.Context) (b report.Board, err error) {
	var stats frontier.Stats
	if ses.monitor == nil {
		stats, err = ses.engine.Counters(ctx)
	} else {
		stats, err = ses.monitor.addTo(ctx, &b)
	}
	if err != nil {
		return b, err
	}
	b.Status.Stats = stats
	if ses.monitor == nil {
		if err := ses.addStored(ctx, &b); err != nil {
			return b, err
		}
	}
	if b.Silent == 0 {
		if b.Status.Pauses, b.Status.Drops, err = ses.rules(ctx); err == nil {
			b.Status.Shared, err = ses.engine.Sharing(ctx)
		}
	}
	if err == nil && ses.monitor == nil {
		b.Status.Running = b.Status.Shared != nil && len(b.Status.Shared.Workers) > 0
		if b.Status.Running {
			b.Report.End = stateOf(true, stats)
		}
	}
	return b, err
}

// addTo adds to a board what this process, which runs the crawl, knows.
func (m *monitor) addTo(ctx context.Context, b *report.Board) (frontier.Stats, error) {
	s, err := m.sample(ctx, time.Now())
	if err != nil {
		return frontier.Stats{}, err
	}
	b.Silent, b.Store = s.Gauges.Silent.Seconds(), m.ses.storeName()
	added, err := m.filterNow(ctx, b.Silent > 0)
	if err != nil {
		return frontier.Stats{}, err
	}
	m.mu.Lock()
	stats, f, reading := m.counters, m.filter, m.reading
	m.mu.Unlock()
	stats.Filter = f.stats
	progress, limit := m.ses.worker.Progress(), m.limit(s.Gauges)
	b.Status = report.Status{
		Running: true, Progress: &progress, NotTaken: m.notTaken(), FullHosts: s.FullHosts, Errors: s.Causes, Relays: s.Relays,
		Now: limit.Words(), Kind: limit.Kind, Waits: s.Gauges.Waits,
	}
	b.Report = m.runReport(ctx, stats)
	b.Report.Now, b.Status.Visits = b.Status.Now, b.Report.Visits
	b.Report.Filter = filterOf(stats.Filter, f.layers, m.ses.plan.Settings.Growth, added)
	b.Report.FPR = falsePositives(stats, probes{}, m.ses.chain())
	b.Report.Exact = exactOf(stats, nil)
	b.Recent = m.ses.worker.Recent()
	b.Pace = &report.Pace{PagesPerSecond: reading.PagesPerSecond, BytesPerSecond: reading.BytesPerSecond, Requests: s.Requests, End: reading.End}
	return stats, nil
}

// filterNow measures the filter, unless that was done lately or the store is silent. It returns how many URLs this run adds
// per second.
func (m *monitor) filterNow(ctx context.Context, silent bool) (added float64, err error) {
	m.mu.Lock()
	counters, f := m.counters, m.filter
	m.mu.Unlock()
	begun := time.Now()
	added = float64(counters.Added-min(m.added, counters.Added)) / max(begun.Sub(m.started).Seconds(), 1e-3)
	if silent || begun.Before(f.again) {
		return added, nil
	}
	stats, err := m.ses.engine.Stats(ctx)
	if err != nil {
		return added, err
	}
	f.stats = stats.Filter
	if f.layers, err = m.ses.engine.FilterLayers(ctx); err != nil {
		return added, err
	}
	f.again = time.Now().Add(max(2*time.Second, 50*time.Since(begun)))
	m.mu.Lock()
	m.filter = f
	m.mu.Unlock()
	return added, nil
}

// addStored adds to a board what is stored about a crawl that this process does not run.
func (ses *session) addStored(ctx context.Context, b *report.Board) error {
	st := &b.Status
	if err := ses.addNow(ctx, st); err != nil {
		return err
	}
	st.Relays = ses.lags(ctx)
	var err error
	if st.Errors, err = ses.storedErrors(ctx, st.Stats); err != nil {
		return err
	}
	last, err := ses.lastReport()
	if err != nil {
		return err
	}
	b.Report = newReport(ses.plan.Location().String(), ses.dir, st.Stats)
	b.Report.End, b.Report.Errors, b.Report.Now = "not running", st.Errors, st.Now
	if last == nil {
		return nil
	}
	st.NotTaken, st.FullHosts = last.NotTaken, last.FullHosts
	r := b.Report
	r.Run, r.Limits, r.LastError, r.TopAll, r.Timeline = last.Run, last.Limits, last.LastError, last.TopAll, last.Timeline
	r.Filter, r.FPR, r.Blocked, r.End = last.Filter, last.FPR, last.Blocked, last.End
	if strings.HasPrefix(last.End, endRunning) {
		r.End = crashed
	}
	return nil
}
