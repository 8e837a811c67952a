package localstore

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// lease is a host in a worker's hands.
type lease struct {
	id       frontier.LeaseID
	host     *host
	worker   string
	inFlight int
	deadline int64
	handed   []frontier.Item // everything ever handed out, in order
	held     []*heldItem     // the same, with what became of each
	byPrint  map[bloomstore.Fingerprint]*heldItem
	open     int // held items that are in the worker's hands
}

type heldItem struct {
	at    place
	state heldState
	index int // in handed
}

type heldState uint8

const (
	held      heldState = iota // in the worker's hands
	returned                   // given back, in its place again
	completed                  // finished or queued for another try
)

// endedLeases remembers the last leases that ended, so that a repeated
// completion of theirs is answered as the first was.
type endedLeases struct {
	ring  [1024]*lease
	next  int
	leash map[frontier.LeaseID]*lease
}

func (e *endedLeases) add(l *lease) {
	if e.leash == nil {
		e.leash = make(map[frontier.LeaseID]*lease)
	}
	if old := e.ring[e.next]; old != nil {
		delete(e.leash, old.id)
	}
	l.handed = nil
	e.ring[e.next], e.leash[l.id] = l, l
	e.next = (e.next + 1) % len(e.ring)
}

// Lease implements frontier.Store.
func (s *Store) Lease(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
	var grant frontier.Grant
	err := s.do(ctx, &op{grant: func(g *group) error {
		var err error
		grant, err = g.lease(request)
		return err
	}})
	return grant, err
}

func (g *group) lease(request frontier.LeaseRequest) (frontier.Grant, error) {
	grant := frontier.Grant{Paused: g.meta.Stats.Paused}
	var fresh []frontier.LeaseID
	for _, id := range request.IDs {
		if l := g.leases[id]; l != nil {
			again, err := g.grantOf(l, nil)
			if err != nil {
				return grant, err
			}
			grant.Leases = append(grant.Leases, again)
		} else if g.ended.leash[id] == nil {
			fresh = append(fresh, id)
		}
	}
	next := int64(never)
	if !grant.Paused {
		var err error
		if next, err = g.leaseDue(&grant, request, fresh); err != nil {
			return grant, err
		}
	}
	books := g.meta.Stats.Books
	grant.Empty = books.Queued == 0 && books.Leased == 0
	next = min(next, g.nextDelayed, g.nextExpiry, g.now+time.Hour.Microseconds())
	grant.Wait = time.Duration(max(next-g.now, 0)) * time.Microsecond
	return grant, nil
}

// leaseDue leases due hosts under the fresh ids; it returns when the next one
// that it left is due.
func (g *group) leaseDue(grant *frontier.Grant, request frontier.LeaseRequest, fresh []frontier.LeaseID) (int64, error) {
	if g.due == nil {
		lower, upper := table(tableDue)
		var err error
		if g.due, err = g.newIter(lower, upper); err != nil {
			return 0, err
		}
		g.due.SeekGE(appendDueKey(nil, g.dueFloor, ""))
	}
	for ; g.due.Valid(); g.due.Next() {
		due, key := splitDueKey(g.due.Key())
		h, err := g.hostOf(string(key))
		if err != nil {
			return 0, err
		}
		if h.lease != nil || h.indexed != due {
			continue // this group leased it; its row here is about to go
		}
		g.dueFloor = max(g.dueFloor, min(due, g.now))
		if due > g.now || len(fresh) == 0 {
			return due, nil
		}
		size := batchSize(g.cfg.LeaseTTL, h.delay)
		if request.MaxPages > 0 {
			if size = min(size, g.pagesLeft(request.MaxPages)); size == 0 {
				grant.Limited = true
				return never, nil
			}
		}
		l := &lease{
			id: fresh[0], host: h, worker: request.Worker, inFlight: max(request.InFlight, 1),
			deadline: g.now + g.cfg.LeaseTTL.Microseconds(),
			byPrint:  make(map[bloomstore.Fingerprint]*heldItem, size),
		}
		if err := g.take(l, size); err != nil {
			return 0, err
		}
		if len(l.held) == 0 {
			return 0, fatal(fmt.Sprintf("lease %q: %d items wait, but its queue is empty", h.key, h.waits()), errRow)
		}
		fresh = fresh[1:]
		h.lease = l
		g.leases[l.id] = l
		g.nextExpiry = min(g.nextExpiry, l.deadline)
		blob, err := g.get(blobKey(h.key))
		if err != nil {
			return 0, err
		}
		granted, err := g.grantOf(l, blob)
		if err != nil {
			return 0, err
		}
		grant.Leases = append(grant.Leases, granted)
	}
	if err := g.due.Error(); err != nil {
		return 0, fatal("read due hosts", err)
	}
	return never, nil
}

// batchSize is how many items of a host a lease holds at first: what one lease
// time has room for.
func batchSize(ttl time.Duration, delay int64) int {
	if delay <= 0 {
		return MaxBatch
	}
	return int(min(max(ttl.Microseconds()/delay, 1), MaxBatch))
}

// pagesLeft is how many more items may be handed out under a limit of pages.
func (g *group) pagesLeft(limit uint64) int {
	taken := g.meta.Stats.Pages + g.meta.Stats.Leased
	if taken >= limit {
		return 0
	}
	return int(min(limit-taken, 1<<20))
}

