package fetcher

import (
	"context"
	"slices"
	"sync"
)

// gate is a semaphore whose limit can change. Callers enter in the order in which they
// called the method enter. If the limit becomes smaller, the callers inside stay, and no
// other caller enters until enough of them have left.
type gate struct {
	mu      sync.Mutex
	limit   int
	inside  int
	waiting []chan struct{} // one for each waiting caller, closed when the caller has entered
}

func newGate(limit int) *gate { return &gate{limit: limit} }

// enter waits for room. If ctx ends first, enter returns false, and the caller is not
// inside.
func (g *gate) enter(ctx context.Context) bool {
	if g.tryEnter() {
		return true
	}
	in := make(chan struct{})
	g.mu.Lock()
	g.waiting = append(g.waiting, in)
	g.admit() // because another caller may have left meanwhile
	g.mu.Unlock()
	select {
	case <-in:
		return true
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, in); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		return false
	}
	g.inside-- // admit has already let this caller in
	g.admit()
	return false
}

// tryEnter enters if there is room now, and reports whether it did.
func (g *gate) tryEnter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside >= g.limit || len(g.waiting) > 0 {
		return false
	}
	g.inside++
	return true
}

// leave leaves the gate, and lets the next caller in.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.admit()
}

// resize changes the limit.
func (g *gate) resize(limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = limit
	g.admit()
}

// admit lets waiting callers in. Its own caller must hold mu.
func (g *gate) admit() {
	for g.inside < g.limit && len(g.waiting) > 0 {
		close(g.waiting[0])
		g.waiting = slices.Delete(g.waiting, 0, 1)
		g.inside++
	}
}

// counts returns the number of callers inside, the limit, and the number of callers that
// wait.
func (g *gate) counts() (inside, limit, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside, g.limit, len(g.waiting)
}
