package fetcher

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/stage"
)

// keepLease extends the lease for the first time when delay has passed, and then repeatedly until
// the lease is released. Thus the lease does not run out during a slow page, a slow OnPage
// or a long wait.
func (h *holding) keepLease(delay time.Duration, outage backoff) {
	h.keeping.Add(1)
	callAfter(h.kept, delay, func() {
		defer h.keeping.Done()
		if h.kept.Err() != nil {
			return
		}
		// With these arguments the store only extends the lease, and adds and returns no
		// items. The method run requests items itself.
		_, err := h.extend(h.kept, frontier.TopUp{Known: math.MaxInt})
		switch {
		case err == nil:
			h.keepLease(h.lease.TTL/2, backoff{})
		case h.kept.Err() != nil:
		case errors.Is(err, frontier.ErrUnavailable):
			h.keepLease(outage.next(), outage)
		default:
			h.noteFailure(err)
		}
	})
}

// callAfter calls f once, in a new goroutine, when the time d has passed or parent ends.
func callAfter(parent context.Context, d time.Duration, f func()) {
	ctx, cancel := context.WithTimeout(parent, d)
	context.AfterFunc(ctx, func() {
		cancel()
		f()
	})
}

// extend prolongs the lease.
func (h *holding) extend(ctx context.Context, topUp frontier.TopUp) ([]frontier.Item, error) {
	asked := time.Now()
	extension, err := h.cfg.Store.Extend(ctx, h.lease.ID, topUp)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if deadline := asked.Add(extension.TTL); deadline.After(h.deadline) {
		h.deadline = deadline
	}
	return extension.Items, nil
}

// extendSoon prolongs the lease if half of its time is over.
func (h *holding) extendSoon() error {
	h.mu.Lock()
	left := time.Until(h.deadline)
	h.mu.Unlock()
	if left > h.lease.TTL/2 {
		return nil
	}
	_, err := h.extend(h.last, frontier.TopUp{Known: math.MaxInt})
	return err
}

// topUp is the result of a prefetch.
type topUp struct {
	items []frontier.Item
	full  bool // there were as many items as requested
	err   error
}

// prefetch requests more items for the lease while the worker works on the present items.
func (h *holding) prefetch(stop context.Context) {
	if h.coming != nil {
		return
	}
	h.mu.Lock()
	more := h.batch()
	items := h.outstanding + len(h.pending) + len(h.deferred) + more
	h.mu.Unlock()
	ask := frontier.TopUp{Items: items, Known: h.received, MaxPages: h.cfg.Policy().MaxPages}
	coming := make(chan topUp, 1)
	h.coming = coming
	h.visits.Go(func() {
		got, err := h.extend(stop, ask)
		coming <- topUp{got, len(got) >= more, err}
	})
}

// takePrefetched adds the items of a prefetch to pending. If block is true, it waits for a
// prefetch that is still under way.
func (h *holding) takePrefetched(block bool) {
	if h.coming == nil || !block && len(h.coming) == 0 {
		return
	}
	got := <-h.coming
	h.coming = nil
	switch {
	case got.err == nil:
		h.received += len(got.items)
		h.pending, h.unread = append(h.pending, got.items...), append(h.unread[:len(h.unread):len(h.unread)], got.items...)
		h.full = got.full
	case errors.Is(got.err, frontier.ErrUnavailable), errors.Is(got.err, context.Canceled), errors.Is(got.err, context.DeadlineExceeded):
		// The worker continues with the pending items, and keepLease extends the lease.
	default:
		h.noteFailure(got.err)
	}
}

// batch returns how many more items fit into the time of a lease. The caller must hold mu.
func (h *holding) batch() int {
	if h.host.Dead() {
		return 8 * fullBatch
	}
	if delay := h.host.Delay(); delay > 0 {
		return int(min(max(h.lease.TTL/delay, 1), 2*fullBatch))
	}
	return max(2*fullBatch, 16*h.rules.host.Concurrency)
}

// noteFailure records an error of the store or the archive, after which the lease is over.
func (h *holding) noteFailure(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case errors.Is(err, frontier.ErrLeaseLost), errors.Is(err, frontier.ErrUnavailable):
		if !h.lost && !h.ended {
			h.lost = true
			h.tally.leasesLost.Add(1)
		}
	case h.failure == nil:
		h.failure = err
	}
}

// complete completes items in the store. It waits while the store is unavailable, unless
// the lease was lost meanwhile. When the requests under way are stopped (see Crawl.hard), the
// store has completeTime left to answer, which is 2 s.
func (h *holding) complete(done []frontier.Completion, end bool) {
	if end {
		h.release()
		h.roster.leave(h) // so that no request starts after the host's due time was computed
	}
	h.noteKnown(done)
	stage.Store.Begin()
	defer stage.None.Begin()
	h.tally.storing.Add(1)
	defer h.tally.storing.Add(-1)
	taken, stalled := false, false
	err := h.whileUnavailable(h.hard, func() error {
		update, lost := h.update(end)
		if lost {
			return nil
		}
		if end && stalled { // keepLease has ended
			if err := h.extendSoon(); err != nil {
				return err
			}
		}
		// During Run the lease bounds these calls, because the store reports a lost
		// lease. After Run was stopped, the context h.last bounds them.
		err := h.cfg.Store.Complete(h.last, h.lease.ID, done, update)
		if err != nil && update.Blob != nil {
			h.mu.Lock()
			h.changed = true // the store may not have received the blob
			h.mu.Unlock()
		}
		taken = err == nil
		if !stalled && errors.Is(err, frontier.ErrUnavailable) {
			stalled = true
			h.stall(1)
		}
		return err
	})
	if stalled {
		h.stall(-1)
	}
	if sink, ok := h.cfg.Sink.(record.Settler); ok {
		for i := range done {
			sink.Settle(done[i].Item, h.lease.ID, taken)
		}
	}
	if err != nil {
		if errors.Is(err, context.Canceled) && h.last.Err() != nil { // the lease expires by itself
			err = frontier.ErrLeaseLost
		}
		h.noteFailure(err)
		return
	}
	if taken {
		h.tally.finish(done)
	}
	if end {
		h.mu.Lock()
		h.ended = true
		h.mu.Unlock()
	}
}

// update returns the state of the host for the store.
func (h *holding) update(end bool) (update frontier.HostUpdate, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	update = frontier.HostUpdate{Due: max(h.dueIn(now), h.robotsDue(now)), Delay: h.host.Delay(), End: end}
	if h.changed || end {
		update.Blob = h.appendBlob(nil)
		h.changed = false
	}
	return update, h.lost
}

// endLease gives the lease back, unless the last visit has given it back.
func (h *holding) endLease() {
	if !h.ended && !h.isOver() {
		h.complete(nil, true)
	}
}
