package engine

import (
	"context"
	"errors"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/human"
)

// CountBooks implements Look. Redis keeps no row for a finished item. So finished
// items are counted from the records, if the directories of all workers are on this
// machine and no worker runs.
func (e *sharedEngine) CountBooks(ctx context.Context) (report.Audit, error) {
	books, err := e.Audit(ctx)
	if err != nil {
		return report.Audit{}, err
	}
	shared, err := e.Sharing(ctx)
	if err != nil {
		return report.Audit{}, err
	}
	var a report.Audit
	c := books.Counters
	a.Faults = books.Faults
	a.Add("found", c.Found, c.Added+c.Seen+c.RefusedTotal(), "added + seen + refused", "")
	a.Add("added", c.Added, books.Queued+books.Leased+c.Done+books.Failed, "queued + leased + failed counted, done", "")
	a.AddEstimate(c.Added, books.Added, books.AddedErr)
	a.Add("queued", c.Queued, books.Queued, "queues, delayed items", "")
	a.Add("delayed", c.Delayed, books.Delayed, "delayed items", "")
	a.Add("leased", c.Leased, books.Leased, "URLs in leases", "")
	judgeChecks(&a, &c, books.Checks)
	a.Add("hosts", c.Hosts, books.Hosts, "hosts with queued or leased items", "")
	a.Add("failed", c.Failed, books.Failed, "lists of failed items", "")
	a.Add("acknowledged and lost", 0, shared.Lost, "URLs whose addition workers remember", "")
	if n := shared.FoundAgain; n > 0 {
		a.Add("lost, then found again", n, n, "lost URLs that are in the filter again", "")
	}
	if working := len(shared.Workers) > 0; !working { // while workers run, Redis and Postgres cannot be read at the same moment
		err = e.auditExact(ctx, &a)
	}
	err = errors.Join(err, e.auditRecords(ctx, &a, len(shared.Workers) > 0))
	a.Balanced = a.Broken() == nil
	return a, err
}

// auditRecords compares the counters with the records, if the records can be read here
// and no worker runs. The argument running reports whether a worker runs.
func (e *sharedEngine) auditRecords(ctx context.Context, a *report.Audit, running bool) error {
	if running {
		a.Notes = append(a.Notes, "records are not counted while workers write them")
		return nil
	}
	if e.rows {
		return e.auditRows(ctx, a)
	}
	dirs, err := e.journals()
	switch {
	case err != nil:
		return err
	case len(dirs) == 0:
		a.Notes = append(a.Notes, "no records are here: name the directory of the workers' directories with --dir")
		return nil
	}
	return e.countRecords(ctx, a, merged{ctx: ctx, dirs: dirs, pending: waiting(ctx, e)}, "records of "+human.Plural(uint64(len(dirs)), "worker"))
}

// auditRows compares the counters with the rows in Postgres.
func (e *sharedEngine) auditRows(ctx context.Context, a *report.Audit) error {
	if e.exact == nil {
		a.Notes = append(a.Notes, "no records are here: name the Postgres that has them with --postgres")
		return nil
	}
	finished, err := rows{ctx: ctx, set: e.exact.Store}.completed(e)
	if err != nil {
		return err
	}
	return e.countRecords(ctx, a, finished, "records in Postgres")
}

func (e *sharedEngine) countRecords(ctx context.Context, a *report.Audit, source RecordSource, from string) error {
	stats, err := e.Counters(ctx)
	if err != nil {
		return err
	}
	records, unread := countRecords(ctx, source.Lines())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	stale := records.settleStale(&stats)
	a.Add("done", stats.Done, records.done.Count+stats.FailedAgain+stale, from, "")
	judgeRecords(a, &stats, &records, unread)
	return nil
}

// settleStale takes the records of stale URLs out of the counts. Such a URL has the record of an earlier visit, of the same round. If the
// worker of that visit died before Redis completed the URL, no counter has the record. settleStale returns how many of the
// stale URLs have a record that is counted.
func (c *recordCounts) settleStale(stats *frontier.Stats) uint64 {
	stale := stats.Outcomes[frontier.Stale]
	left := min(stale, c.all-min(c.all, stats.Records))
	for o, n := range c.outcomes {
		more := min(left, n-min(n, stats.Outcomes[o]))
		c.outcomes[o] -= more
		c.all -= more
		left -= more
		if o.State() == frontier.Done {
			c.done.Count -= more
		}
	}
	c.pages -= min(stale, c.pages-min(c.pages, stats.Pages))
	if stale > 0 {
		c.outcomes[frontier.Stale] = stale // they have no records of their own
	}
	return stale
}

// auditExact compares the number of waiting exact keys in the exact set with their number
// in the queue.
func (e *sharedEngine) auditExact(ctx context.Context, a *report.Audit) error {
	if e.exact == nil {
		if e.exactElsewhere {
			a.Notes = append(a.Notes, "exact keys are not counted: name the Postgres that has them with --postgres")
		}
		return nil
	}
	waits := uint64(0)
	for item, err := range Unfinished(ctx, e) {
		if err != nil {
			return err
		}
		if item.Class == frontier.Bulk {
			continue
		}
		ahead := false // Postgres learns of a round that a retry has begun when the item ends
		if item.Round > 0 {
			key, err := e.exact.Lookup(ctx, item.Fingerprint)
			if err != nil {
				return err
			}
			ahead = (key.State == exact.Done || key.State == exact.Failed) && key.Round < item.Round
		}
		if !ahead {
			waits++
		}
	}
	keys, err := e.exact.Stats(ctx)
	if err != nil {
		return err
	}
	fault := ""
	if keys.Pending+keys.Queued != waits {
		fault = "differ; crawler reconcile queues what Redis has lost"
	}
	a.Add("exact", waits, keys.Pending+keys.Queued, "keys in Postgres that wait", fault)
	return nil
}
