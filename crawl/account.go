package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/trap"
	"github.com/bloomfrontier/crawler/sizing"
)

// reportFile is the name of the file with the newest report of a crawl. While the
// crawl runs, the report is at most reportEvery old.
const reportFile = "report.json"

// probeAtEnd is the longest time for which the filter is probed with random fingerprints
// at the end of a run. After a short run, the limit is a hundredth of the run's time, but at
// least 1 ms.
const probeAtEnd = 250 * time.Millisecond

const topHosts = 10

// While the crawl runs, Report.End begins with endRunning.
const endRunning = "running"

// crashed is the Report.End of a crawl that does not run, if its last report is that of a running crawl.
const crashed = "not running; the last run crashed or was killed"

// report implements Handle.Report.
func (ses *session) report(ctx context.Context, probe time.Duration) (*report.Report, error) {
	if m := ses.monitor; m != nil {
		return m.account(ctx, probe)
	}
	return ses.stoppedReport(ctx, probe)
}

// account returns the report of the crawl that this process runs.
func (m *monitor) account(ctx context.Context, probe time.Duration) (*report.Report, error) {
	stats, err := m.ses.engine.Stats(ctx)
	if err != nil {
		return nil, err
	}
	r := m.runReport(ctx, stats)
	if s, err := m.sample(ctx, time.Now()); err == nil {
		f := m.limit(s.Gauges)
		r.Now = f.Words()
	}
	return r, m.ses.measure(ctx, r, stats, r.Run.AddedPerSecond, probe)
}

// runReport returns the part of a report that needs no probes of the filter.
func (m *monitor) runReport(ctx context.Context, stats frontier.Stats) *report.Report {
	r := newReport(m.ses.plan.Location().String(), m.ses.dir, stats)
	r.End = fmt.Sprintf("%s, %s", stateOf(true, stats), human.Plural(stats.Pages, "page"))
	p, took := m.ses.worker.Progress(), time.Since(m.started).Seconds()
	r.LastError, r.Relays = p.LastError, m.lags()
	r.Visits, _ = m.ses.visitFigures(ctx) // the run reports errors of the rows
	perSecond := func(n uint64) float64 { return float64(n) / max(took, 1e-3) }
	r.Run = &report.Run{
		Started: m.started.UTC().Truncate(time.Millisecond), Seconds: took, Pages: p.Pages, Bytes: p.Bytes,
		Requests: p.Requests, RobotsRequests: p.Robots, Errors: p.Errors,
		PagesPerSecond: perSecond(p.Pages), BytesPerSecond: perSecond(p.Bytes), AddedPerSecond: perSecond(stats.Added - m.added),
		Outcomes: m.ses.worker.Outcomes(),
	}
	for _, link := range m.ses.worker.RefusedByForm() {
		const most = 200
		r.RefusedByForm = append(r.RefusedByForm, report.RefusedURL{Reason: link.Reason, URL: link.URL[:min(len(link.URL), most)],
			Referrer: link.Referrer[:min(len(link.Referrer), most)], Rule: link.Rule, Flag: trap.Permission(link.Reason)})
	}
	m.mu.Lock()
	r.Limits = m.meter.Shares()
	timeline := m.timeline.Clone()
	r.Timeline = &timeline
	fed := m.ses.seedCounts()
	m.mu.Unlock()
	if fed.Added+fed.Seen+fed.Refused > 0 {
		r.Seeds = &report.Seeds{Added: fed.Added, Known: fed.Seen, Refused: fed.Refused}
	}
	m.topHosts(r)
	r.Errors = m.errors(stats)
	return r
}

