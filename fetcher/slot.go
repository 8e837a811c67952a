package fetcher

import (
	"context"
	"time"

	"github.com/bloomfrontier/crawler/internal/recent"
)

// A worker asks up to Config.Concurrency hosts at once. Each of them holds a slot. A
// host that does not answer must not keep its slot from others, and a request that only
// waits costs little. So there are late slots in addition:
//
//   - A host whose request takes longer than lateAfter moves from its slot to a
//     late slot, as soon as one is free.
//   - A host whose last request took longer than lateAfter takes a late slot from the
//     start. If none is free, its lease is given back, and the host is due again after
//     lateRetry to 2*lateRetry.
//
// Thus a host that is slow, sends without end or never answers holds a slot only once,
// for lateAfter. From then on it waits for late slots, together with other such hosts.
const (
	lateAfter = 2 * time.Second
	lateRetry = 10 * time.Second
	// yieldRetry is the time after which a host that found no free late slot tries again.
	yieldRetry = time.Second
	// lateSlots is how many late slots there are for each slot.
	lateSlots = 4
	// lateHosts is how many late hosts a worker remembers at least.
	lateHosts = 1 << 16
)

// slots limit how many hosts a worker asks at once.
type slots struct {
	prompt *gate
	late   *gate
	hosts  *recent.Keys // hosts whose last request took longer than lateAfter
	most   int          // the largest number of slots and late slots together; 0 means no limit
}

func newSlots(concurrency, most int) slots {
	s := slots{prompt: newGate(0), late: newGate(0), hosts: recent.New(lateHosts), most: most}
	s.resize(concurrency)
	return s
}

// resize changes how many hosts are asked at once.
func (s *slots) resize(concurrency int) {
	late := lateSlots * concurrency
	if s.most > 0 {
		late = max(min(late, s.most-concurrency), 1)
	}
	s.prompt.resize(concurrency)
	s.late.resize(late)
}

// takeSlot waits for a slot of this host, unless the host has one already. While one caller waits,
// other callers wait for its result.
func (h *holding) takeSlot(stop context.Context) error {
	h.takingSlot.Lock()
	defer h.takingSlot.Unlock()
	if stop.Err() != nil {
		return errStop
	}
	h.mu.Lock()
	h.asking++
	first := h.asking == 1
	h.mu.Unlock()
	if !first {
		return nil
	}
	slot, err := h.waitForSlot(stop)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.asking--
		return err
	}
	h.slot = slot
	if h.countReady(); slot == h.slots.late {
		h.Wake()
	}
	return nil
}

// countReady counts the lease in Crawl.ready if it is neither parked nor late, and has no pages that wait
// while the store is unavailable. Otherwise it removes the lease from the count. The caller must hold mu.
func (h *holding) countReady() {
	ready := !h.parked && h.stalled == 0 && h.slot != h.slots.late
	if ready == h.counted {
		return
	}
	h.counted = ready
	if ready {
		h.ready.Add(1)
	} else {
		h.ready.Add(-1)
	}
}

// setParked stores whether the lease waits for its host's delay, or has ended.
func (h *holding) setParked(parked bool) {
	h.mu.Lock()
	h.parked = parked
	h.countReady()
	h.mu.Unlock()
	if parked {
		h.Wake()
	}
}

// stall adds n to the number of completions that wait while the store is unavailable. A part of the store may
// be away that other hosts do not need, so the worker leases other hosts meanwhile.
func (h *holding) stall(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stalled += n
	if h.countReady(); n > 0 {
		h.Wake()
	}
}

// waitForSlot takes a slot and returns its gate. A late host does not wait, because the
// leases of waiting hosts leave less room for hosts that answer.
func (h *holding) waitForSlot(stop context.Context) (*gate, error) {
	if !h.slots.hosts.Has(h.lease.Host) {
		if h.slots.prompt.enter(stop) {
			return h.slots.prompt, nil
		}
		return nil, errStop
	}
	if h.slots.late.tryEnter() {
		return h.slots.late, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	retry := time.Now().Add(time.Duration((1 + random()) * float64(lateRetry)))
	if retry.After(h.notBefore) {
		h.notBefore = retry
	}
	return nil, errStop
}

// dropSlot undoes takeSlot. The slot becomes free when no request of the host needs
// it any more.
func (h *holding) dropSlot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asking--
	if h.asking > 0 {
		return
	}
	h.slot.leave()
	h.slot = nil
	h.countReady()
}

// yieldSlot moves the host to a late slot. It returns false if no late slot is free. The
// caller must hold mu.
func (h *holding) yieldSlot() bool {
	if h.slot != h.slots.prompt {
		return true
	}
	if !h.slots.late.tryEnter() {
		return false
	}
	h.slot.leave()
	h.slot = h.slots.late
	h.countReady()
	h.Wake()
	return true
}

// timeRequest measures a request that starts now, and marks its host as late if the request
// takes lateAfter or longer. The caller must call the returned function at the end of the
// request.
func (h *holding) timeRequest() (stopTiming func()) {
	began, over := time.Now(), false
	var timer *time.Timer
	h.mu.Lock()
	defer h.mu.Unlock()
	timer = time.AfterFunc(lateAfter, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !over && !h.yieldSlot() {
			timer.Reset(yieldRetry)
		}
	})
	return func() {
		h.mu.Lock()
		over = true
		h.mu.Unlock()
		timer.Stop()
		if time.Since(began) >= lateAfter {
			h.slots.hosts.Add(h.lease.Host)
		} else {
			h.slots.hosts.Remove(h.lease.Host)
		}
	}
}
