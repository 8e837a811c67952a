package cli

import (
	"context"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/human"
)

// audit implements closeView. Redis keeps no row of what is done: only the
// records tell, of the workers whose directories are here, and only while no
// worker writes to them.
func (e *sharedEngine) audit(ctx context.Context) (audit, error) {
	books, err := e.Audit(ctx)
	if err != nil {
		return audit{}, err
	}
	shared, err := e.sharing(ctx)
	if err != nil {
		return audit{}, err
	}
	var a audit
	c := books.Counters
	a.term("found", c.Found, c.Added+c.Seen+c.RefusedTotal(), "added + seen + refused", "")
	a.term("added", c.Added, books.Queued+books.Leased+c.Done+books.Failed, "queued + leased + failed counted, done", "")
	a.Terms = append(a.Terms, judgeFill(c.Added, books.Added, books.AddedErr))
	a.term("queued", c.Queued, books.Queued, "queues, delayed items", "")
	a.term("leased", c.Leased, books.Leased, "what leases hold", "")
	a.term("failed", c.Failed, books.Failed, "lists of failed items", "")
	a.term("acknowledged and lost", 0, shared.Lost, "what workers were told was added", "")
	err = e.auditRecords(ctx, &a, len(shared.Workers) > 0)
	a.Balanced = a.broken() == nil
	return a, err
}

// auditRecords holds the counters against the records, if these are here and
// nobody adds to them.
func (e *sharedEngine) auditRecords(ctx context.Context, a *audit, written bool) error {
	dirs, err := e.journals()
	if err != nil {
		return err
	}
	switch {
	case written:
		a.Notes = append(a.Notes, "records are not counted while workers write them")
		return nil
	case len(dirs) == 0:
		a.Notes = append(a.Notes, "no records are here: name what has the workers' directories with --dir")
		return nil
	}
	stats, err := e.Counters(ctx)
	if err != nil {
		return err
	}
	records, unread := countRecords(ctx, merged{ctx, dirs, waiting(ctx, e)}.Lines())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.term("done", stats.Done, records.done.Count, "records of "+human.Plural(uint64(len(dirs)), "worker"), "")
	a.judgeRecords(&stats, &records, unread)
	return nil
}
