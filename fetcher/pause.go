package fetcher

import (
	"context"
	"sync"

	"github.com/bloomfrontier/crawler/frontier"
)

// barrier prevents the start of requests while it is shut. Its zero value is open.
type barrier struct {
	mu   sync.Mutex
	open chan struct{} // closed when the barrier opens; nil while it is open
}

// Pause prevents requests from starting if paused is true, and otherwise lets them start
// again. Requests under way continue. Leases are kept during the pause, and delays are the
// same as without it. Pause affects only this worker. frontier.Control pauses the whole
// crawl.
func (c *Crawl) Pause(paused bool) {
	c.barrier.set(paused)
	c.Wake()
}

func (b *barrier) set(shut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case shut && b.open == nil:
		b.open = make(chan struct{})
	case !shut && b.open != nil:
		close(b.open)
		b.open = nil
	}
}

// opening returns a channel that is closed when the barrier opens, or nil while it is open.
func (b *barrier) opening() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// opening returns a channel that is closed when requests may start, or nil if they may
// start now.
func (c *Crawl) opening() <-chan struct{} {
	if opening := c.barrier.opening(); opening != nil {
		return opening
	}
	if opening := c.unconfirmed(); opening != nil {
		return opening
	}
	return c.backlog.opening()
}

// unconfirmed is Config.Unconfirmed.
func (c *Crawl) unconfirmed() <-chan struct{} {
	if c.cfg.Unconfirmed == nil {
		return nil
	}
	return c.cfg.Unconfirmed()
}

// await waits until requests may start, and reports whether it had to wait. It returns errStop if
// Policy.MaxPages is reached, which does not limit checks, nor later visits with Policy.Recrawl: see takePage. The caller must
// have called takeSlot. Before await waits, it calls dropSlot, so that the slot becomes free
// if no other request of the host needs it. After the wait, it calls takeSlot again.
func (h *holding) await(stop context.Context) (waited bool, err error) {
	for opening := h.opening(); opening != nil; opening = h.opening() {
		h.dropSlot()
		select {
		case <-opening:
		case <-stop.Done():
			return true, errStop
		}
		if err := h.takeSlot(stop); err != nil {
			return true, err
		}
		waited = true
	}
	if frontier.IsCheck(h.lease.Host) || h.cfg.Policy().Recrawl.On() {
		return waited, nil
	}
	reached, err := h.limitReached(stop, 0)
	if err == nil && !reached {
		return waited, nil
	}
	h.dropSlot()
	return waited, errStop
}
