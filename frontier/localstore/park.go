package localstore

import (
	"bytes"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// A host that is due while the policy pauses it is parked: its key in tableDue is parked later, so that no
// scan meets it. An item that the policy pauses is delayed until parked, and so is one of round 0 in a crawl that visits
// pages again and has all pages that it may have. When the policy changes, unpark looks at all of them.

// parked is a time after all others, in µs.
const parked = 1 << 61

// maxParked bounds the hosts that one call of Lease parks, and the hosts and items at which it looks again.
const maxParked = 1000

// unparking is the progress of a look at what is parked.
type unparking struct {
	under *policy.Policy // the policy of the look
	next  []byte         // the key from which it continues; nil after its end
}

// reindex moves the key of a host in tableDue.
func (g *group) reindex(h *host, at int64) {
	g.scratch = appendDueKey(g.scratch[:0], h.indexed, h.key)
	g.remove(g.scratch)
	h.indexed = at
	g.scratch = appendDueKey(g.scratch[:0], at, h.key)
	g.set(g.scratch, nil)
	g.touch(h)
}

// parkFirsts delays the waiting items of a host that are before the first one of a later round, and adds their number to
// skipped. It ends when that exceeds maxParked.
func (g *group) parkFirsts(h *host, skipped *int) error {
	for p := range frontier.Priority(frontier.Priorities) {
		err := g.scanQueue(h, p, func(at queuePos, item *frontier.Item) (taken, more bool) {
			if item.Round > 0 || *skipped > maxParked {
				return false, false
			}
			*skipped++
			g.scratch = appendQueueKey(g.scratch[:0], h.key, at)
			g.remove(g.scratch)
			g.delayUntil(h, item, parked)
			return true, true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unpark looks at parked hosts and items after a change of the policy, and lets go those that it does not pause any
// more. What is left waits for the next group.
func (g *group) unpark() error {
	p, u := g.cfg.Policy(), &g.unparking
	if p != u.under {
		u.under, u.next = p, appendDueKey(nil, parked, "")
	}
	if u.next == nil {
		return nil
	}
	left := maxParked
	if u.next[0] == tableDue {
		if err := g.unparkHosts(p, &left); err != nil || u.next != nil {
			return err
		}
		u.next = delayedKey(parked, 0)
	}
	return g.unparkItems(p, &left)
}

// unparkHosts lets go hosts, and sets u.next.
func (g *group) unparkHosts(p *policy.Policy, left *int) error {
	from := g.unparking.next
	g.unparking.next = nil
	return g.scanRange(g.db, from, []byte{tableDue + 1}, func(key, _ []byte) (bool, error) {
		if *left--; *left < 0 {
			g.unparking.next = bytes.Clone(key)
			return false, nil
		}
		due, name := splitDueKey(key)
		h, err := g.hostOf(string(name))
		if err == nil && !p.HostPaused(h.key) && h.indexed == due && h.lease == nil {
			g.reindex(h, due-parked)
			g.dueFloor, g.later = min(g.dueFloor, due-parked), min(g.later, due-parked)
		}
		return true, err
	})
}

// unparkItems lets go items, and sets u.next.
func (g *group) unparkItems(p *policy.Policy, left *int) error {
	from := g.unparking.next
	g.unparking.next = nil
	return g.scanRange(g.db, from, []byte{tableDelayed + 1}, func(key, value []byte) (bool, error) {
		if *left--; *left < 0 {
			g.unparking.next = bytes.Clone(key)
			return false, nil
		}
		_, item, err := g.decodeDelayed(key, value)
		if err != nil || p.Paused(item.Host, item.URL) || item.Round == 0 && g.full() {
			return err == nil, err
		}
		h, err := g.hostOf(item.Host)
		if err != nil {
			return false, err
		}
		g.remove(key)
		h.delayed--
		g.meta.Stats.Delayed--
		g.enqueue(h, &item)
		g.later = g.now
		return true, nil
	})
}
