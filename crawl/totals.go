package crawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/topk"
)

// totalsFile is the name of the file with sums over all runs. It has the numbers that
// the store does not count.
const totalsFile = "totals.json"

const totalsVersion = 1

// totals are the sums over the runs of a crawl in one directory. If a run was killed,
// they include its counts up to its last report.
type totals struct {
	Version int                `json:"version"`
	Hosts   fetcher.HostCounts `json:"hosts"`
	Kept    Kept               `json:"kept"`

	ScriptSeeds fetcher.ScriptSeeds `json:"script_seeds"`
}

// readTotals reads the totals of earlier runs. Without them the run starts at zero.
func (m *monitor) readTotals() {
	m.before = totals{Version: totalsVersion, Hosts: fetcher.NewHostCounts()}
	if m.ses.dir == "" {
		return
	}
	name := m.ses.file(totalsFile)
	read, err := engine.ReadJSON[totals](name)
	switch {
	case read != nil && read.Version == totalsVersion:
		m.before = *read
		return
	case read != nil:
		err = fmt.Errorf("%s has version %d, want %d", name, read.Version, totalsVersion)
	}
	if err != nil {
		m.ses.plan.Logger.Warn("totals of earlier runs not read, hosts are counted from this run on", slog.Any("err", err))
	}
}

// totals returns the totals of all runs, including this one.
func (m *monitor) totals() totals {
	all := totals{Version: totalsVersion, Hosts: fetcher.NewHostCounts()}
	all.Hosts.Merge(m.before.Hosts)
	m.ses.worker.Hosts(all.Hosts.Merge)
	all.ScriptSeeds = m.before.ScriptSeeds
	all.ScriptSeeds.Add(m.ses.worker.ScriptSeeds())
	all.Kept = m.before.Kept
	all.Kept.add(m.ses.plan.kept(m.ses.worker.Progress().Pages))
	return all
}

// topHosts adds the top hosts of the run to the report. For the whole crawl, it adds the
// top hosts and the most frequent causes of errors.
func (m *monitor) topHosts(r *report.Report) {
	r.NotTaken, r.FullHosts, r.SameText = m.notTaken(), m.fullHosts(), m.sameText()
	totals := m.totals()
	if totals.ScriptSeeds.Count > 0 {
		r.ScriptSeeds = (*report.ScriptSeeds)(&totals.ScriptSeeds)
	}
	all := totals.Hosts
	m.ses.worker.Hosts(func(run fetcher.HostCounts) {
		r.Top = &report.TopHosts{
			Pages: report.HostCounts(run.Pages, topHosts), Errors: report.HostCounts(run.Errors, topHosts),
			Waiting: report.HostCounts(run.Waiting, topHosts),
		}
		r.TopAll = &report.TopHosts{
			Pages: report.HostCountsBeside(all.Pages, run.Pages, topHosts), Errors: report.HostCountsBeside(all.Errors, run.Errors, topHosts),
			Waiting: report.HostCountsBeside(all.Waiting, run.Waiting, topHosts),
		}
		addCauses(r.Top.Errors, run.Causes)
		addCauses(r.TopAll.Errors, all.Causes)
	})
}

// notTaken returns Report.NotTaken.
func (m *monitor) notTaken() (counts []report.CauseCount) {
	all := m.totals().Hosts.NotTaken
	m.ses.worker.Hosts(func(run fetcher.HostCounts) { counts = report.CauseCounts(all, run.NotTaken, topHosts) })
	return counts
}

// fullHosts returns Report.FullHosts.
func (m *monitor) fullHosts() report.FullHosts {
	return m.hostsOf(func(c *fetcher.HostCounts) **topk.Sketch { return &c.Full })
}

// sameText returns Report.SameText.
func (m *monitor) sameText() report.SameText {
	return m.hostsOf(func(c *fetcher.HostCounts) **topk.Sketch { return &c.SameText })
}

// hostsOf returns the hosts with the most counts in one of the sketches.
func (m *monitor) hostsOf(sketch func(*fetcher.HostCounts) **topk.Sketch) (hosts []report.HostCount) {
	m.ses.worker.Hosts(func(run fetcher.HostCounts) {
		all, before, now := fetcher.NewHostCounts(), fetcher.HostCounts{}, fetcher.HostCounts{}
		*sketch(&before), *sketch(&now) = *sketch(&m.before.Hosts), *sketch(&run)
		all.Merge(before)
		all.Merge(now)
		hosts = report.HostCountsBeside(*sketch(&all), *sketch(&run), topHosts)
	})
	return hosts
}

// errors returns Report.Errors of a run. In Redis, other workers have examples too: see shareExamples.
func (m *monitor) errors(stats frontier.Stats) report.Errors {
	m.mu.Lock()
	examples := maps.Clone(m.shared)
	m.mu.Unlock()
	if examples == nil {
		examples = m.totals().Hosts.Examples
	}
	return report.ErrorsOf(stats.Causes, m.ses.worker.Causes(), examples)
}

// storedErrors returns Report.Errors of a crawl that this process does not run.
func (ses *session) storedErrors(ctx context.Context, stats frontier.Stats) (report.Errors, error) {
	examples, err := ses.sharedExamples(ctx)
	if err != nil {
		return nil, err
	}
	run := make(map[string]uint64)
	if last, err := ses.lastReport(); err == nil && last != nil {
		for _, e := range last.Errors {
			run[e.Cause] = e.Run
			if ses.plan.Redis == nil {
				examples[e.Cause] = e.Examples
			}
		}
	}
	return report.ErrorsOf(stats.Causes, run, examples), nil
}

// sharedExamples returns the examples that workers have stored in Redis.
func (ses *session) sharedExamples(ctx context.Context) (fetcher.Examples, error) {
	notes, err := ses.engine.Notes(ctx)
	examples := make(fetcher.Examples)
	for _, name := range slices.Sorted(maps.Keys(notes)) {
		var example fetcher.Example
		cause, _, _ := strings.Cut(name, "/")
		if json.Unmarshal([]byte(notes[name]), &example) == nil {
			examples.Add(fetcher.Examples{cause: {example}})
		}
	}
	return examples, err
}

// shareExamples stores the examples of this worker in Redis, and keeps those of all workers in m.shared. It
// does nothing for an embedded crawl.
func (m *monitor) shareExamples(ctx context.Context) error {
	if m.ses.plan.Redis == nil {
		return nil
	}
	examples, err := m.ses.sharedExamples(ctx)
	if err != nil {
		return err
	}
	own := fetcher.NewHostCounts()
	m.ses.worker.Hosts(own.Merge)
	for cause, all := range own.Examples {
		for _, x := range all {
			before := len(examples[cause])
			if examples.Add(fetcher.Examples{cause: {x}}); len(examples[cause]) == before {
				continue
			}
			text, err := json.Marshal(x)
			if err == nil {
				err = m.ses.engine.Note(ctx, fmt.Sprintf("%s/%d", cause, before+1), string(text))
			}
			if err != nil {
				return err
			}
		}
	}
	m.mu.Lock()
	m.shared = examples
	m.mu.Unlock()
	return nil
}

// addCauses adds to each host the reason why its last attempt failed.
func addCauses(hosts []report.HostCount, causes map[string]string) {
	for i := range hosts {
		hosts[i].Cause = causes[hosts[i].Host]
	}
}

// write replaces the report and the totals in the crawl's directory.
func (m *monitor) write(r *report.Report) error {
	if m.ses.dir == "" {
		return nil
	}
	return errors.Join(engine.WriteJSON(m.ses.file(totalsFile), "", m.totals()), engine.WriteJSON(m.ses.file(reportFile), "  ", r))
}
