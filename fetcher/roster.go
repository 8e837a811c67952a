package fetcher

import (
	"maps"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// A roster records when the hosts of this worker are due. A robots.txt may redirect to
// another host. The roster makes the redirected request wait for the delay of that host,
// whether this worker has a lease of the host or not. The roster knows nothing about the
// requests of other workers.
//
// The lock of the roster must be taken before the lock of a holding.
type roster struct {
	pass *politeness.Pass // nil means that no other worker of the process shares hosts
	mu   sync.Mutex
	held map[string]*holding
	due  times // when hosts that this worker has not leased become due, if in the future
	// writable is when the next request to such a host may be written. A request first waits
	// for the time in due. When it then has its connection, it waits for the time in writable.
	writable times
	// resting are the hosts that were given back because they failed, and the end of
	// their pause.
	resting times
}

func newRoster(pass *politeness.Pass) roster {
	return roster{pass: pass, held: make(map[string]*holding), due: newTimes(), writable: newTimes(), resting: newTimes()}
}

// times holds one time for each host. Times in the past are removed now and then.
type times struct {
	byHost  map[string]time.Time
	sweepAt int // the length of byHost at which times in the past are removed
}

const rosterSweep = 1024

func newTimes() times { return times{make(map[string]time.Time), rosterSweep} }

// set sets the time of a host. If t.byHost now has t.sweepAt times or more, set removes the
// times in the past. Then it sets t.sweepAt to twice the number of the remaining times, but at
// least to rosterSweep.
func (t *times) set(host string, at, now time.Time) {
	t.byHost[host] = at
	if len(t.byHost) < t.sweepAt {
		return
	}
	maps.DeleteFunc(t.byHost, func(_ string, at time.Time) bool { return !at.After(now) })
	t.sweepAt = max(rosterSweep, 2*len(t.byHost))
}

// join adds the host of h. From then on h decides when the host is due.
func (r *roster) join(h *holding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[h.lease.Host] = h
	h.notBefore = r.due.byHost[h.lease.Host]
	h.written = r.writable.byHost[h.lease.Host].Add(-h.host.Delay())
	delete(r.due.byHost, h.lease.Host)
	delete(r.writable.byHost, h.lease.Host)
	delete(r.resting.byHost, h.lease.Host)
}

// leave removes the host of h and stores when it is due.
func (r *roster) leave(h *holding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[h.lease.Host] != h {
		return
	}
	delete(r.held, h.lease.Host)
	now := time.Now()
	h.mu.Lock()
	due, writable := now.Add(h.dueIn(now)), h.written.Add(h.host.Delay())
	rests := time.Duration(0)
	if h.waits || len(h.pending)+len(h.deferred) > 0 {
		rests = max(h.robotsDue(now), h.host.BackoffUntil().Sub(now))
	}
	h.mu.Unlock()
	r.delay(h.lease.Host, now, due)
	if writable.After(now) {
		r.writable.set(h.lease.Host, writable, now)
	}
	if rests > 0 {
		r.resting.set(h.lease.Host, now.Add(rests), now)
	}
}

// backingOff returns how many hosts rest because they failed, and how long until the first
// is due.
func (r *roster) backingOff(now time.Time) (hosts int, first time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, until := range r.resting.byHost {
		if rest := until.Sub(now); rest > 0 {
			if hosts++; hosts == 1 || rest < first {
				first = rest
			}
		}
	}
	return hosts, first
}

// start returns how long a request to host must still wait. If this time is 0 and take is
// true, start notes that the request starts now. The next request then waits for the host's
// delay. If this worker has no lease of the host, the argument delay is used.
func (r *roster) start(host string, delay time.Duration, take bool) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if h := r.held[host]; h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		own := h.ownDue(now)
		if wait = max(own, r.pass.Start(host, h.host.Delay(), own, now, take && own == 0)); wait == 0 && take {
			h.host.Start(now)
		}
		return wait
	}
	own := max(0, r.due.byHost[host].Sub(now))
	if wait = max(own, r.pass.Start(host, delay, own, now, take && own == 0)); wait == 0 && take {
		r.delay(host, now, now.Add(delay))
	}
	return wait
}

// reserve returns when a request to host may be written, as holding.reserve does. The request
// already has its connection. If this worker has no lease of the host, reserve uses the
// argument delay.
func (r *roster) reserve(host string, delay time.Duration) (at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.held[host]; h != nil {
		return h.reserve(h.delay())
	}
	now := time.Now()
	at = now
	if next := r.writable.byHost[host]; next.After(now) {
		at = next
	}
	at = r.pass.Reserve(host, delay, at)
	next := at.Add(delay)
	r.writable.set(host, next, now)
	if next.After(r.due.byHost[host]) {
		r.delay(host, now, next)
	}
	return at
}

// delay stores when a host that this worker has not leased is due. The caller must hold mu.
func (r *roster) delay(host string, now, due time.Time) {
	if !due.After(now) {
		delete(r.due.byHost, host)
		return
	}
	r.due.set(host, due, now)
}
