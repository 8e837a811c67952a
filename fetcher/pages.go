package fetcher

import (
	"context"
	"sync"

	"github.com/bloomfrontier/crawler/frontier"
)

// pages counts the visits of this worker that are under way, so that all of them can become pages
// without exceeding Policy.MaxPages:
//
//	startVisit ─ takePage ─ pages of the crawl + other visits + 1 ≤ MaxPages ─► the visit begins
//	takePage   ─ otherwise ─► awaitRoom: one visit after the other waits until another is completed
//	awaitRoom  ─ that was no page, such as one to be tried again ─► the visit begins
//	awaitRoom  ─ the pages of the crawl alone reach MaxPages ─► errStop
//
// So a worker that has the crawl for itself ends it with exactly MaxPages pages. Visits of other workers
// are not counted.
type pages struct {
	turn chan struct{} // has an entry while a visit waits in awaitRoom

	mu    sync.Mutex
	held  uint64        // visits from takePage until they are completed in the store
	freed chan struct{} // closed by the next call of free; nil if no visit waits for it
}

func newPages() pages { return pages{turn: make(chan struct{}, 1)} }

// take counts a visit, and returns how many others are under way.
func (p *pages) take() (others uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held++
	return p.held - 1
}

// free undoes take, when the visit was completed or does not begin.
func (p *pages) free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held--
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
}

// now returns how many visits are under way besides that of the caller, who has called take, and a
// channel that is closed when one of them ends.
func (p *pages) now() (others uint64, freed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.freed == nil {
		p.freed = make(chan struct{})
	}
	return p.held - 1, p.freed
}

// takePage counts a visit that is about to begin, and waits until it may become a page. On success, the
// caller must call free when the visit was completed, or does not begin. takePage returns errStop
// if Policy.MaxPages is reached. With Policy.Recrawl, visits after the first one of a page do not count.
func (h *holding) takePage(stop context.Context, item *frontier.Item) (free func(), err error) {
	if item.Round > 0 && h.cfg.Policy().Recrawl.On() {
		return func() {}, nil
	}
	reached, err := h.limitReached(stop, h.pages.take())
	if err == nil && !reached {
		return h.pages.free, nil
	}
	h.pages.free()
	if err == nil {
		err = h.awaitRoom(stop)
	}
	return h.pages.free, err
}

// awaitRoom is takePage for a visit that there was no room for. The visits that wait take turns, so that
// only one of them asks the store when a visit ends.
func (h *holding) awaitRoom(stop context.Context) (err error) {
	select {
	case h.pages.turn <- struct{}{}:
		defer func() { <-h.pages.turn }()
	case <-stop.Done():
		return errStop
	}
	h.pages.take()
	defer func() {
		if err != nil {
			h.pages.free()
		}
	}()
	for {
		others, freed := h.pages.now()
		if reached, err := h.limitReached(stop, others); err != nil || !reached {
			return err
		}
		if reached, err := h.limitReached(stop, 0); err != nil {
			return err
		} else if reached {
			return errStop
		}
		sleep(stop, freed, pollMax) // not longer, because a new policy may have more room
		if stop.Err() != nil {
			return errStop
		}
	}
}

// limitReached reports whether the pages of the crawl and a number of visits reach Policy.MaxPages. After
// an error it returns errStop. It waits while the store is unavailable.
func (h *holding) limitReached(stop context.Context, visits uint64) (reached bool, err error) {
	most := h.cfg.Policy().MaxPages
	switch {
	case most == 0:
		return false, nil
	case visits >= most:
		return true, nil
	}
	err = h.whileUnavailable(stop, func() (err error) {
		reached, err = h.cfg.Store.LimitReached(stop, most-visits)
		return err
	})
	switch {
	case err == nil:
		return reached, nil
	case stop.Err() != nil:
		return false, errStop
	}
	return false, h.storeFailed(err)
}