// stoppedReport returns the report of a crawl that this process does not run. The
// counters are from the store. Other parts are from the report of the last run.
func (ses *session) stoppedReport(ctx context.Context, probe time.Duration) (*report.Report, error) {
	stats, err := ses.engine.Stats(ctx)
	if err != nil {
		return nil, err
	}
	r := newReport(ses.plan.Location().String(), ses.dir, stats)
	if r.Errors, err = ses.storedErrors(ctx, stats); err != nil {
		return nil, err
	}
	r.Relays = ses.lags(ctx)
	if r.Visits, err = ses.visitFigures(ctx); err != nil {
		return nil, err
	}
	shared, err := ses.engine.Sharing(ctx)
	if err != nil {
		return nil, err
	}
	r.End = "not running"
	running := shared != nil && len(shared.Workers) > 0
	if running {
		r.End = stateOf(true, stats)
	}
	last, err := ses.lastReport()
	switch {
	case err != nil:
		return nil, err
	case last == nil:
	case strings.HasPrefix(last.End, endRunning):
		r.End = crashed
	default:
		r.End = last.End
		r.Resume, r.ResumeNotes = last.Resume, last.ResumeNotes
	}
	if last != nil {
		r.Run, r.Seeds, r.Limits, r.LastError = last.Run, last.Seeds, last.Limits, last.LastError
		r.Top, r.TopAll, r.NotTaken = last.Top, last.TopAll, last.NotTaken
		r.ScriptSeeds, r.Timeline = last.ScriptSeeds, last.Timeline
		r.SameText = last.SameText
		r.RefusedByForm, r.FullHosts, r.Denied, r.Blocked = last.RefusedByForm, last.FullHosts, last.Denied, last.Blocked
	}
	ses.latestResults(ctx, r, stats)
	return r, ses.measure(ctx, r, stats, 0, probe)
}

// stateOf describes in a word or two what a crawl is doing.
func stateOf(running bool, stats frontier.Stats) string {
	state := "not running"
	if running {
		state = endRunning
	}
	if stats.Paused {
		state += ", paused"
	}
	return state
}

// newReport returns a report with the counters of the store.
func newReport(crawl, dir string, stats frontier.Stats) *report.Report {
	r := &report.Report{
		Version: report.Version, Crawl: crawl, Made: time.Now().UTC().Truncate(time.Millisecond),
		Books: stats.Books, Outcomes: stats.Outcomes, Results: report.ResultsOf(stats.Outcomes), AllRounds: stats.Repeats > 0,
		Checks: report.ChecksOf(&stats), Pages: stats.Pages, Retries: stats.Retries,
		Delayed: stats.Delayed, Hosts: stats.Hosts, MissingRecords: stats.MissingRecords,
	}
	if dir != "" {
		r.Records = recordsIn(dir)
		r.Answers = answersIn(dir)
	}
	if err := Promises(stats); err != nil {
		r.Fault = err.Error()
	}
	return r
}

// Summary makes a report from a status. The parts that a status lacks stay empty.
func (h *Handle) Summary(st report.Status) *report.Report {
	dir := h.location.Dir
	if h.location.Redis != nil {
		dir = ""
	}
	r := newReport(h.location.String(), dir, st.Stats)
	r.Exact, r.Relays, r.NotTaken = exactOf(st.Stats, st.Exact), st.Relays, st.NotTaken
	r.FullHosts, r.SameText, r.Errors, r.Now = st.FullHosts, st.SameText, st.Errors, st.Now
	r.Visits = st.Visits
	if st.Progress != nil {
		r.LastError = st.Progress.LastError
	}
	r.End = fmt.Sprintf("%s, %s", stateOf(st.Running, st.Stats), human.Plural(st.Stats.Pages, "page"))
	return r
}

// exactOf returns the part of a report about exact URLs, or nil if the crawl has none.
func exactOf(stats frontier.Stats, keys *report.ExactKeys) *report.Exact {
	if keys == nil && stats.Recovered+stats.Promoted == 0 {
		return nil
	}
	return &report.Exact{Keys: keys, Recovered: stats.Recovered, Promoted: stats.Promoted}
}

// Promises returns an error if the sums of the counters are wrong (see frontier.Books), or
// if the filter has forgotten URLs.
func Promises(stats frontier.Stats) error {
	err := stats.Balance()
	if n := stats.Shadow.Forgotten; n > 0 {
		err = errors.Join(err, fmt.Errorf("the filter forgot %s of the sampled URLs: it is damaged", human.Commas(n)))
	}
	return err
}

