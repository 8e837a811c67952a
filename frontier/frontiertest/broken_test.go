package frontiertest

import (
	"context"
	"slices"

	"github.com/bloomfrontier/crawler/frontier"
)

// broken is a Memory with some of its methods replaced.
type broken struct {
	*Memory
	add      func(context.Context, []frontier.Offer) ([]frontier.Verdict, error)
	lease    func(context.Context, frontier.LeaseRequest) (frontier.Grant, error)
	extend   func(context.Context, frontier.LeaseID, frontier.TopUp) (frontier.Extension, error)
	complete func(context.Context, frontier.LeaseID, []frontier.Completion, frontier.HostUpdate) error
	stats    func(context.Context) (frontier.Stats, error)
	audit    func(context.Context) (frontier.Audit, error)
	list     func(context.Context, frontier.State, string, func(frontier.Item) bool) error
	reserve  func(context.Context, []frontier.QuotaKey, uint64) ([]bool, error)
	pause    func(context.Context, bool) error
	limit    func(context.Context, uint64) (bool, error)
	retry    func(context.Context, frontier.Failures) (int, error)
	reopen   func() (Crawl, error)
}

func newBroken(opt Options) *broken {
	m := openMemory(opt)
	return &broken{
		Memory: m, add: m.Add, lease: m.Lease, extend: m.Extend, complete: m.Complete,
		stats: m.Stats, audit: m.Audit, list: m.List, reserve: m.Reserve, pause: m.Pause, retry: m.Retry, limit: m.LimitReached,
	}
}

func (b *broken) Add(ctx context.Context, offers []frontier.Offer) ([]frontier.Verdict, error) {
	return b.add(ctx, offers)
}

func (b *broken) Lease(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
	return b.lease(ctx, request)
}

func (b *broken) Extend(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
	return b.extend(ctx, id, topUp)
}

func (b *broken) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	return b.complete(ctx, id, done, update)
}

func (b *broken) Stats(ctx context.Context) (frontier.Stats, error) { return b.stats(ctx) }

func (b *broken) Audit(ctx context.Context) (frontier.Audit, error) { return b.audit(ctx) }

func (b *broken) List(ctx context.Context, state frontier.State, host string, visit func(frontier.Item) bool) error {
	return b.list(ctx, state, host, visit)
}

func (b *broken) Reserve(ctx context.Context, keys []frontier.QuotaKey, maxKeys uint64) ([]bool, error) {
	return b.reserve(ctx, keys, maxKeys)
}

func (b *broken) Pause(ctx context.Context, paused bool) error { return b.pause(ctx, paused) }

func (b *broken) LimitReached(ctx context.Context, maxPages uint64) (bool, error) {
	return b.limit(ctx, maxPages)
}

func (b *broken) Retry(ctx context.Context, of frontier.Failures) (int, error) {
	return b.retry(ctx, of)
}

// Reopen implements Reopener. All leases stay valid.
func (b *broken) Reopen() (Crawl, error) {
	if b.reopen != nil {
		return b.reopen()
	}
	return b, nil
}

// Crash implements Reopener. It ends all leases.
func (b *broken) Crash() (Crawl, error) {
	b.locked(func(m *Memory) {
		now := m.cfg.Now()
		for id, l := range m.leases {
			if !l.ended {
				l.host.due = later(l.host.due, now.Add(l.host.delay))
				m.release(l, now)
			}
			delete(m.leases, id)
		}
	})
	return b.Reopen()
}

// locked changes b's Memory directly.
func (b *broken) locked(change func(m *Memory)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b.Memory)
}

// drop removes from the queues the entries for which match returns true. The books
// still count these entries.
func (b *broken) drop(match func(*entry) bool) {
	b.locked(func(m *Memory) {
		for _, h := range m.hosts {
			h.queue = slices.DeleteFunc(h.queue, match)
		}
	})
}

// expiring makes Lease call the function change for each lease whose deadline has passed,
// before the Memory ends the lease.
func (b *broken) expiring(change func(*lease)) {
	b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
		b.locked(func(m *Memory) {
			for _, l := range m.leases {
				if !l.ended && !m.cfg.Now().Before(l.deadline) {
					change(l)
				}
			}
		})
		return b.Memory.Lease(ctx, request)
	}
}

type record func(frontier.LinkCounts) error

// records makes Complete replace the function Record of each completion. The argument by gets
// the original function and returns the new one.
func (b *broken) records(by func(record) record) {
	b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
		done = slices.Clone(done)
		for i := range done {
			if done[i].Record != nil {
				done[i].Record = by(done[i].Record)
			}
		}
		return b.Memory.Complete(ctx, id, done, update)
	}
}
