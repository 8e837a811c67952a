package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// Rows of pages that a crawl visits again. A change of rows is one transaction, and begins with the lock of the crawl's row
// in crawler.visits, so there is one at a time. Only Finish stores rounds in rows meanwhile: see Finish.

// VisitRow is the row of a page. This package does not read Row; nil means that the page is forgotten, apart from the
// round that it has reached.
type VisitRow struct {
	Item    bloomstore.Fingerprint
	Reached uint32
	Row     []byte
	Due     int64 // seconds since 1970; only VisitsDue returns it
}

// VisitHost is what the rows of a host sum up to.
type VisitHost struct {
	Host   string
	Pages  int64
	Queued int64
	PerDay float64
	// What became of changes that sitemaps announce: found, not found, and found without having been announced.
	Right, Wrong, Missed int64
}

// VisitState is what the rows of a crawl sum up to, in forms that this package does not read. nil means that there is none.
type VisitState struct {
	State  *string
	Census []byte
}

// VisitChange is what a transaction writes.
type VisitChange struct {
	VisitState
	Rows           []VisitRow  // distinct and sorted by item; rounds do not become less
	Hosts          []VisitHost // what the stored sums grow by; distinct
	Source, Cursor string      // an empty Source writes no cursor
}

const (
	forgetAfter = 30 * 24 * time.Hour // a worker that was suspended for longer can visit a forgotten page once more in a round that it had
	forgetStep  = 1000
)

// VisitTx reads within ChangeVisits.
type VisitTx struct {
	s   *Store
	ctx context.Context
	tx  pgx.Tx
}

// ChangeVisits calls f with what is stored, and writes what f returns, in one transaction. No other change runs meanwhile, in any
// process. If the transaction fails, or its answer is lost, f can be called again.
func (s *Store) ChangeVisits(ctx context.Context, f func(tx *VisitTx, now VisitState) (*VisitChange, error)) error {
	return s.try(ctx, "store visits", func(ctx context.Context) error {
		return s.inTransaction(ctx, pgx.TxOptions{}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, s.sql("begin_visits"), s.crawl); err != nil {
				return err
			}
			var now VisitState
			if err := tx.QueryRow(ctx, s.sql("lock_visits"), s.crawl).Scan(&now.State, &now.Census); err != nil {
				return err
			}
			c, err := f(&VisitTx{s, ctx, tx}, now)
			if err != nil {
				return err
			}
			return s.writeVisits(ctx, tx, c)
		})
	})
}

func (s *Store) writeVisits(ctx context.Context, tx pgx.Tx, c *VisitChange) error {
	var batch pgx.Batch
	if len(c.Rows) > 0 {
		items, rounds, due, rows := make(uuids, len(c.Rows)), make([]int64, len(c.Rows)), make([]int64, len(c.Rows)), make([][]byte, len(c.Rows))
		forgets := false
		for i, row := range c.Rows {
			items[i], rounds[i], due[i], rows[i] = uuid(row.Item), int64(row.Reached), row.Due, row.Row
			forgets = forgets || row.Row == nil
		}
		batch.Queue(s.sql("save_visit_rows"), s.crawl, items, rounds, due, rows)
		if forgets {
			batch.Queue(s.sql("forget_visits"), s.crawl, time.Now().Add(-forgetAfter).Unix(), forgetStep)
		}
	}
	if len(c.Hosts) > 0 {
		names, perDay := make([]string, len(c.Hosts)), make([]float64, len(c.Hosts))
		var counts [5][]int64
		for i, host := range c.Hosts {
			names[i], perDay[i] = host.Host, host.PerDay
			for k, n := range [...]int64{host.Pages, host.Queued, host.Right, host.Wrong, host.Missed} {
				counts[k] = append(counts[k], n)
			}
		}
		batch.Queue(s.sql("save_visit_hosts"), s.crawl, names, counts[0], counts[1], perDay, counts[2], counts[3], counts[4])
		batch.Queue(s.sql("drop_visit_hosts"), s.crawl, names)
	}
	if c.Source != "" {
		batch.Queue(s.sql("save_visit_cursor"), s.crawl, c.Source, c.Cursor)
	}
	batch.Queue(s.sql("save_visits"), s.crawl, c.State, c.Census)
	return tx.SendBatch(ctx, &batch).Close()
}

// Rows is Store.VisitRows within the transaction.
func (v *VisitTx) Rows(items []bloomstore.Fingerprint) ([]VisitRow, error) {
	return v.read(v.s.sql("visit_rows"), v.s.crawl, uuidsOf(items))
}

// After is Store.VisitsAfter within the transaction.
func (v *VisitTx) After(item []byte, n int) ([]VisitRow, error) {
	return v.read(v.s.sql("visits_after"), v.s.crawl, uuidOrNull(item), n)
}

func (v *VisitTx) read(sql string, args ...any) ([]VisitRow, error) {
	rows, err := v.tx.Query(v.ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanVisit)
}

