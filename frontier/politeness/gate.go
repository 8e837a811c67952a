package politeness

import (
	"maps"
	"sync"
	"time"
)

// A Gate keeps the delays of hosts that several workers of one process request, each for a crawl of its own. A worker
// computes the delay of a host itself, from its own policy and answers (Host). The Gate adds that the request of one
// worker starts no earlier than the longer of both delays after a request of another worker to the same host key.
//
// The Gate does not know the requests before it was made. To be safe, it treats each host as requested at that time.
// It is safe for concurrent use.
type Gate struct {
	begun time.Time

	mu      sync.Mutex
	hosts   map[string]passage
	sweepAt int // the size of hosts at which old passages are removed
}

// Pass is the right of one worker to use a Gate. All methods of a nil Pass return at once that the worker need not wait.
type Pass struct{ gate *Gate }

// passage is the last request to a host.
type passage struct {
	starter *Pass         // worker of the last start; nil before the first one
	started time.Time     // when that was
	writer  *Pass         // worker that wrote the last request; nil before the first one
	written time.Time     // when that was, or will be
	delay   time.Duration // the longest delay of the last start and the last request
	// next is another worker that waits for its turn, which is at the time due. Until hold, it goes first.
	next      *Pass
	due, hold time.Time
}

const (
	// leastHold and mostHold bound how long a worker that waits may be late for its turn.
	leastHold, mostHold = time.Second, 10 * time.Second
	// passageKept is how long a passage is kept after its delay.
	passageKept  = 10 * time.Minute
	passageSweep = 1024
)

// NewGate returns a Gate that is made at the time now.
func NewGate(now time.Time) *Gate {
	return &Gate{begun: now, hosts: make(map[string]passage), sweepAt: passageSweep}
}

// Join returns the Pass of a new worker. The Pass of a nil Gate is nil.
func (g *Gate) Join() *Pass {
	if g == nil {
		return nil
	}
	return &Pass{g}
}

// of returns the last request to a host. The caller must hold mu.
func (g *Gate) of(host string) passage {
	p, found := g.hosts[host]
	if !found {
		p.started, p.written = g.begun, g.begun
	}
	return p
}

// set stores a passage. The caller must hold mu.
func (g *Gate) set(host string, p passage, now time.Time) {
	g.hosts[host] = p
	if len(g.hosts) < g.sweepAt {
		return
	}
	maps.DeleteFunc(g.hosts, func(_ string, p passage) bool {
		return now.Sub(p.started) > p.delay+passageKept && now.Sub(p.written) > p.delay+passageKept && now.After(p.hold)
	})
	g.sweepAt = max(passageSweep, 2*len(g.hosts))
}

// after returns when by may follow a request of last, which was at the time at.
func (p *passage) after(at time.Time, last, by *Pass, delay time.Duration) time.Time {
	if last == by {
		return at // the worker itself keeps its delay
	}
	return at.Add(max(p.delay, delay))
}

// wait returns how long by must wait. It goes after a worker that waits already.
func (p *passage) wait(by *Pass, delay time.Duration, now time.Time) time.Duration {
	wait := max(p.after(p.started, p.starter, by, delay).Sub(now), p.after(p.written, p.writer, by, delay).Sub(now))
	if p.next != nil && p.next != by && now.Before(p.hold) {
		wait = max(wait, p.due.Sub(now), time.Millisecond)
	}
	return max(wait, 0)
}

// longest returns the delay to note after a start or a request of by: the delay of by, and also the noted one if the other
// of the two times is of another worker.
func (p *passage) longest(by *Pass, delay time.Duration) time.Duration {
	if p.starter == by && p.writer == by {
		return delay
	}
	return max(p.delay, delay)
}

// Wait returns how long a request to host must still wait because of the other workers. The argument delay is that of
// the host in the crawl of the caller.
func (w *Pass) Wait(host string, delay time.Duration, now time.Time) time.Duration {
	if w == nil {
		return 0
	}
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	p := w.gate.of(host)
	return p.wait(w, delay, now)
}

// Start returns how long a request to host must still wait because of the other workers. If that is 0 and take is true, it
// notes that a request starts now. If the caller must wait, and no other worker waits already, it is the next one to make
// a request, unless it comes late. The argument own is how long the worker itself wants to wait: if that is longer, it
// lets others go first.
func (w *Pass) Start(host string, delay, own time.Duration, now time.Time, take bool) (wait time.Duration) {
	if w == nil {
		return 0
	}
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	p := w.gate.of(host)
	wait = p.wait(w, delay, now)
	switch mayClaim := p.next == nil || !now.Before(p.hold); {
	case wait == 0 && take:
		if p.next == w {
			p.next = nil
		}
		p.starter, p.started = w, now
		p.delay = p.longest(w, delay)
	case wait > 0 && p.starter != w && own <= wait && mayClaim:
		p.next, p.due = w, now.Add(wait)
		p.hold = p.due.Add(min(max(wait/2, leastHold), mostHold))
	default:
		return wait
	}
	w.gate.set(host, p, now)
	return wait
}

// Reserve returns when a request to host may be written: not before at, and not before the longer of both delays has
// passed since another worker wrote its request. The request counts as written at the returned time.
func (w *Pass) Reserve(host string, delay time.Duration, at time.Time) time.Time {
	if w == nil {
		return at
	}
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	p := w.gate.of(host)
	if next := p.after(p.written, p.writer, w, delay); next.After(at) {
		at = next
	}
	p.writer, p.written = w, at
	p.delay = p.longest(w, delay)
	w.gate.set(host, p, at)
	return at
}
