package exact

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// leases are the leases of this process until their deadlines. They contain the items, and
// the set's decisions about the links of the items.
type leases struct {
	mu    sync.Mutex
	byID  map[frontier.LeaseID]*lease
	swept time.Time
}

// lease is one lease of this process.
type lease struct {
	mu       sync.Mutex
	deadline time.Time // not after the deadline in the queue
	ended    bool      // a completion ended the lease, and its answer arrived
	items    map[bloomstore.Fingerprint]*leasedItem
}

// leasedItem is an item of a lease, in the round in which it was leased. lease.mu guards it.
type leasedItem struct {
	class   frontier.Class
	round   uint32
	links   *decisions // the decisions about its exact links; nil means that the set was not asked yet
	settled bool       // the answer to its completion arrived, so a repeated completion does nothing
}

// put stores the lease h with more items. The argument requested is the time of the request that
// began or extended the lease. The lease lasts for ttl from this time.
func (l *leases) put(id frontier.LeaseID, h *lease, items []frontier.Item, requested time.Time, ttl time.Duration) {
	h.extend(items, requested, ttl)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = make(map[frontier.LeaseID]*lease)
	}
	l.byID[id] = h // if the answer came after the old deadline, another call may have removed h
	l.sweep(requested)
}

// extend adds the items that are new, and moves the deadline.
func (h *lease) extend(items []frontier.Item, requested time.Time, ttl time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deadline = requested.Add(ttl)
	for i := range items {
		it := &items[i]
		// An item of another round is new, although the lease is the same.
		if before := h.items[it.Fingerprint]; before == nil || before.round != it.Round {
			h.items[it.Fingerprint] = &leasedItem{class: it.Class, round: it.Round}
		}
	}
}

// status reports whether the worker has ended the lease, and whether the lease's time is
// over.
func (h *lease) status(now time.Time) (ended, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended, !now.Before(h.deadline)
}

// state returns the class of an item, and whether it was completed under this lease.
func (h *lease) state(print bloomstore.Fingerprint) (class frontier.Class, settled bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	it := h.items[print]
	if it == nil {
		return frontier.Bulk, false
	}
	return it.class, it.settled
}

// settle marks items as completed when the queue's answer has arrived.
func (h *lease) settle(done []frontier.Completion, ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range done {
		it := h.item(done[i].Item)
		*it = leasedItem{round: it.round, settled: true}
	}
	if ended {
		h.ended, h.items = true, map[bloomstore.Fingerprint]*leasedItem{}
	}
}

// item returns the item of a fingerprint, and creates it if necessary. The caller must hold
// mu.
func (h *lease) item(print bloomstore.Fingerprint) *leasedItem {
	it := h.items[print]
	if it == nil {
		it = new(leasedItem)
		h.items[print] = it
	}
	return it
}

// sweep removes the leases that are over, at most once a second. The caller must hold mu.
func (l *leases) sweep(now time.Time) {
	if since := now.Sub(l.swept); since >= 0 && since < time.Second {
		return
	}
	l.swept = now
	for id, h := range l.byID {
		if _, over := h.status(now); over {
			delete(l.byID, id)
		}
	}
}

func (l *leases) get(id frontier.LeaseID) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id]
}

// Lease implements frontier.Store. If the queue is empty but the set has waiting keys or is
// unavailable, the grant is not Empty, because a forwarder might queue some keys.
func (s *Store) Lease(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
	requested := s.cfg.Now()
	grant, err := s.Queue.Lease(ctx, request)
	if err != nil {
		return grant, err
	}
	for _, l := range grant.Leases {
		h := cmp.Or(s.leases.get(l.ID), &lease{items: make(map[bloomstore.Fingerprint]*leasedItem)})
		s.leases.put(l.ID, h, l.Items, requested, l.TTL)
	}
	if !grant.Empty {
		s.idleSince.Store(nil)
		return grant, nil
	}
	waiting, err := s.cfg.Set.Waiting(ctx, bloomstore.Fingerprint{}, 1)
	switch {
	case err != nil && !errors.Is(err, frontier.ErrUnavailable):
		return frontier.Grant{}, err
	case err != nil || len(waiting) > 0:
		s.idleSince.CompareAndSwap(nil, &requested)
		grant.Empty, grant.Wait = false, max(grant.Wait, time.Second)
	}
	return grant, nil
}

// idleLonger reports whether the queue has been idle for longer than d. If so, it restarts
// the measurement.
func (s *Store) idleLonger(d time.Duration, now time.Time) bool {
	since := s.idleSince.Load()
	return since != nil && now.Sub(*since) > d && s.idleSince.CompareAndSwap(since, &now)
}

// Extend implements frontier.Store. It returns ErrLeaseLost if this Store does not have the items
// of the lease any more. Otherwise the ends of these items would not be stored in the set.
func (s *Store) Extend(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
	h := s.leases.get(id)
	if h == nil {
		return frontier.Extension{}, frontier.ErrLeaseLost
	}
	requested := s.cfg.Now()
	extension, err := s.Queue.Extend(ctx, id, topUp)
	if err == nil {
		s.leases.put(id, h, extension.Items, requested, extension.TTL)
	}
	return extension, err
}
