package engine

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
	"github.com/bloomfrontier/crawler/internal/human"
)

// CountBooks implements Look. It compares counters and records of the same moment.
func (l *localEngine) CountBooks(ctx context.Context) (report.Audit, error) {
	books, err := l.Recount(ctx)
	if err != nil {
		return report.Audit{}, err
	}
	source, err := l.recordsAt(ctx, books.Position)
	if err != nil {
		return report.Audit{}, err
	}
	records, err := countRecords(ctx, source.Lines())
	if ctx.Err() != nil {
		return report.Audit{}, ctx.Err()
	}
	records.add(&books.Lost)
	return judge(&books, &records, err), nil
}

// recordsAt returns the records that were committed when the files had the lengths in end.
func (l *localEngine) recordsAt(ctx context.Context, end frontier.Position) (RecordSource, error) {
	if l.rows == nil {
		return record.Reader{Dir: l.dir, Erased: true, End: append(frontier.Position{}, end...)}, nil // a nil End means all records
	}
	all, err := l.rows.records(ctx, l.dir)
	if err != nil {
		return nil, err
	}
	return all.completed(l)
}

// recordCounts are the sums over the records of a crawl.
type recordCounts struct {
	all, pages     uint64
	outcomes       map[frontier.Outcome]uint64
	done, failures localstore.RecordSum
}

// countRecords counts records. With an error it also returns the counts up to the
// faulty line.
func countRecords(ctx context.Context, lines iter.Seq2[[]byte, error]) (recordCounts, error) {
	c := recordCounts{outcomes: make(map[frontier.Outcome]uint64)}
	for line, err := range lines {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return c, err
		}
		var r struct {
			ID      string           `json:"id"`
			Check   string           `json:"check"`
			Outcome frontier.Outcome `json:"outcome"`
			Status  int              `json:"status"`
		}
		var id frontier.Referrer
		if err := json.Unmarshal(line, &r); err != nil {
			return c, fmt.Errorf("record %d: %w", c.all+1, err)
		}
		if n, err := hex.Decode(id[:], []byte(r.ID)); err != nil || n != len(id) {
			return c, fmt.Errorf("record %d: id is %q, want 16 hex digits", c.all+1, r.ID)
		}
		c.all++
		c.outcomes[r.Outcome]++
		if r.Status > 0 && r.Check == "" {
			c.pages++
		}
		switch r.Outcome.State() {
		case frontier.Done:
			c.done.Add(id, 1)
		case frontier.Failed:
			c.failures.Add(id, 1)
		default:
			return c, fmt.Errorf("record %d: %q is no outcome", c.all, r.Outcome)
		}
	}
	return c, nil
}

// add adds the counts of the missing records. These counts were stored when the loss was
// accepted.
func (c *recordCounts) add(lost *localstore.RecordLoss) {
	c.all += lost.Records
	c.pages += lost.Pages
	for outcome, n := range lost.Outcomes {
		c.outcomes[outcome] += n
	}
	c.done = localstore.RecordSum{Count: c.done.Count + lost.Done.Count, Sum: c.done.Sum + lost.Done.Sum}
	c.failures = localstore.RecordSum{Count: c.failures.Count + lost.Failures.Count, Sum: c.failures.Sum + lost.Failures.Sum}
}

// judge compares the counters with the recount. The argument unread is the error that
// ended the reading of the records, or nil.
func judge(books *localstore.Recount, records *recordCounts, unread error) report.Audit {
	var a report.Audit
	c := &books.Counters
	if n := books.Lost.Records; n > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("of the records, %s were missing when 'crawler rebuild --accept-loss' ran: they count as read", human.Commas(n)))
	}
	a.Add("found", c.Found, c.Added+c.Seen+c.RefusedTotal(), "added + seen + refused", "")
	a.Add("added", c.Added, books.Queued+books.Leased+books.Done+books.Failed, "queued + leased + done + failed", "")
	a.AddEstimate(c.Added, books.Added, books.AddedErr)
	a.Add("queued", c.Queued, books.Queued, "rows of queues, delayed items", "")
	a.Add("delayed", c.Delayed, books.Delayed, "rows of delayed items", "")
	a.Add("leased", c.Leased, books.Leased, "rows that leases name", "")
	judgeChecks(&a, c, books.Checks)
	a.Add("hosts", c.Hosts, books.Hosts, "hosts with such rows", "")
	a.Add("failed", c.Failed, books.Failed, "rows of failed items", "")
	a.Add("done", c.Done, books.Done, "rows of outcomes", "")
	a.Add("done", c.Done, records.done.Count, "records", otherURLs(records.done, books.Finished))
	a.Add("failures", books.Failures.Count, records.failures.Count, "records; rounds of all rows", otherURLs(records.failures, books.Failures))
	judgeRecords(&a, c, records, unread)
	a.Add("filter", 0, books.Forgotten, "URLs of rows it does not know", "")
	a.Faults = books.Faults
	a.Balanced = a.Broken() == nil
	return a
}

// judgeChecks compares the counters of checks with a count of those that wait.
func judgeChecks(a *report.Audit, c *frontier.Stats, counted frontier.Checks) {
	if c.Checks.Added == 0 {
		return
	}
	finished := uint64(0)
	for _, o := range frontier.CheckOutcomes() {
		finished += c.Outcomes[o]
	}
	a.Add("checks", c.Checks.Added, counted.Waiting()+finished, "queued + leased counted, outcomes", "")
	a.Add("checks queued", c.Checks.Queued, counted.Queued, "part of queued", "")
	a.Add("checks leased", c.Checks.Leased, counted.Leased, "part of leased", "")
}

// judgeRecords compares the counters of outcomes with the records. The argument unread
// has the same meaning as in judge.
func judgeRecords(a *report.Audit, c *frontier.Stats, records *recordCounts, unread error) {
	for _, o := range slices.Sorted(maps.Keys(union(c.Outcomes, records.outcomes))) {
		a.Add("outcome "+string(o), c.Outcomes[o], records.outcomes[o], "records", "")
	}
	a.Add("pages", c.Pages, records.pages, "records with a status", "")
	fault := ""
	if unread != nil {
		fault = unread.Error()
	}
	a.Add("records", c.Records, records.all, "lines", fault)
}

// otherURLs returns a fault if records and rows are equal in number but have different
// URLs.
func otherURLs(records, rows localstore.RecordSum) string {
	if records.Count == rows.Count && records.Sum != rows.Sum {
		return "records of other URLs"
	}
	return ""
}

func union[K comparable, V any](a, b map[K]V) map[K]V {
	both := make(map[K]V, len(a)+len(b))
	maps.Copy(both, a)
	maps.Copy(both, b)
	return both
}