func scanVisit(row pgx.CollectableRow) (v VisitRow, err error) {
	err = row.Scan((*[16]byte)(&v.Item), &v.Reached, &v.Row)
	return v, err
}

func uuidsOf(items []bloomstore.Fingerprint) uuids {
	all := make(uuids, len(items))
	for i := range items {
		all[i] = uuid(items[i])
	}
	return all
}

// uuidOrNull returns an item, or null for nil.
func uuidOrNull(item []byte) any {
	if item == nil {
		return nil
	}
	return uuid(bloomstore.Fingerprint(item))
}

// Visits returns the state of the crawl's rows.
func (s *Store) Visits(ctx context.Context) (now VisitState, err error) {
	all, err := query(ctx, s, "read the state of visits", s.sql("visits"), func(row pgx.CollectableRow) (v VisitState, err error) {
		err = row.Scan(&v.State, &v.Census)
		return v, err
	}, s.crawl)
	if len(all) > 0 {
		now = all[0]
	}
	return now, err
}

// VisitRows returns the rows of items that there are.
func (s *Store) VisitRows(ctx context.Context, items []bloomstore.Fingerprint) ([]VisitRow, error) {
	return query(ctx, s, "read visits", s.sql("visit_rows"), scanVisit, s.crawl, uuidsOf(items))
}

// VisitsAfter returns the next n rows after an item that are not forgotten, in their order; nil is before the first.
func (s *Store) VisitsAfter(ctx context.Context, item []byte, n int) ([]VisitRow, error) {
	return query(ctx, s, "read visits", s.sql("visits_after"), scanVisit, s.crawl, uuidOrNull(item), n)
}

// VisitsDue returns the n rows that are due first.
func (s *Store) VisitsDue(ctx context.Context, n int) ([]VisitRow, error) {
	return query(ctx, s, "read what is due", s.sql("visits_due"), func(row pgx.CollectableRow) (v VisitRow, err error) {
		err = row.Scan((*[16]byte)(&v.Item), &v.Reached, &v.Row, &v.Due)
		return v, err
	}, s.crawl, n)
}

// CountVisitsDue counts the rows that are due by a time, up to most, and returns when the first one was. Times are seconds since 1970.
func (s *Store) CountVisitsDue(ctx context.Context, by, most int64) (n, first int64, err error) {
	var least *int64
	err = s.queryRow(ctx, "count what is due", s.sql("count_visits_due"), []any{s.crawl, by, most}, &n, &least)
	if least != nil {
		first = *least
	}
	return n, first, err
}

// VisitsOfHost returns what the rows of a host sum up to.
func (s *Store) VisitsOfHost(ctx context.Context, host string) (VisitHost, error) {
	all, err := query(ctx, s, "read the visits of a host", s.sql("visit_host"), pgx.RowToStructByPos[VisitHost], s.crawl, host)
	if len(all) > 0 {
		return all[0], err
	}
	return VisitHost{Host: host}, err
}

// BusiestVisits returns the n hosts whose pages want the most visits.
func (s *Store) BusiestVisits(ctx context.Context, n int) ([]VisitHost, error) {
	return query(ctx, s, "read the visits of hosts", s.sql("busiest_visit_hosts"), pgx.RowToStructByPos[VisitHost], s.crawl, n)
}

// LeadVisits makes a worker the one that queues what is due, for some time by the server's clock, and reports whether it is.
func (s *Store) LeadVisits(ctx context.Context, worker string, during time.Duration) (bool, error) {
	if err := s.exec(ctx, "lead visits", s.sql("begin_visits"), s.crawl); err != nil {
		return false, err
	}
	leads, err := query(ctx, s, "lead visits", s.sql("lead_visits"), pgx.RowTo[bool], s.crawl, worker, during)
	return len(leads) > 0, err
}

// VisitCursor returns how far the rows follow the records of a source; empty means that they do not yet.
func (s *Store) VisitCursor(ctx context.Context, source string) (string, error) {
	all, err := query(ctx, s, "read the cursor of visits", s.sql("visit_cursor"), pgx.RowTo[string], s.crawl, source)
	if len(all) > 0 {
		return all[0], err
	}
	return "", err
}

// reach adds statements to a batch that store the rounds that later visits of pages have reached. So each worker knows
// them before the queue does, also while the worker that made the visit has not read its record yet.
func (s *Store) reach(batch *pgx.Batch, finished []exact.Finished) {
	last := make(map[bloomstore.Fingerprint]uint32)
	for _, f := range finished {
		if f.Round > 0 {
			last[f.Fingerprint] = max(last[f.Fingerprint], f.Round)
		}
	}
	if len(last) == 0 {
		return
	}
	items, rounds := make(uuids, 0, len(last)), make([]int64, 0, len(last))
	for item, round := range last {
		items, rounds = append(items, uuid(item)), append(rounds, int64(round))
	}
	batch.Queue(s.sql("lock_visit_rows"), s.crawl, items)
	batch.Queue(s.sql("reach_visits"), s.crawl, items, rounds)
}
