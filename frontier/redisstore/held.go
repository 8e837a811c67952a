package redisstore

import (
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// heldLease is a lease of this process. The server identifies its items by their numbers within
// the lease; callers identify them by fingerprint. A heldLease is safe for concurrent use.
type heldLease struct {
	id   frontier.LeaseID
	part *partition
	host string

	mu sync.Mutex
	leaseState
	blob []byte

	received int64       // number of the last item received
	items    []*heldItem // the items of the lease that callers know, in the order of leasing
	byPrint  map[bloomstore.Fingerprint]*heldItem
}

// leaseState is the state of a lease, as far as this process knows.
type leaseState struct {
	deadline time.Time // not later than the server's deadline, because it is counted from the start of the request
	granted  bool      // if false, the answer to the request was lost
	ended    bool      // a completion has ended it, and the answer arrived
	doubtful bool      // a completion may have taken effect, but its answer was lost
}

// current reports whether the process has the lease.
func (l leaseState) current(now time.Time) bool {
	return l.granted && !l.ended && now.Before(l.deadline)
}

func (h *heldLease) state() leaseState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leaseState
}

func (h *heldLease) current(now time.Time) bool { return h.state().current(now) }

type heldItem struct {
	number int64
	item   frontier.Item

	turn    sync.Mutex // locked by the call that completes the item
	pending *followed  // progress of its completion, nil for none; guarded by turn
	settled bool       // its completion took effect; written only while turn and heldLease.mu are locked
}

func newHeldLease(id frontier.LeaseID, part *partition, host string) *heldLease {
	return &heldLease{id: id, part: part, host: host, byPrint: make(map[bloomstore.Fingerprint]*heldItem)}
}

// doubt stores that the lease may have been granted until deadline.
func (h *heldLease) doubt(deadline time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deadline = deadline
}

// grant stores that the lease is granted until deadline, with its open items and the host's
// blob.
func (h *heldLease) grant(items []*heldItem, blob []byte, deadline time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.granted, h.deadline, h.blob = true, deadline, blob
	h.receive(items)
}

// receive adds the items that are new. It compares numbers, because replies can arrive in
// another order than the server sent them. If two items have the same URL and different rounds,
// receive adds only the first, because callers could not distinguish them. The server queues the
// second item again when the lease ends. The caller must hold mu.
func (h *heldLease) receive(items []*heldItem) {
	for _, it := range items {
		if it.number > h.received {
			h.received = it.number
			if h.byPrint[it.item.Fingerprint] == nil {
				h.items = append(h.items, it)
				h.byPrint[it.item.Fingerprint] = it
			}
		}
	}
}

// open returns how many items are leased and not completed.
func (h *heldLease) open() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, it := range h.items {
		if !it.settled {
			n++
		}
	}
	return n
}

// next returns the number of the first item that was not received.
func (h *heldLease) next() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.received + 1
}

// since returns the items of the lease except the first n, which the caller knows. The caller must
// hold mu.
func (h *heldLease) since(n int) (items []frontier.Item) {
	for _, it := range h.items[min(max(n, 0), len(h.items)):] {
		items = append(items, it.item)
	}
	return items
}

// find returns an item of the lease, or nil.
func (h *heldLease) find(print bloomstore.Fingerprint) *heldItem {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byPrint[print]
}

// noteDoubt stores that the answer to a completion was lost.
func (h *heldLease) noteDoubt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubtful = true
}

// settle stores that completions and the update of the host took effect. The caller must have
// locked the mutex turn of each item.
func (h *heldLease) settle(done []todo, update frontier.HostUpdate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range done {
		t.item.settled, t.item.pending = true, nil
	}
	if update.Blob != nil {
		h.blob = slices.Clone(update.Blob)
	}
	h.ended = h.ended || update.End
}

// lease returns the lease with its open items.
func (h *heldLease) lease(now time.Time) frontier.Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := frontier.Lease{ID: h.id, Host: h.host, TTL: h.deadline.Sub(now), Blob: h.blob}
	for _, it := range h.items {
		if !it.settled {
			l.Items = append(l.Items, it.item)
		}
	}
	return l
}

// heldLeases is a table of the leases of this process. A lease that has ended is kept until its
// deadline, so that repeated calls can be answered. The table is safe for concurrent use.
type heldLeases struct {
	mu    sync.Mutex
	byID  map[frontier.LeaseID]*heldLease
	swept time.Time
}

func (t *heldLeases) get(id frontier.LeaseID) *heldLease {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

func (t *heldLeases) remove(id frontier.LeaseID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, id)
}

func (t *heldLeases) put(h *heldLease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID = make(map[frontier.LeaseID]*heldLease)
	}
	t.byID[h.id] = h
}

// sweep removes the leases whose deadline has passed, at most once a second.
func (t *heldLeases) sweep(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if since := now.Sub(t.swept); since >= 0 && since < time.Second {
		return
	}
	t.swept = now
	for id, h := range t.byID {
		if !now.Before(h.state().deadline) {
			delete(t.byID, id)
		}
	}
}

// live returns the number of current leases.
func (t *heldLeases) live(now time.Time) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.byID {
		if h.current(now) {
			n++
		}
	}
	return n
}
