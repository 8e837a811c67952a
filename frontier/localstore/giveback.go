package localstore

import (
	"github.com/bloomfrontier/crawler/frontier"
)

// endLease ends a lease. The items that it did not complete return to the queue, and the
// host can be leased again.
func (g *group) endLease(l *lease) {
	h := l.host
	for i := range l.held {
		h.enqueued(l.held[i].at)
	}
	for _, at := range l.aside {
		h.enqueued(at)
	}
	g.move(h, len(l.held), -len(l.held))
	h.lease = nil
	g.leaveSite(l)
	delete(g.leases, l.id)
	g.remove(leaseKey(l.id))
	g.touch(h)
}

// expireLeases ends the leases that have expired.
func (g *group) expireLeases() {
	g.nextExpiry = never
	for _, l := range g.leases {
		if l.deadline > g.now {
			g.nextExpiry = min(g.nextExpiry, l.deadline)
			continue
		}
		g.expire(l)
		g.ended.add(l.id, nil)
	}
}

// expire ends a lease that its worker did not end. It increments Item.Deliveries only for
// items whose requests might have been in flight.
func (g *group) expire(l *lease) {
	h := l.host
	for _, lost := range l.held[:min(l.inFlight, len(l.held))] {
		lost.item.Deliveries = min(lost.item.Deliveries+1, frontier.MaxDeliveries)
		g.writeEntry(h, lost.at, &lost.item)
	}
	if l.inFlight > 0 {
		h.due = max(h.due, l.deadline+h.delay)
	}
	g.endLease(l)
}

// giveBackAll ends every lease when the store closes. Item.Deliveries does not change. Each host
// waits for its delay, because a request might have started a moment ago.
func (g *group) giveBackAll() error {
	for _, l := range g.leases {
		if l.inFlight > 0 {
			l.host.due = max(l.host.due, g.now+l.host.delay)
		}
		g.endLease(l)
	}
	return nil
}

// recoverLeases ends the leases of a process that ended without Close.
func (s *Store) recoverLeases() error {
	g := s.newGroup()
	defer g.close()
	err := s.scanLeases(s.db, g.recoverLease)
	if err != nil || g.batch.Empty() {
		return err
	}
	return g.apply("recover", true)
}

func (g *group) recoverLease(id frontier.LeaseID, row leaseRow) error {
	h, err := g.hostOf(row.host)
	if err != nil {
		return err
	}
	held, err := g.heldItems(g.db, &row)
	if err != nil {
		return err
	}
	g.expire(&lease{id: id, host: h, inFlight: row.inFlight, deadline: g.now, held: held, aside: row.aside})
	h.counted = h.busy() // Stats.Hosts includes the host already, because of its leased items
	return nil
}

// endedLeases remembers the leases that ended last, and which items were completed under
// them, so that a repeated completion gets the same answer.
type endedLeases struct {
	byID    map[frontier.LeaseID]settledItems
	order   []frontier.LeaseID
	settled int // number of items in all values of byID
}

// Bounds of what endedLeases remembers.
const (
	maxEnded        = 1 << 12
	maxEndedSettled = 1 << 16
)

// add remembers a lease that has ended. settled is nil if the lease has expired.
func (e *endedLeases) add(id frontier.LeaseID, settled settledItems) {
	if e.byID == nil {
		e.byID = make(map[frontier.LeaseID]settledItems)
	}
	e.byID[id] = settled
	e.order = append(e.order, id)
	e.settled += len(settled)
	for len(e.order) > maxEnded || e.settled > maxEndedSettled {
		oldest := e.order[0]
		e.order = e.order[1:]
		e.settled -= len(e.byID[oldest])
		delete(e.byID, oldest)
	}
}
