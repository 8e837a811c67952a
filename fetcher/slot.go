package fetcher

import (
	"context"
	"time"

	"github.com/bloomfrontier/crawler/internal/recent"
)

// A worker asks up to Config.Concurrency hosts at once: each of them holds a slot.
// A host that does not answer must not keep its slot from others, and a request
// that only waits costs little. So there are late slots beside the others:
//
//   - A host whose request takes longer than lateAfter moves from its slot to a
//     late slot, as soon as one is free.
//   - A host whose last request took longer than lateAfter needs a late slot to
//     begin with. If none is free, its lease goes back, and the host is due again
//     after lateRetry.
//
// Hosts that are slow, send without end or never answer thus hold a slot for
// lateAfter, once, and wait for each other from then on.
const (
	lateAfter = 2 * time.Second
	lateRetry = 10 * time.Second
	// yieldRetry is how soon a host that found no free late slot looks again.
	yieldRetry = time.Second
	// lateSlots is how many late slots there are for each slot.
	lateSlots = 4
	// lateHosts is how many late hosts a worker remembers at least.
	lateHosts = 1 << 16
)

// slots are what a worker has for the hosts that it asks.
type slots struct {
	prompt *gate
	late   *gate
	hosts  *recent.Keys // whose last request took longer than lateAfter
	most   int          // of both together; 0 means no limit
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

// takeSlot makes this host one of those being asked. Only run calls it.
func (h *holding) takeSlot(stop context.Context) error {
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
	return nil
}

// waitForSlot returns the slot that the host has taken. A late host does not wait:
// it would keep its lease from hosts that answer.
func (h *holding) waitForSlot(stop context.Context) (*gate, error) {
	if !h.slots.hosts.Has(h.lease.Host) {
		if h.slots.prompt.enter(stop) {
			return h.slots.prompt, nil
		}
		return nil, errStop
	}
	if h.slots.late.tryEnter() {
		h.ready.Add(-1)
		h.Wake()
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

// dropSlot ends what takeSlot began.
func (h *holding) dropSlot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asking--
	if h.asking > 0 {
		return
	}
	h.slot.leave()
	if h.slot == h.slots.late {
		h.ready.Add(1)
	}
	h.slot = nil
}

// yieldSlot moves the host to a late slot and reports whether it has one now; mu is
// held.
func (h *holding) yieldSlot() bool {
	if h.slot != h.slots.prompt {
		return true
	}
	if !h.slots.late.tryEnter() {
		return false
	}
	h.slot.leave()
	h.slot = h.slots.late
	h.ready.Add(-1)
	h.Wake()
	return true
}

// timeRequest measures a request that starts now, and makes its host a late one
// when it takes too long. The caller calls asked at the request's end.
func (h *holding) timeRequest() (asked func()) {
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
