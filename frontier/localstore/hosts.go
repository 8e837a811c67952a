package localstore

import (
	"github.com/bloomfrontier/crawler/frontier"
)

// host is the state of a host key. Its row stays when its queue is empty.
type host struct {
	key     string
	due     int64  // the host is not leased before this time, µs
	indexed int64  // the time in the host's key in tableDue; 0 means that tableDue has no key of the host
	delay   int64  // µs between two starts
	added   uint64 // items ever added
	delayed uint64 // items in tableDelayed
	waiting [frontier.Priorities]uint64
	head    [frontier.Priorities]uint64 // no waiting item has a lower number; scans start here to skip deleted keys

	counts frontier.HostCounts // without Ago and Missing
	last   int64               // when an item was last completed, except by GiveBack, µs; 0 means never

	lease   *lease
	dirty   bool
	counted bool // in Stats.Hosts
	ofSeed  bool // known to be the host of a seed; not stored in the row
}

func (h *host) waits() (n uint64) {
	for _, w := range h.waiting {
		n += w
	}
	return n
}

// busy reports whether the host has items that are queued or leased.
func (h *host) busy() bool {
	return h.waits() > 0 || h.delayed > 0 || h.lease != nil && len(h.lease.held)+len(h.lease.aside) > 0
}

// enqueued updates the host after an item was added to its queue.
func (h *host) enqueued(at queuePos) {
	p := at.priority
	if h.waiting[p] == 0 || at.seq < h.head[p] {
		h.head[p] = at.seq
	}
	h.waiting[p]++
}

// maxHosts bounds the host rows kept in memory.
const maxHosts = 1 << 17

// hostOf returns the host of a key from memory or from its row, or a new host if the
// key has no row.
func (g *group) hostOf(key string) (*host, error) {
	if h := g.hosts[key]; h != nil {
		return h, nil
	}
	h := &host{key: key, delay: g.leastDelay(key)}
	row, err := g.get(hostKey(key))
	if err != nil {
		return nil, err
	}
	if row != nil {
		if err := decodeHost(row, h); err != nil {
			return nil, err
		}
		h.counted = h.busy()
	}
	g.hosts[key] = h
	return h, nil
}

// leastDelay returns the delay of a host key under the present policy, in µs.
func (g *group) leastDelay(key string) int64 {
	host := g.cfg.Policy().Host(key)
	return micros(host.Politeness.Delay)
}

// slowDown makes h obey a policy whose delay is longer than the one with which the due time of h was
// computed. It reports whether h is not due any more.
func (g *group) slowDown(h *host) bool {
	longer := g.leastDelay(h.key) - h.delay
	if longer <= 0 {
		return false
	}
	h.due, h.delay = h.due+longer, h.delay+longer
	g.touch(h)
	if h.due <= g.now {
		return false
	}
	g.scratch = appendDueKey(g.scratch[:0], h.indexed, h.key)
	g.remove(g.scratch)
	h.indexed = 0 // writeHosts writes the new key
	g.sites.unqueue(h.key)
	return true
}

// touch marks h as changed in this group.
func (g *group) touch(h *host) {
	if !h.dirty {
		h.dirty = true
		g.dirty = append(g.dirty, h)
	}
}

// writeHosts writes the rows of the changed hosts and their keys in tableDue.
func (g *group) writeHosts() {
	for _, h := range g.dirty {
		want := int64(0)
		if h.lease == nil && h.waits() > 0 {
			if want = h.indexed; want == 0 {
				want = max(h.due, g.now)
			}
		}
		if want != h.indexed {
			if h.indexed != 0 {
				g.scratch = appendDueKey(g.scratch[:0], h.indexed, h.key)
				g.remove(g.scratch)
			}
			if want != 0 {
				g.scratch = appendDueKey(g.scratch[:0], want, h.key)
				g.set(g.scratch, nil)
			}
			h.indexed = want
		}
		busy := h.busy()
		if busy && !h.counted {
			g.meta.Stats.Hosts++
		} else if !busy && h.counted {
			g.meta.Stats.Hosts--
		}
		h.counted, h.dirty = busy, false
		g.scratch = appendHost(g.scratch[:0], h)
		g.set(hostKey(h.key), g.scratch)
	}
	g.dirty = g.dirty[:0]
}

// trimHosts removes hosts from memory if there are many. Leased hosts stay.
func (s *Store) trimHosts() {
	if len(s.hosts) <= maxHosts {
		return
	}
	for key, h := range s.hosts {
		if h.lease == nil {
			delete(s.hosts, key)
		}
		if len(s.hosts) <= maxHosts*3/4 {
			return
		}
	}
}