// measure adds the state of the filter to r. The argument probe is the longest time for
// which measure probes the filter with random fingerprints.
func (ses *session) measure(ctx context.Context, r *report.Report, stats frontier.Stats, added float64, probe time.Duration) error {
	layers, err := ses.engine.FilterLayers(ctx)
	if err != nil {
		return err
	}
	r.Filter = filterOf(stats.Filter, layers, ses.plan.Settings.Growth, added)
	chain := ses.chain()
	var p probes
	if probe > 0 {
		limited, cancel := context.WithTimeout(ctx, probe)
		defer cancel()
		if p.claimed, p.asked, err = ses.engine.Probe(limited, probesFor(chain.FPR)); err != nil {
			return err
		}
	}
	r.FPR = falsePositives(stats, p, chain)
	keys, err := ses.engine.ExactKeys(ctx)
	r.Exact = exactOf(stats, keys)
	return err
}

// chain returns the sizes of the layers of the filter.
func (ses *session) chain() sizing.Chain {
	return sizing.Chain{Keys: ses.plan.Settings.Capacity, FPR: ses.plan.Settings.FPR, Growth: ses.plan.Settings.Growth}
}

// lastReport returns the report in the crawl's directory, or nil if there is none.
func (ses *session) lastReport() (*report.Report, error) {
	if ses.dir == "" {
		return nil, nil
	}
	name := ses.file(reportFile)
	r, err := engine.ReadJSON[report.Report](name)
	if r != nil && r.Version != report.Version {
		return nil, fmt.Errorf("%s has version %d, want %d", name, r.Version, report.Version)
	}
	return r, err
}

// conclude makes the report of a run that has ended, and writes it.
func (m *monitor) conclude(ctx context.Context, r *Result) error {
	ctx = context.WithoutCancel(ctx)
	limited, cancel := context.WithTimeout(ctx, answerTime)
	m.readRelays(limited)
	if err := m.shareExamples(limited); err != nil {
		m.ses.plan.Logger.Debug("examples of errors not shared", slog.Any("err", err))
	}
	cancel()
	r.Report = m.runReport(ctx, r.Stats)
	r.Report.End = map[fetcher.End]string{
		fetcher.Empty: "nothing is left to fetch", fetcher.Limit: "--max-pages is reached",
		fetcher.Stopped: "stopped", TimeOver: "--max-time is over", fetcher.Blocked: "only blocked hosts have URLs left",
	}[r.End]
	if r.End == fetcher.Blocked {
		r.Report.Blocked = m.ses.blocked
	}
	if m.ses.noneReached(r) {
		r.Report.End += ": no seed could be reached"
		r.Unreached = m.ses.errUnreached()
	}
	if r.End != fetcher.Empty && m.ses.plan.Resume != nil {
		r.Report.Resume, r.Report.ResumeNotes = m.ses.plan.Resume(r)
	}
	m.ses.latestResults(ctx, r.Report, r.Stats)
	if m.ses.addDenied(ctx, r); r.Report.Denied != nil {
		r.Report.End += ": every seed was denied"
	}
	probe := max(min(probeAtEnd, r.Took/100), time.Millisecond)
	if err := m.ses.measure(ctx, r.Report, r.Stats, r.Report.Run.AddedPerSecond, probe); err != nil {
		return err
	}
	if err := m.write(r.Report); err != nil {
		m.ses.plan.Logger.Warn("report not written", slog.Any("err", err))
	}
	return nil
}

// probesFor returns how many random fingerprints to probe at a false-positive rate of
// p. About a hundred of them are then false positives.
func probesFor(p float64) uint64 { return uint64(math.Ceil(100 / p)) }

// probes counts random fingerprints, and how many of them the filter claimed to contain.
type probes struct{ claimed, asked uint64 }

// falsePositives returns three estimates of the false-positive rate, and the expected
// number of lost URLs.
func falsePositives(stats frontier.Stats, p probes, chain sizing.Chain) *report.FalsePositives {
	shadow := stats.Shadow
	f := &report.FalsePositives{
		// This rate follows from the share of bits that are set. All bits were counted, so
		// the interval has no width.
		Estimated: &report.Figure{P: stats.Filter.FPR, Low: stats.Filter.FPR, High: stats.Filter.FPR},
		Shadow:    counted(shadow.Lost, shadow.New+shadow.Lost),
		Lost:      expectedLost(stats, chain),
	}
	if p.asked > 0 {
		f.Probed = counted(p.claimed, p.asked)
	}
	return f
}

