package fetcher

import (
	"maps"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// sites bounds how many hosts of a site (canon.Site) this worker holds at once: together they may get at most
// policy.Host.DomainRate requests per second, or one of them what it may get alone. Other hosts of the site are
// given back. Each is due again at a time of its own, so that a place that becomes free is soon taken, and the
// hosts that wait cost no more than the rate, however many they are.
type sites struct {
	mu      sync.Mutex
	byName  map[string]*site
	sweepAt int
}

// site is the state of one site.
type site struct {
	held    int       // hosts
	load    float64   // requests per second that these hosts, and those in leaving, may get
	leaving []leaving // hosts whose last request was shortly before they were given back
	next    time.Time // when the host that was given back last is due
}

// leaving is a host that uses its share until a time.
type leaving struct {
	share float64
	until time.Time
}

// pass removes the hosts that have left.
func (s *site) pass(now time.Time) {
	kept := s.leaving[:0]
	for _, l := range s.leaving {
		if l.until.After(now) {
			kept = append(kept, l)
		} else {
			s.load -= l.share
		}
	}
	if s.leaving = kept; s.held+len(kept) == 0 {
		s.load = 0 // without rounding errors
	}
}

// enter adds a host that may get share requests per second, and returns 0. If there is no place for it, enter returns
// the time until it should try again.
func (all *sites) enter(name string, share, rate float64, now time.Time) (wait time.Duration) {
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.byName[name]
	if s == nil {
		s = new(site)
		all.byName[name] = s
		all.sweep(now)
	}
	s.pass(now)
	if s.load == 0 || s.load+share <= rate*(1+1e-9) {
		s.held++
		s.load += share
		return 0
	}
	s.next = later(s.next, now).Add(time.Duration(float64(time.Second) / max(rate, share)))
	return s.next.Sub(now)
}

// leave removes a host, which uses its share until a time.
func (all *sites) leave(name string, share float64, until time.Time) {
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.byName[name]
	s.held--
	s.leaving = append(s.leaving, leaving{share, until})
}

// sweep removes sites without hosts, now and then.
func (all *sites) sweep(now time.Time) {
	if len(all.byName) < all.sweepAt {
		return
	}
	maps.DeleteFunc(all.byName, func(_ string, s *site) bool {
		s.pass(now)
		return s.held+len(s.leaving) == 0 && !s.next.After(now)
	})
	all.sweepAt = max(rosterSweep, 2*len(all.byName))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// enterSite takes a place in the site of the host, if its hosts have a rate together. If there is none, it sets
// h.crowded.
func (h *holding) enterSite(now time.Time) {
	delay, rate := h.host.Delay(), h.rules.host.DomainRate
	if h.siteName = canon.Site(h.lease.Host); h.siteName == "" || delay == 0 || rate == 0 || frontier.IsCheck(h.lease.Host) {
		return
	}
	share := 1 / delay.Seconds()
	if h.crowded = h.sites.enter(h.siteName, share, rate, now); h.crowded == 0 {
		h.share = share
	}
}

// leaveSite gives the place back when the delay after the last request is over.
func (h *holding) leaveSite() {
	if h.share == 0 {
		return
	}
	h.mu.Lock()
	now := time.Now()
	until := now.Add(min(h.dueIn(now), h.host.Delay()))
	h.mu.Unlock()
	h.sites.leave(h.siteName, h.share, until)
}
