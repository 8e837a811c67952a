package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/sizing"
)

// reportFile has the newest report of a crawl: of its last run, or of the one
// that runs, at most reportEvery old.
const reportFile = "report.json"

// How long random fingerprints may be probed. They are work for a core.
const (
	probeStopped = time.Second
	probeRunning = 200 * time.Millisecond // of a crawl that needs the core itself
	probeAtEnd   = 250 * time.Millisecond // and no more than a twentieth of the run
)

const topHosts = 10

// endRunning begins the End of a report of a crawl that runs.
const endRunning = "running"

// newReport prints the account of a crawl.
func newReport(s streams) *cobra.Command {
	var crawl target
	var asJSON, seeds bool
	var probe time.Duration
	cmd := &cobra.Command{
		Use:   "report [--dir DIR | --redis URL --name NAME] [--json] [--out FILE]",
		Short: "Print the account of a crawl, running or not",
		Long: `Print the account of a crawl, running or not: its books with every reason for
a refusal, rates, what limited it, the hosts with the most of something, the
filter, and how many URLs that may have cost. The same is in DIR/report.json,
written each minute and at the end of a run.`,
		Args: cobra.NoArgs,

		DisableFlagsInUseLine: true,
	}
	crawl.addTo(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&seeds, "seeds", false, "write DIR/seeds.jsonl anew: what came of each seed")
	cmd.Flags().DurationVar(&probe, "probe", 0, "probe the filter for at most this `TIME` (default 1s, 200ms while the crawl runs)")
	restrict.Within(cmd.Flags(), "probe", &probe, 1, forever, timeNotZero)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := crawl.existing(cmd.Context())
		if err != nil {
			return err
		}
		if seeds {
			return reportSeeds(cmd.Context(), at, s)
		}
		r, err := askReport(cmd.Context(), at, s, probe)
		if err != nil {
			return err
		}
		if asJSON {
			enc := json.NewEncoder(s.out)
			enc.SetIndent("", "  ")
			return enc.Encode(r)
		}
		if err := r.WriteText(s.out); err != nil || r.Fault == "" {
			return err
		}
		return printed{&exitError{exitFailed, nil}}
	}
	return cmd
}

// askReport gets the report of a crawl from who runs it, or makes it.
func askReport(ctx context.Context, at place, s streams, probe time.Duration) (*report.Report, error) {
	r := new(report.Report)
	err := lookAtCrawl(ctx, at, s,
		func() error {
			query := url.Values{"probe": {cmp.Or(probe, probeRunning).String()}}
			return callControl(ctx, at.dir, "GET", "/report?"+query.Encode(), nil, r)
		},
		func(ses *session) (err error) {
			r, err = ses.stoppedReport(ctx, cmp.Or(probe, probeStopped))
			return err
		})
	return r, err
}

