package visits

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier/revisit"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// LeadTime is how long a process that does not answer keeps others from queueing what is due.
const LeadTime = 5 * time.Second

// server is a database in Postgres, which the workers of a crawl in Redis share.
type server struct {
	ctx    context.Context // bounds all calls
	pg     *pgstore.Store
	worker string // the caller's name; empty if it only reads
}

// Shared returns the rows of a crawl in Postgres. The calls of the result end with ctx. The name worker is one that no other process
// has; without one, the caller only reads. Close closes nothing.
func Shared(ctx context.Context, pg *pgstore.Store, worker string) (*Store, error) {
	return newStore(&server{ctx, pg, worker})
}

func (*server) Close() error      { return nil }
func (*server) diskBytes() uint64 { return 0 }

func (s *server) lead() (bool, error) { return s.pg.LeadVisits(s.ctx, s.worker, LeadTime) }

func (s *server) load() (state, revisit.Census, error) {
	now, err := s.pg.Visits(s.ctx)
	if err != nil {
		return state{}, revisit.Census{}, err
	}
	return decodeState(now)
}

func decodeState(stored pgstore.VisitState) (s state, census revisit.Census, err error) {
	if stored.State == nil {
		return s, census, nil
	}
	if err = json.Unmarshal([]byte(*stored.State), &s); err == nil {
		err = census.UnmarshalBinary(stored.Census)
	}
	if err != nil {
		err = fmt.Errorf("visits: the state in Postgres is damaged: %w", err)
	}
	return s, census, err
}

// decodeRows adds rows of Postgres to those before.
func decodeRows(before []stored, rows []pgstore.VisitRow) ([]stored, error) {
	for i := range rows {
		one := stored{item: rows[i].Item, reached: rows[i].Reached}
		if rows[i].Row != nil {
			if err := one.parse(rows[i].Row); err != nil {
				return nil, err
			}
			one.reached = rows[i].Reached
			one.row.Reached = rows[i].Reached
		}
		before = append(before, one)
	}
	return before, nil
}

func byItem(rows []pgstore.VisitRow) (map[bloomstore.Fingerprint]stored, error) {
	all, err := decodeRows(nil, rows)
	found := make(map[bloomstore.Fingerprint]stored, len(all))
	for _, one := range all {
		found[one.item] = one
	}
	return found, err
}

func (s *server) rows(items []bloomstore.Fingerprint) (map[bloomstore.Fingerprint]stored, error) {
	rows, err := s.pg.VisitRows(s.ctx, items)
	if err != nil {
		return nil, err
	}
	return byItem(rows)
}

func (s *server) after(item []byte, n int) ([]stored, error) {
	rows, err := s.pg.VisitsAfter(s.ctx, some(item), n)
	if err != nil {
		return nil, err
	}
	return decodeRows(nil, rows)
}

// some returns nil for an empty item.
func some(item []byte) []byte {
	if len(item) == 0 {
		return nil
	}
	return item
}

func (s *server) due(by time.Time, n int) (rows []stored, next time.Time, err error) {
	first, err := s.pg.VisitsDue(s.ctx, n+1)
	if err != nil {
		return nil, next, err
	}
	for i := range first {
		if first[i].Due > by.Unix() || i == n {
			if i < n {
				next = time.Unix(first[i].Due, 0).UTC()
			}
			first = first[:i]
			break
		}
	}
	rows, err = decodeRows(nil, first)
	return rows, next, err
}

func (s *server) countDue(by time.Time, most int64) (n int64, first time.Time, err error) {
	n, at, err := s.pg.CountVisitsDue(s.ctx, by.Unix(), most)
	return n, time.Unix(at, 0).UTC(), err
}

func (s *server) host(host string) (HostSum, error) {
	sum, err := s.pg.VisitsOfHost(s.ctx, host)
	return HostSum(sum), err
}

func (s *server) busiest(n int) (hosts []HostSum, err error) {
	all, err := s.pg.BusiestVisits(s.ctx, n)
	for _, sum := range all {
		hosts = append(hosts, HostSum(sum))
	}
	return hosts, err
}

// shared is a transaction of a server.
type shared struct {
	tx   *pgstore.VisitTx
	now  pgstore.VisitState
	next *pgstore.VisitChange // what write was called with
}

func (s *server) change(f func(transaction) error) error {
	return s.pg.ChangeVisits(s.ctx, func(tx *pgstore.VisitTx, now pgstore.VisitState) (*pgstore.VisitChange, error) {
		t := &shared{tx: tx, now: now}
		err := f(t)
		return t.next, err
	})
}

func (t *shared) load() (state, revisit.Census, error) { return decodeState(t.now) }

func (t *shared) rows(items []bloomstore.Fingerprint) (map[bloomstore.Fingerprint]stored, error) {
	if len(items) == 0 {
		return nil, nil
	}
	rows, err := t.tx.Rows(items)
	if err != nil {
		return nil, err
	}
	return byItem(rows)
}

func (t *shared) after(item []byte, n int) ([]stored, error) {
	rows, err := t.tx.After(some(item), n)
	if err != nil {
		return nil, err
	}
	return decodeRows(nil, rows)
}

func (t *shared) write(c *change) error {
	text, err := json.Marshal(&c.state)
	if err != nil {
		return err
	}
	state := string(text)
	next := &pgstore.VisitChange{VisitState: pgstore.VisitState{State: &state}, Source: c.cursor.Source, Cursor: c.cursor.At}
	next.Census, _ = c.census.AppendBinary(nil)
	order := slices.SortedFunc(maps.Keys(c.wrote), func(a, b bloomstore.Fingerprint) int { return bytes.Compare(a[:], b[:]) })
	for _, item := range order {
		after := c.rows[item]
		if after == nil { // the round stays, so that an item of it that is still queued is stale
			next.Rows = append(next.Rows, pgstore.VisitRow{Item: item, Due: time.Now().Unix()})
			continue
		}
		value, err := after.encode()
		if err != nil {
			return err
		}
		next.Rows = append(next.Rows, pgstore.VisitRow{Item: item, Reached: max(after.Reached, after.Item.Round), Due: max(after.Next.Unix(), 0), Row: value})
	}
	for _, host := range slices.Sorted(maps.Keys(c.hosts)) {
		next.Hosts = append(next.Hosts, pgstore.VisitHost(*c.hosts[host]))
	}
	t.next = next
	return nil
}
