package crawl

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
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
	name := m.ses.file(totalsFile)
	read, err := engine.ReadJSON[totals](name)
	switch {
	case read != nil && read.Version == totalsVersion:
		m.before = *read
		return
	case read != nil:
		err = fmt.Errorf("%s has version %d, want %d", name, read.Version, totalsVersion)
	}
	m.before = totals{Version: totalsVersion, Hosts: fetcher.NewHostCounts()}
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
	r.NotTaken, r.FullHosts = m.notTaken(), m.fullHosts()
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
		r.Errors = report.CauseCounts(all.ByCause, run.ByCause, topHosts)
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
func (m *monitor) fullHosts() (hosts report.FullHosts) {
	m.ses.worker.Hosts(func(run fetcher.HostCounts) {
		all := fetcher.NewHostCounts()
		all.Merge(fetcher.HostCounts{Full: m.before.Hosts.Full})
		all.Merge(fetcher.HostCounts{Full: run.Full})
		hosts = report.HostCountsBeside(all.Full, run.Full, topHosts)
	})
	return hosts
}

// addCauses adds to each host the reason why its last attempt failed.
func addCauses(hosts []report.HostCount, causes map[string]string) {
	for i := range hosts {
		hosts[i].Cause = causes[hosts[i].Host]
	}
}

// write replaces the report and the totals in the crawl's directory.
func (m *monitor) write(r *report.Report) error {
	return errors.Join(engine.WriteJSON(m.ses.file(totalsFile), "", m.totals()), engine.WriteJSON(m.ses.file(reportFile), "  ", r))
}
