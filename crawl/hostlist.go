package crawl

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
)

// HostQuery says which hosts Handle.Hosts returns.
type HostQuery struct {
	Host    string // only the host with this key; empty means all hosts
	Trouble bool   // only hosts that fail, are blocked, or have the lease of a dead worker
	Sort    string // one of report.HostSorts; empty means "queued"
	Most    int    // hosts to return; 0 means 20, and the maximum is MaxHosts
	// Sample limits the work to about so many hosts: those that are leased or due first, and those with the most pages,
	// errors and waits as far as this process counts them. If the store is busy, they are the hosts that were read in about a
	// second. report.Hosts.Sampled says if there are more. 0 means all hosts.
	Sample int
}

// MaxHosts is the largest HostQuery.Most.
const MaxHosts = 10_000

// Hosts returns the state of hosts, and what was fetched from them, also of hosts that have no URLs left. It reads
// the rows of all hosts, and holds the state of a few times HostQuery.Most of them in memory.
func (h *Handle) Hosts(ctx context.Context, query HostQuery) (report.Hosts, error) {
	return ask(ctx, h, verbHosts, query)
}

// hosts implements Handle.Hosts.
func (ses *session) hosts(ctx context.Context, query HostQuery) (all report.Hosts, err error) {
	if query.Sort == "" {
		query.Sort = "queued"
	}
	if report.HostSorts[query.Sort] == nil {
		return all, fmt.Errorf("crawl: hosts: no order is named %q", query.Sort)
	}
	most := min(max(query.Most, 0), MaxHosts)
	if most == 0 {
		most = 20
	}
	view, begun := ses.newHostViews(), time.Now()
	err = ses.eachHost(ctx, query, &all, func(state frontier.HostState) bool {
		host := view.of(&state)
		if query.Trouble && !host.Trouble() {
			return ctx.Err() == nil
		}
		all.Selected++
		all.Waits.Add(&host)
		if host.Uncounted {
			all.Uncounted++
		}
		if all.Hosts = append(all.Hosts, host); len(all.Hosts) >= 2*most+100 {
			report.SortHosts(all.Hosts, query.Sort)
			all.Hosts = all.Hosts[:most]
		}
		return ctx.Err() == nil
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return all, err
	}
	all.Waits.Of = all.Waits.Hosts
	report.SortHosts(all.Hosts, query.Sort)
	all.Hosts = all.Hosts[:min(most, len(all.Hosts))]
	for i := range all.Hosts {
		if query.Sample > 0 && time.Since(begun) > 2*sampleTime {
			break
		}
		if err := ses.addOldest(ctx, &all.Hosts[i]); err != nil {
			return all, err
		}
	}
	return all, ses.addVisits(all.Hosts)
}

// sampleTime is about how long a sample of hosts is read.
const sampleTime = time.Second

// eachHost calls the function visit for the hosts of a query. If it leaves out hosts, it sets all.Sampled.
func (ses *session) eachHost(ctx context.Context, query HostQuery, all *report.Hosts, visit func(frontier.HostState) bool) error {
	one := frontier.HostQuery{Host: query.Host, Finished: true, Oldest: query.Sort == "oldest"}
	if query.Sample <= 0 || query.Host != "" {
		return ses.engine.Hosts(ctx, one, visit)
	}
	stats, err := ses.engine.Counters(ctx)
	if err != nil {
		return err
	}
	seen, names, waiting, begun := make(map[string]bool), ses.countedHosts(), uint64(0), time.Now()
	once := func(state frontier.HostState) bool {
		if seen[state.Host] {
			return true
		}
		seen[state.Host] = true
		waiting += min(state.Queued+state.Leased, 1)
		return visit(state) && time.Since(begun) < sampleTime
	}
	err = ses.engine.Hosts(ctx, frontier.HostQuery{First: query.Sample, Oldest: one.Oldest}, once)
	for i := 0; i < len(names) && err == nil && time.Since(begun) < sampleTime; i++ {
		if one.Host = names[i]; !seen[one.Host] {
			err = ses.engine.Hosts(ctx, one, once)
		}
	}
	all.Sampled = stats.Hosts > waiting
	return err
}

// countedHosts returns the hosts with the most pages, errors and waits, as far as this process knows them.
func (ses *session) countedHosts() (hosts []string) {
	var top *report.TopHosts
	if ses.monitor != nil {
		var r report.Report
		ses.monitor.topHosts(&r)
		top = r.TopAll
	} else if last, err := ses.lastReport(); err == nil && last != nil {
		top = last.TopAll
	}
	if top == nil {
		return nil
	}
	for _, host := range slices.Concat(top.Pages, top.Errors, top.Waiting) {
		hosts = append(hosts, host.Host)
	}
	return hosts
}

// addOldest adds the oldest URL of a host.
func (ses *session) addOldest(ctx context.Context, host *report.Host) error {
	if host.Oldest != nil || host.Queued+host.Leased == 0 {
		return nil
	}
	view := ses.newHostViews()
	return ses.engine.Hosts(ctx, frontier.HostQuery{Host: host.Host, Oldest: true}, func(state frontier.HostState) bool {
		now := view.of(&state)
		host.OldestURL, host.Oldest = now.OldestURL, now.Oldest
		return false
	})
}

// hostViews makes report.Hosts from the states in the store, all at one moment.
type hostViews struct {
	*session
	now time.Time
}

func (ses *session) newHostViews() hostViews { return hostViews{ses, time.Now()} }

// of returns a host.
func (v hostViews) of(state *frontier.HostState) report.Host {
	policy := v.plan.policy.Load()
	learnt, err := fetcher.ViewHost(state.Blob, state.Host, v.plan.userAgent(), policy, v.now)
	if err != nil {
		v.plan.Logger.Debug("host state unreadable", slog.String("host", state.Host), slog.Any("err", err))
	}
	n := &state.Counts
	host := report.Host{
		Host: state.Host, Queued: state.Queued, Delayed: state.Delayed, Leased: state.Leased,
		Done: n.Done, Failed: n.Failed, Pages: n.Pages, Bytes: n.Bytes, Errors: n.Errors(), Causes: n.Causes, Uncounted: n.Missing,
		Delay: human.Seconds(rounded(learnt.Delay)), DelayBy: learnt.DelayReason, Robots: learnt.Robots, Worker: state.Worker, Traps: learnt.Traps,
		SameText: learnt.SameText,
	}
	if e := learnt.LastError; e != nil {
		host.LastError, host.LastErrorAt = e.Error, &e.Time
	}
	if n.Ago > 0 {
		host.Finished = v.in(-n.Ago)
	}
	if state.Queued+state.Leased == 0 {
		return host
	}
	if host.OldestURL = state.OldestURL; host.OldestURL != "" {
		host.Oldest = v.in(-state.OldestAge)
	}
	if state.DueIn > 0 {
		host.Next = v.in(state.DueIn)
	}
	switch waits := state.DueIn > 0; {
	case state.Lost:
		host.WaitsFor, host.Why = report.WaitLost, state.Worker
		if state.EndsIn > 0 {
			host.Next = v.in(state.EndsIn)
		}
	case policy.HostPaused(state.Host):
		host.WaitsFor, host.Next = report.WaitPaused, nil
	case learnt.Blocked && state.Leased == 0:
		host.WaitsFor, host.Why = report.WaitBlocked, learnt.Cause
	case state.Leased > 0:
		host.WaitsFor, host.Why = report.WaitWorker, learnt.Cause
	case waits && learnt.NoRobots:
		host.WaitsFor, host.Why = report.WaitRobots, learnt.Robots
	case waits && (learnt.Backoff != "" || learnt.Cause != ""):
		host.WaitsFor, host.Why = report.WaitBackoff, learnt.Backoff
		if learnt.Cause != "" {
			host.Why = learnt.Cause
		}
	case waits && state.Crowded:
		host.WaitsFor = report.WaitDomain
	case waits:
		host.WaitsFor = report.WaitDelay
	case state.Queued == state.Delayed:
		host.WaitsFor = report.WaitRetry
	default:
		host.WaitsFor = report.WaitDue
	}
	return host
}

func (v hostViews) in(d time.Duration) *time.Time {
	at := v.now.Add(d).UTC().Truncate(time.Second)
	return &at
}

// looked is how many hosts waits looks at.
const looked = 1000

// waits counts the hosts by what they wait for. In a crawl of many hosts it looks only at those that are due first.
func (ses *session) waits(ctx context.Context, stats *frontier.Stats) (report.Waits, error) {
	all, view := report.Waits{Of: stats.Hosts}, ses.newHostViews()
	if stats.Hosts == 0 {
		return all, nil
	}
	err := ses.engine.Hosts(ctx, frontier.HostQuery{First: looked}, func(state frontier.HostState) bool {
		host := view.of(&state)
		all.Add(&host)
		return ctx.Err() == nil
	})
	if seen := all.Hosts; seen < looked { // the other hosts have only delayed items, or came or went meanwhile
		all.AddRetries(min(stats.Hosts-min(seen, stats.Hosts), stats.Delayed))
		all.Of = all.Hosts
	}
	all.Of = max(all.Of, all.Hosts)
	return all, err
}