func (m *monitor) handleReport(w http.ResponseWriter, r *http.Request) {
	probe, err := time.ParseDuration(r.URL.Query().Get("probe"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	report, err := m.report(r.Context(), probe)
	reply(w, report, err)
}

// report is the account of the crawl that this process runs.
func (m *monitor) report(ctx context.Context, probe time.Duration) (*report.Report, error) {
	stats, err := m.store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	r := m.runReport(stats)
	return r, m.measure(ctx, r, stats, r.Run.AddedPerSecond, probe)
}

// runReport is the part of a report that costs nothing.
func (m *monitor) runReport(stats frontier.Stats) *report.Report {
	r := m.newReport(stats)
	r.End = fmt.Sprintf("%s, %s", stateOf(true, stats), human.Plural(stats.Pages, "page"))
	p, took := m.crawl.Progress(), time.Since(m.started).Seconds()
	r.LastError = lastError(p)
	perSecond := func(n uint64) float64 { return float64(n) / max(took, 1e-3) }
	r.Run = &report.Run{
		Started: m.started.UTC().Truncate(time.Millisecond), Seconds: took, Pages: p.Pages, Bytes: p.Bytes,
		Requests: p.Requests, RobotsRequests: p.Robots, Errors: p.Errors,
		PagesPerSecond: perSecond(p.Pages), BytesPerSecond: perSecond(p.Bytes), AddedPerSecond: perSecond(stats.Added - m.added),
		Outcomes: m.crawl.Outcomes(),
	}
	m.mu.Lock()
	r.Limits = m.meter.Shares()
	fed := m.fed
	m.mu.Unlock()
	if fed.added+fed.known+fed.refused > 0 {
		r.Seeds = &report.Seeds{Added: fed.added, Known: fed.known, Refused: fed.refused}
	}
	m.topHosts(r)
	return r
}

// stoppedReport is the account of a crawl that nobody runs: its books are from
// the store, what its last run did is from the file that it left.
func (ses *session) stoppedReport(ctx context.Context, probe time.Duration) (*report.Report, error) {
	stats, err := ses.store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	r := ses.newReport(stats)
	shared, err := ses.store.sharing(ctx)
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
		r.End = "not running; the last run came to no end of its own"
	default:
		r.End = last.End
		r.Resume, r.ResumeNotes = last.Resume, last.ResumeNotes
	}
	if last != nil {
		r.Run, r.Seeds, r.Limits, r.LastError = last.Run, last.Seeds, last.Limits, last.LastError
		r.Top, r.TopAll, r.Errors = last.Top, last.TopAll, last.Errors
	}
	if r.Resume == "" && !running && stats.Queued+stats.Leased > 0 {
		r.Resume = ses.command("crawl")
	}
	return r, ses.measure(ctx, r, stats, 0, probe)
}

// stateOf says in a word or two what a crawl is doing.
func stateOf(running bool, stats frontier.Stats) string {
	state := "not running"
	if running {
		state = endRunning
	}
	return state + pausedWord(stats)
}

// newReport fills what the store's counters tell.
func (at place) newReport(stats frontier.Stats) *report.Report {
	r := &report.Report{
		Version: report.Version, Crawl: at.title(), Made: time.Now().UTC().Truncate(time.Millisecond),
		Books: stats.Books, Outcomes: stats.Outcomes, Pages: stats.Pages, Retries: stats.Retries,
		Delayed: stats.Delayed, Hosts: stats.Hosts, MissingRecords: stats.MissingRecords,
	}
	if at.dir != "" {
		r.Records = recordsIn(at.dir)
		r.Answers = answersIn(at.dir)
	}
	if err := promises(stats); err != nil {
		r.Fault = err.Error()
	}
	return r
}

// exactOf is the account of exact URLs; nil: there is nothing to say of them.
func exactOf(stats frontier.Stats, keys *report.ExactKeys) *report.Exact {
	if keys == nil && stats.Recovered+stats.Promoted+stats.Outbox == 0 {
		return nil
	}
	return &report.Exact{Keys: keys, Recovered: stats.Recovered, Promoted: stats.Promoted, Outbox: stats.Outbox}
}

// promises returns which of the promises the counters show to be broken.
func promises(stats frontier.Stats) error {
	err := stats.Balance()
	if n := stats.Shadow.Forgotten; n > 0 {
		err = errors.Join(err, fmt.Errorf("the filter forgot %s of the sampled URLs: it is damaged", human.Commas(n)))
	}
	return err
}

// measure looks at the filter, for up to probe with random fingerprints.
func (ses *session) measure(ctx context.Context, r *report.Report, stats frontier.Stats, added float64, probe time.Duration) error {
	layers, err := ses.store.FilterLayers(ctx)
	if err != nil {
		return err
	}
	r.Filter = filterOf(stats.Filter, layers, bool(ses.growth), added)
	chain := sizing.Chain{Keys: uint64(ses.urls), FPR: float64(ses.fpr), Growth: bool(ses.growth)}
	var p probes
	if probe > 0 {
		limited, cancel := context.WithTimeout(ctx, probe)
		defer cancel()
		if p.claimed, p.asked, err = ses.store.Probe(limited, probesFor(chain.FPR)); err != nil {
			return err
		}
	}
	r.FPR = falsePositives(stats, p, chain)
	keys, err := ses.store.exactKeys(ctx)
	r.Exact = exactOf(stats, keys)
	return err
}

// writeReport replaces the report in a crawl's directory.
func writeReport(dir string, r *report.Report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, reportFile), append(text, '\n'))
}

// replaceFile writes a file that is whole at every moment. One at a time may:
// what a kill leaves behind is overwritten.
func replaceFile(name string, text []byte) error {
	f, err := os.Create(name + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), name)
}

// lastReport returns the report in the crawl's directory, nil if there is none.
func (at place) lastReport() (*report.Report, error) {
	if at.dir == "" {
		return nil, nil
	}
	name := at.file(reportFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	r := new(report.Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if r.Version != report.Version {
		return nil, fmt.Errorf("%s has version %d, want %d", name, r.Version, report.Version)
	}
	return r, nil
}

// conclude makes the report of a run that came to its end, and files it.
func (r *result) conclude(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	r.report = r.monitor.runReport(r.stats)
	r.report.End = map[fetcher.End]string{
		fetcher.Empty: "nothing is left to fetch", fetcher.Limit: "--max-pages is reached",
		fetcher.Stopped: "stopped", endTime: "--max-time is over",
	}[r.end]
	if r.noneReached() {
		r.report.End += ": no seed could be reached"
		r.unreached = r.errUnreached(ctx)
	}
	if r.end != fetcher.Empty {
		r.report.Resume, r.report.ResumeNotes = r.resumeLine(), r.resumeNotes()
	}
	if err := r.measure(ctx, r.report, r.stats, r.report.Run.AddedPerSecond, min(probeAtEnd, r.took/20)); err != nil {
		return err
	}
	if err := r.monitor.write(r.report); err != nil {
		r.log.Warn("report not written", slog.Any("err", err))
	}
	return nil
}

// print writes the summary of a run, which --quiet leaves out.
func (r *result) print(c *console) {
	if r.report.Resume != "" && !r.fed.all && r.options.seeds == "-" {
		fmt.Fprintln(c, "the seeds on stdin were not read to their end: give them again")
	}
	_ = r.report.WriteSummary(c.notices())
}
