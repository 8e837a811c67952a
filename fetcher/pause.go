package fetcher

import (
	"context"
	"sync"
)

// barrier holds up the starts of requests while it is shut. Its zero value is open.
type barrier struct {
	mu   sync.Mutex
	open chan struct{} // closed by the opening; nil: it is open
}

// Pause keeps every request from starting, or lets them start again; what is
// under way ends as usual. Leases are kept meanwhile, and no host is asked
// sooner than it would be for the pause. It is about this worker only: that the
// store hands out no more is frontier.Control's part.
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

// opening returns what is closed when the barrier opens, nil while it is open.
func (b *barrier) opening() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// opening returns what is closed when requests may start, nil if they may now.
func (c *Crawl) opening() <-chan struct{} {
	if opening := c.barrier.opening(); opening != nil {
		return opening
	}
	return c.backlog.opening()
}

// await waits until requests may start, and reports whether it had to. The
// host's slot, which the caller has a share of, is free meanwhile.
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
	return waited, nil
}
