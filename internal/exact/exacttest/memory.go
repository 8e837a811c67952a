package exacttest

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// Memory is the reference implementation of exact.Set: a map and one mutex. It is not durable.
// It is so simple that one can see that it is right. It is safe for concurrent use.
type Memory struct {
	opt Options

	mu      sync.Mutex
	rows    map[bloomstore.Fingerprint]*row
	records map[exact.Ref]exact.Row
	floor   uint32 // the round in which unknown keys begin
}

// row is one key.
type row struct {
	exact.Key
	exact.Status           // State, Round, Outcome and HTTP
	since        time.Time // of a pending key: when it was decided to be new, or last returned by Stale
	over         time.Time // of a finished key: when its window ends; zero means never
	finished     *row      // of a pending key that was finished in an earlier round: the earlier row
}

var _ Set = (*Memory)(nil)

// NewMemory returns an empty set. If Options.Now is nil, the set uses time.Now.
func NewMemory(opt Options) *Memory {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Memory{opt: opt, rows: map[bloomstore.Fingerprint]*row{}, records: map[exact.Ref]exact.Row{}}
}

// Decide implements Set.
func (m *Memory) Decide(ctx context.Context, keys []exact.Key) ([]exact.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opt.Now()
	answers := make([]exact.Answer, len(keys))
	for i, key := range keys {
		old := m.rows[key.Fingerprint]
		fresh := &row{Key: key, Status: exact.Status{State: exact.Pending, Class: key.Class, Round: m.floor}, since: now}
		switch {
		case old == nil:
			answers[i] = exact.Answer{New: true, Round: m.floor, First: m.floor == 0}
		case old.expired(now):
			fresh.Round, fresh.finished = old.Round+1, old
			answers[i] = exact.Answer{New: true, Round: fresh.Round}
		case old.State == exact.Pending && key.Line != "" && key.Line == old.Line && !slices.ContainsFunc(keys[:i], func(k exact.Key) bool { return k.Fingerprint == key.Fingerprint }):
			answers[i] = exact.Answer{New: true, Round: old.Round, First: old.Round == 0 && old.finished == nil}
			continue
		default:
			answers[i] = exact.Answer{Round: old.Round}
			continue
		}
		m.rows[key.Fingerprint] = fresh
	}
	return answers, nil
}

func (r *row) isFinished() bool { return r.State == exact.Done || r.State == exact.Failed }

// expired reports whether r is finished and its window is over.
func (r *row) expired(now time.Time) bool {
	return r.isFinished() && !r.over.IsZero() && !now.Before(r.over)
}

// Queued implements Set.
func (m *Memory) Queued(ctx context.Context, keys []exact.Ref) error {
	return m.eachPending(ctx, keys, func(r *row) { r.State, r.finished = exact.Queued, nil })
}

// Withdraw implements Set.
func (m *Memory) Withdraw(ctx context.Context, keys []exact.Ref) error {
	return m.eachPending(ctx, keys, func(r *row) {
		if r.finished != nil {
			m.rows[r.Fingerprint] = r.finished
		} else {
			delete(m.rows, r.Fingerprint)
		}
	})
}

func (m *Memory) eachPending(ctx context.Context, keys []exact.Ref, do func(*row)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if r := m.rows[key.Fingerprint]; r != nil && r.State == exact.Pending && r.Round == key.Round {
			do(r)
		}
	}
	return nil
}

// Finish implements Set.
func (m *Memory) Finish(ctx context.Context, finished []exact.Finished, records []exact.Row) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opt.Now()
	for _, f := range finished {
		r := m.rows[f.Fingerprint]
		if r == nil || f.Round < r.Round || r.isFinished() && f.Round == r.Round {
			continue
		}
		r.Round, r.Outcome, r.HTTP = f.Round, f.Outcome, f.Status
		r.State = exact.State(f.Outcome.State())
		r.over, r.finished = time.Time{}, nil
		if window := m.opt.Windows[f.Class]; window > 0 {
			r.over = now.Add(window)
		}
	}
	for _, record := range records {
		if _, ok := m.records[record.Ref]; !ok {
			record.Record = slices.Clone(record.Record)
			m.records[record.Ref] = record
		}
	}
	return nil
}

