package localstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/frontier/policy"
)

// A host that is due while its site has no place for it (see frontier.Store.Lease) joins the queue of the site, and is
// moved in tableDue to the time of its next try, which is the later the more hosts are before it; host.due stays. So a
// place that becomes free is soon taken, and the hosts that wait cost little, however many they are.

// longestTry is the longest time until a host in the queue of a site is tried again.
const longestTry = 5 * time.Minute

// sites has the places and the queues of hosts by site. A restart forgets them.
type sites struct {
	byName  map[string]*site
	sweepAt int
	queued  uint64 // hosts that ever joined a queue
}

// leastSweep is the smallest number of sites at which sites without hosts are removed.
const leastSweep = 1024

// site is the state of one site.
type site struct {
	held    int       // leased hosts that have a place
	load    float64   // requests per second that these hosts, and those in leaving, may make
	leaving []leaving // hosts whose last request was shortly before the end of their leases
	queue   []waiter  // the host that has waited longest comes first
	numbers map[string]uint64
}

// waiter is a host in the queue of a site.
type waiter struct {
	number uint64
	host   string
}

// leaving is a host that has its place until a time.
type leaving struct {
	share float64
	until int64 // µs
}

// place is the place of a leased host; the zero value is none.
type place struct {
	site  string
	share float64 // requests per second
}

// pass removes the places that have ended.
func (s *site) pass(now int64) {
	kept := s.leaving[:0]
	for _, l := range s.leaving {
		if l.until > now {
			kept = append(kept, l)
		} else {
			s.load -= l.share
		}
	}
	if s.leaving = kept; s.held+len(kept) == 0 {
		s.load = 0 // without rounding errors
	}
}

// before returns how many hosts are before a host in the queue. The host joins the queue if it is not there.
func (s *site) before(host string, next *uint64) int {
	number, waits := s.numbers[host]
	if !waits {
		*next++
		number = *next
		s.numbers[host], s.queue = number, append(s.queue, waiter{number, host})
	}
	return s.index(number)
}

func (s *site) index(number uint64) int {
	at, _ := slices.BinarySearchFunc(s.queue, number, func(w waiter, number uint64) int { return cmp.Compare(w.number, number) })
	return at
}

// unqueue removes a host from the queue of its site.
func (all *sites) unqueue(host string) {
	s := all.byName[policy.Site(host)]
	if s == nil {
		return
	}
	if number, waits := s.numbers[host]; waits {
		at := s.index(number)
		s.queue = slices.Delete(s.queue, at, at+1)
		delete(s.numbers, host)
	}
}

// mostPulled bounds the hosts of a queue that one try removes because they do not wait any more.
const mostPulled = 16

// isFirst reports whether no host of the site waits before h. If one does, isFirst makes it due now.
func (g *group) isFirst(s *site, h *host) (bool, error) {
	for range mostPulled {
		if len(s.queue) == 0 || s.queue[0].host == h.key {
			return true, nil
		}
		first, err := g.hostOf(s.queue[0].host)
		if err != nil {
			return false, err
		}
		if first.indexed > 0 && first.indexed < parked {
			if first.indexed > g.now {
				g.reindex(first, g.now)
			}
			g.later = g.now
			return false, nil
		}
		g.sites.unqueue(first.key)
	}
	return false, nil
}

// enterSite gives a host that is due a place in its site. Otherwise it returns when the host is tried again.
func (g *group) enterSite(h *host) (p place, again int64, err error) {
	name := policy.Site(h.key)
	if name == "" || h.delay == 0 {
		return place{}, 0, nil
	}
	own := g.cfg.Policy().Host(h.key)
	rate := own.DomainRate
	if rate == 0 {
		return place{}, 0, nil
	}
	s, p := g.sites.byName[name], place{name, 1e6 / float64(h.delay)}
	if s == nil {
		s = &site{numbers: make(map[string]uint64)}
		g.sites.sweep(g.now)
		g.sites.byName[name] = s
	}
	s.pass(g.now)
	if s.load == 0 || s.load+p.share <= rate*(1+1e-9) {
		first, err := g.isFirst(s, h)
		if err != nil {
			return place{}, 0, err
		}
		if first {
			s.held++
			s.load += p.share
			return p, 0, nil
		}
	}
	wait := int64(float64(s.before(h.key, &g.sites.queued)+1) * 5e5 / max(rate, p.share))
	if longest := longestTry.Microseconds(); wait > longest {
		wait = longest/2 + wait%(longest/2) // not all at the same time
	}
	return place{}, g.now + max(wait, 1), nil
}

// leaveSite ends the place of a lease when the delay after the last request is over.
func (g *group) leaveSite(l *lease) {
	if l.place.share == 0 {
		return
	}
	s := g.sites.byName[l.place.site]
	s.held--
	s.leaving = append(s.leaving, leaving{l.place.share, min(l.host.due, g.now+int64(1e6/l.place.share))})
}

// sweep removes sites without hosts, now and then.
func (all *sites) sweep(now int64) {
	if len(all.byName) < all.sweepAt {
		return
	}
	maps.DeleteFunc(all.byName, func(_ string, s *site) bool {
		s.pass(now)
		return s.held+len(s.leaving)+len(s.queue) == 0
	})
	all.sweepAt = max(leastSweep, 2*len(all.byName))
}

// crowded reports whether a host that is not leased waits for a place in its site.
func (h *host) crowded(now int64) bool { return h.indexed > max(h.due, now) && h.indexed < parked }

// dueAt returns when a host that is not leased can be leased.
func (h *host) dueAt(now int64) int64 {
	if h.crowded(now) {
		return h.indexed
	}
	return max(h.due, now)
}