func (g *group) grantOf(l *lease, blob []byte) (frontier.Lease, error) {
	if blob == nil {
		var err error
		if blob, err = g.get(blobKey(l.host.key)); err != nil {
			return frontier.Lease{}, err
		}
	}
	return frontier.Lease{
		ID: l.id, Host: l.host.key, Items: bytesFree(l.handed), Blob: blob,
		TTL: time.Duration(max(l.deadline-g.now, 0)) * time.Microsecond,
	}, nil
}

func bytesFree(items []frontier.Item) []frontier.Item { return append([]frontier.Item(nil), items...) }

// take moves up to n waiting items of the lease's host into the lease.
func (g *group) take(l *lease, n int) error {
	h := l.host
	if g.queue == nil {
		lower, upper := table(tableQueue)
		var err error
		if g.queue, err = g.newIter(lower, upper); err != nil {
			return err
		}
	}
	took := 0
	for p := frontier.Priority(0); p < frontier.Priorities && took < n; p++ {
		if h.waiting[p] == 0 {
			continue
		}
		g.scratch = appendQueueKey(g.scratch[:0], h.key, place{p, h.head[p]})
		prefix := len(g.scratch) - 8
		for ok := g.queue.SeekGE(g.scratch); ok && took < n && h.waiting[p] > 0; ok = g.queue.Next() {
			key := g.queue.Key()
			if !bytes.HasPrefix(key, g.scratch[:prefix]) {
				break
			}
			_, at, ok := splitQueueKey(key)
			if !ok {
				return fatal("read a queue", errRow)
			}
			item, err := decodeEntry(g.queue.Value(), h.key, g.hasher)
			if err != nil {
				return fatal("read a queue", err)
			}
			it := &heldItem{at: at, index: len(l.handed)}
			l.handed = append(l.handed, item)
			l.held = append(l.held, it)
			l.byPrint[item.Fingerprint] = it
			h.head[p] = at.seq + 1
			h.waiting[p]--
			took++
		}
		if err := g.queue.Error(); err != nil {
			return fatal("read a queue", err)
		}
	}
	if took > 0 {
		l.open += took
		g.meta.Stats.Queued -= uint64(took)
		g.meta.Stats.Leased += uint64(took)
		g.writeLease(l)
		g.touch(h)
	}
	return nil
}

// writeLease writes the row that a start after a crash reads.
func (g *group) writeLease(l *lease) {
	g.scratch = appendLease(g.scratch[:0], l)
	g.set(leaseKey(l.id), g.scratch)
}

// Extend implements frontier.Store.
func (s *Store) Extend(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
	var ext frontier.Extension
	err := s.do(ctx, &op{grant: func(g *group) error {
		l := g.leases[id]
		if l == nil {
			return frontier.ErrLeaseLost
		}
		l.deadline = g.now + g.cfg.LeaseTTL.Microseconds()
		more := topUp.Items - l.open
		if topUp.MaxPages > 0 {
			more = min(more, g.pagesLeft(topUp.MaxPages))
		}
		if more > 0 && !g.meta.Stats.Paused && l.host.waits() > 0 {
			if err := g.take(l, more); err != nil {
				return err
			}
		}
		ext.TTL = g.cfg.LeaseTTL
		if topUp.Known < len(l.handed) {
			ext.Items = bytesFree(l.handed[max(topUp.Known, 0):])
		}
		return nil
	}})
	return ext, err
}

// endLease gives back what the lease still holds and makes its host due again.
func (g *group) endLease(l *lease) {
	h := l.host
	for _, it := range l.held {
		if it.state == held {
			g.putBack(it)
		}
		if it.state == returned {
			h.enqueued(it.at)
		}
	}
	l.open = 0
	h.lease = nil
	delete(g.leases, l.id)
	g.ended.add(l)
	g.remove(leaseKey(l.id))
	g.touch(h)
}

func (g *group) putBack(it *heldItem) {
	it.state = returned
	g.meta.Stats.Leased--
	g.meta.Stats.Queued++
}

// expireLeases takes back the leases that ran out. Only what could have been
// in flight counts as delivered in vain.
func (g *group) expireLeases() error {
	g.nextExpiry = never
	for _, l := range g.leases {
		if l.deadline > g.now {
			g.nextExpiry = min(g.nextExpiry, l.deadline)
			continue
		}
		h := l.host
		inFlight := l.inFlight
		for i, it := range l.held {
			if it.state == held && inFlight > 0 {
				inFlight--
				item := l.handed[i]
				item.Deliveries = min(item.Deliveries, 254) + 1
				g.scratch = appendQueueKey(g.scratch[:0], h.key, it.at)
				n := len(g.scratch)
				g.scratch = appendEntry(g.scratch, &item)
				g.set(g.scratch[:n], g.scratch[n:])
			}
		}
		h.due = max(h.due, l.deadline+h.delay)
		g.endLease(l)
	}
	return nil
}

// giveBackAll ends every lease as the store closes: nothing was lost, but a
// request may have started until now.
func (g *group) giveBackAll() error {
	for _, l := range g.leases {
		l.host.due = max(l.host.due, g.now+l.host.delay)
		g.endLease(l)
	}
	return nil
}

func (s *Store) newIter(lower, upper []byte) (*pebble.Iterator, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, fatal("read", err)
	}
	return it, nil
}