// Stale implements Set.
func (m *Memory) Stale(_ context.Context, age time.Duration, n int) ([]exact.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opt.Now()
	stale := m.where(func(r *row) bool { return r.State == exact.Pending && now.Sub(r.since) >= age })
	slices.SortFunc(stale, func(a, b *row) int { return a.since.Compare(b.since) })
	stale = stale[:min(n, len(stale))]
	for _, r := range stale {
		r.since = now
	}
	return entries(stale), nil
}

// Waiting implements Set.
func (m *Memory) Waiting(_ context.Context, after bloomstore.Fingerprint, n int) ([]exact.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	waiting := m.where(func(r *row) bool {
		return !r.isFinished() && bytes.Compare(r.Fingerprint[:], after[:]) > 0
	})
	return entries(waiting[:min(n, len(waiting))]), nil
}

// where returns the rows for which wanted returns true, in the order of their fingerprints. The
// caller must hold mu.
func (m *Memory) where(wanted func(*row) bool) []*row {
	sorted := slices.SortedFunc(maps.Values(m.rows), func(a, b *row) int {
		return bytes.Compare(a.Fingerprint[:], b.Fingerprint[:])
	})
	return slices.DeleteFunc(sorted, func(r *row) bool { return !wanted(r) })
}

func entries(rows []*row) []exact.Entry {
	entries := make([]exact.Entry, len(rows))
	for i, r := range rows {
		entries[i] = exact.Entry{Key: r.Key, Round: r.Round, State: r.State}
	}
	return entries
}

// Sweep implements Set.
func (m *Memory) Sweep(_ context.Context, n int) (swept int, lag time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opt.Now()
	expired := m.where(func(r *row) bool { return r.expired(now) })
	slices.SortStableFunc(expired, func(a, b *row) int { return a.over.Compare(b.over) })
	gone := expired[:min(n, len(expired))]
	for _, r := range gone {
		m.floor = max(m.floor, r.Round+2)
		delete(m.rows, r.Fingerprint)
	}
	return len(gone), lagOf(expired[len(gone):], now), nil
}

// lagOf returns the time since the first window of these rows ended, at least a nanosecond,
// or 0 if there are no rows.
func lagOf(expired []*row, now time.Time) time.Duration {
	if len(expired) == 0 {
		return 0
	}
	first := slices.MinFunc(expired, func(a, b *row) int { return a.over.Compare(b.over) })
	return cmp.Or(now.Sub(first.over), 1)
}

// Lookup implements Set.
func (m *Memory) Lookup(_ context.Context, key bloomstore.Fingerprint) (exact.Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[key]
	if r == nil {
		return exact.Status{}, nil
	}
	status := r.Status
	if r.isFinished() {
		status.Forever = r.over.IsZero()
		if !status.Forever {
			status.SeenFor = max(r.over.Sub(m.opt.Now()), 0)
		}
	}
	return status, nil
}

// Stats implements Set.
func (m *Memory) Stats(context.Context) (exact.Stats, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var s exact.Stats
	for _, r := range m.rows {
		switch r.State {
		case exact.Pending:
			s.Pending++
		case exact.Queued:
			s.Queued++
		case exact.Done:
			s.Done++
		case exact.Failed:
			s.Failed++
		}
	}
	now := m.opt.Now()
	due := m.where(func(r *row) bool { return r.expired(now) })
	s.Due, s.Lag = uint64(len(due)), lagOf(due, now)
	return s, nil
}

// Records implements Set.
func (m *Memory) Records(context.Context) ([]exact.Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.records), compareRows), nil
}

// compareRows orders records by fingerprint and round.
func compareRows(a, b exact.Row) int {
	return cmp.Or(bytes.Compare(a.Fingerprint[:], b.Fingerprint[:]), cmp.Compare(a.Round, b.Round))
}