func counted(hits, trials uint64) *report.Figure {
	f := &report.Figure{Hits: hits, Trials: trials}
	if trials > 0 {
		f.P = float64(hits) / float64(trials)
	}
	f.Low, f.High = sizing.Interval(hits, trials)
	return f
}

// expectedLost estimates how many new URLs the filter took for known ones while it filled. The
// keys of --known were in the filter before the first new URL, and are not counted.
//
// Each part of a filter consists of whole words. So a small filter has more bits than its URLs
// need, which the chain does not know. Therefore expectedLost also uses the present rate p,
// which follows from the actual bits. The rate of a filter never falls, so each new URL was
// lost with a probability of at most p. For n new URLs that were added, the expected number of
// new URLs that were lost instead of added is therefore at most p/(1-p)·n.
//
// A filter with a window has forgotten keys that it was filled with. Its store counts the expected number.
func expectedLost(stats frontier.Stats, chain sizing.Chain) *report.Lost {
	if w := stats.Filter.Window; w != nil {
		low, high := poissonRange(w.Lost)
		return &report.Lost{Expected: w.Lost, Low: low, High: high}
	}
	keys := stats.Filter.Keys
	known := keys + stats.Recovered - min(keys+stats.Recovered, stats.Added)
	expected := max(chain.At(keys).LostKeys-chain.At(min(known, keys)).LostKeys, 0)
	if p := stats.Filter.FPR; known < keys {
		expected = min(expected, p/(1-p)*float64(keys-known))
	}
	low, high := poissonRange(expected)
	return &report.Lost{Expected: expected, Low: low, High: high}
}

// poissonRange returns the bounds of the 95 % interval of a Poisson variable with this
// mean. The variable is below low with a probability of at most 2.5 %, and above high
// with a probability of at most 2.5 %.
func poissonRange(mean float64) (low, high float64) {
	const tail, reach, many = 0.025, 1.959963984540054, 500
	if mean > many { // the distribution is close to a normal one
		return math.Max(0, math.Floor(mean-reach*math.Sqrt(mean))), math.Ceil(mean + reach*math.Sqrt(mean))
	}
	term := math.Exp(-mean) // P(N = n)
	sum, foundLow := term, false
	for n := 0.0; ; n++ {
		if !foundLow && sum > tail {
			low, foundLow = n, true
		}
		if sum >= 1-tail {
			return low, n
		}
		term *= mean / (n + 1)
		sum += term
	}
}

// filterOf describes the filter. The argument added is the number of new URLs per second.
func filterOf(stats frontier.FilterStats, layers []frontier.FilterLayer, growth bool, added float64) *report.Filter {
	f := &report.Filter{Keys: stats.Keys, Capacity: stats.Capacity, Bytes: stats.Bytes, Growth: growth, Window: stats.Window}
	for i, l := range layers {
		of := report.Layer{FilterLayer: l}
		if i == len(layers)-1 { // new keys go into the newest layer only
			of.FullIn = report.SecondsToFull(l.Keys, l.Capacity, added)
		}
		f.Layers = append(f.Layers, of)
	}
	return f
}

// noneReached reports whether a run ended without an answer from any seed's host.
func (ses *session) noneReached(r *Result) bool {
	if r.Stats.Pages > 0 || r.End != fetcher.Empty && r.End != TimeOver {
		return false
	}
	finished := uint64(0)
	for _, n := range r.Stats.Outcomes {
		finished += n
	}
	failed := r.Stats.Outcomes[frontier.Network] + r.Stats.Outcomes[frontier.HostDead]
	p := ses.worker.Progress()
	return failed == finished && (failed > 0 || !p.Answered && p.LastError != nil)
}

// recordsIn returns the newest file of records in dir, or "" if the records are not in files.
func recordsIn(dir string) string {
	name := engine.RecordsIn(dir)
	if _, err := os.Stat(name); err != nil {
		return ""
	}
	return name
}

// answersIn returns the folder of the answers that the crawl in dir has kept, or ""
// if it kept none.
func answersIn(dir string) string {
	folder := filepath.Join(dir, warc.Folder)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return ""
	}
	return folder
}
