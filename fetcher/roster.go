package fetcher

import (
	"sync"
	"time"
)

// A roster knows when each host may be asked that this worker has to do with,
// so that a redirect of robots.txt to a host of another lease, or of none, is
// as polite as any other request. What other workers do there it cannot know.
//
// Its lock goes before that of a holding.
type roster struct {
	mu   sync.Mutex
	held map[string]*holding
	due  map[string]time.Time // of hosts that are not held, while it lies ahead
	most int                  // length of due at which it is swept
	// resting are hosts that are not held because they failed, until when.
	resting     map[string]time.Time
	mostResting int
}

const rosterSweep = 1024

func newRoster() roster {
	return roster{
		held: make(map[string]*holding), due: make(map[string]time.Time), most: rosterSweep,
		resting: make(map[string]time.Time), mostResting: rosterSweep,
	}
}

// join makes the lease of h speak for its host.
func (r *roster) join(h *holding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[h.lease.Host] = h
	h.notBefore = r.due[h.lease.Host]
	delete(r.due, h.lease.Host)
	delete(r.resting, h.lease.Host)
}

// leave ends that.
func (r *roster) leave(h *holding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[h.lease.Host] != h {
		return
	}
	delete(r.held, h.lease.Host)
	now := time.Now()
	h.mu.Lock()
	due := now.Add(h.dueIn(now))
	rests := time.Duration(0)
	if h.waits || len(h.pending)+len(h.shelved) > 0 {
		rests = max(h.robotsDue(now), h.host.BackoffUntil().Sub(now))
	}
	h.mu.Unlock()
	r.delay(h.lease.Host, now, due)
	if rests > 0 {
		r.resting[h.lease.Host] = now.Add(rests)
		sweep(r.resting, now, &r.mostResting)
	}
}

// backingOff returns how many hosts rest because they failed, and how long the
// first of them still does.
func (r *roster) backingOff(now time.Time) (hosts int, first time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, until := range r.resting {
		if rest := until.Sub(now); rest > 0 {
			if hosts++; hosts == 1 || rest < first {
				first = rest
			}
		}
	}
	return hosts, first
}

// start says how long a start at host must still wait. With take, a start that
// need not wait is noted; the next one then waits for delay.
func (r *roster) start(host string, delay time.Duration, take bool) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if h := r.held[host]; h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		if wait = h.dueIn(now); wait == 0 && take {
			h.host.Start(now)
		}
		return wait
	}
	if wait = max(0, r.due[host].Sub(now)); wait == 0 && take {
		r.delay(host, now, now.Add(delay))
	}
	return wait
}

// delay notes when a host that is not held is due; mu is held.
func (r *roster) delay(host string, now, due time.Time) {
	if !due.After(now) {
		delete(r.due, host)
		return
	}
	r.due[host] = due
	sweep(r.due, now, &r.most)
}

// sweep takes out what lies behind now, when there are most of them.
func sweep(due map[string]time.Time, now time.Time, most *int) {
	if len(due) < *most {
		return
	}
	for host, at := range due {
		if !at.After(now) {
			delete(due, host)
		}
	}
	*most = max(rosterSweep, 2*len(due))
}
