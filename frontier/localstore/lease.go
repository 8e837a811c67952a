package localstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

type lease struct {
	id       frontier.LeaseID
	host     *host
	inFlight int
	place    place // in the site of the host
	deadline int64
	held     []heldItem // items that the worker holds, in the order in which it got them

	// settled are the items completed under this lease. If such an item is queued again, this
	// lease does not get it a second time. Otherwise a repeated call that completes the item
	// would look like a second completion.
	settled settledItems
	// aside has the queue positions of the settled items that were queued again. They become
	// available when the lease ends.
	aside []queuePos

	recent []frontier.Item // the last items of the lease, for callers that did not receive an answer
	past   int             // number of items handed out before recent
}

type settledItems = map[bloomstore.Fingerprint]struct{}

// heldItem is an item that the worker holds. Its row stays in the queue.
type heldItem struct {
	item frontier.Item
	at   queuePos
}

// find returns the index of an item in l.held, or -1.
func (l *lease) find(print bloomstore.Fingerprint) int {
	return slices.IndexFunc(l.held, func(h heldItem) bool { return h.item.Fingerprint == print })
}

func (l *lease) items() []frontier.Item {
	items := make([]frontier.Item, len(l.held))
	for i := range l.held {
		items[i] = l.held[i].item
	}
	return items
}

// maxRecent is how many items stay in lease.recent after the caller has received them.
const maxRecent = 256

// since returns the items of the lease after the first count items, which the caller has
// received already. It also forgets all of these first items except the last maxRecent, so
// that a long lease stays small.
func (l *lease) since(count int) []frontier.Item {
	if surplus := min(count-l.past, len(l.recent)) - maxRecent; surplus > 0 {
		l.recent = slices.Delete(l.recent, 0, surplus)
		l.past += surplus
	}
	return slices.Clone(l.recent[min(max(count-l.past, 0), len(l.recent)):])
}

// Lease implements frontier.Store.
func (s *Store) Lease(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
	var grant frontier.Grant
	err := s.submit(ctx, &op{grant: func(g *group) (err error) {
		grant, err = g.lease(request)
		return err
	}})
	if err != nil {
		return frontier.Grant{}, err
	}
	return grant, nil
}

// LimitReached implements frontier.Store. Leased items count towards the limit.
func (*Store) LimitReached(context.Context, uint64) (bool, error) { return false, nil }

func (g *group) lease(request frontier.LeaseRequest) (frontier.Grant, error) {
	grant := frontier.Grant{Paused: g.meta.Stats.Paused}
	var fresh []frontier.LeaseID
	for _, id := range request.IDs {
		if l := g.leases[id]; l != nil {
			if err := g.grantTo(&grant, l); err != nil {
				return grant, err
			}
		} else if _, ended := g.ended.byID[id]; !ended {
			fresh = append(fresh, id)
		}
	}
	next := int64(never)
	if request.Hosts != nil {
		if err := g.leaseThese(&grant, request); err != nil {
			return grant, err
		}
	} else if !grant.Paused {
		var err error
		if next, err = g.leaseDue(&grant, request, fresh); err != nil {
			return grant, err
		}
		if g.unparking.next != nil {
			next = g.now
		}
	}
	books := &g.meta.Stats.Books
	grant.Empty = books.Queued == 0 && books.Leased == 0
	checks := &g.meta.Stats.Checks
	if !g.cfg.Policy().Recrawl.On() {
		grant.Limited = books.Queued > checks.Queued && g.pagesLeft(request.MaxPages) == 0
		grant.Reached = grant.Limited && g.meta.Stats.Pages >= request.MaxPages && checks.Waiting() == 0
	}
	next = min(next, g.nextDelayed, g.nextExpiry, g.nextSweep, g.now+time.Hour.Microseconds())
	grant.Wait = time.Duration(max(next-g.now, 0)) * time.Microsecond
	return grant, nil
}

// leaseDue leases due hosts, each under one of the ids in fresh. It returns the time at which
// the next host is due.
func (g *group) leaseDue(grant *frontier.Grant, request frontier.LeaseRequest, fresh []frontier.LeaseID) (int64, error) {
	if g.due == nil {
		lower, upper := table(tableDue)
		var err error
		if g.due, err = newIter(g.db, appendDueKey(lower[:0], g.dueFloor, ""), upper); err != nil {
			return 0, err
		}
		g.due.First()
	}
	limited, skipped := false, 0
	for ; g.due.Valid(); g.due.Next() {
		due, key := splitDueKey(g.due.Key())
		left, firsts := g.leasable(string(key), request.MaxPages)
		if left == 0 && due <= g.now && len(fresh) > 0 {
			if g.meta.Stats.Checks.Queued == 0 {
				return g.later, nil
			}
			limited = true // hosts of checks may follow
			continue
		}
		h, err := g.hostOf(string(key))
		if err != nil {
			return 0, err
		}
		if h.lease != nil {
			continue // this group has leased the host, and will remove the host's row in the table of due hosts
		}
		if due <= g.now && g.cfg.Policy().HostPaused(h.key) {
			if skipped++; skipped > maxParked {
				return g.now, nil
			}
			g.reindex(h, h.indexed+parked)
			continue
		}
		if !limited {
			g.dueFloor = max(g.dueFloor, min(due, g.now))
		}
		if due > g.now || len(fresh) == 0 {
			return min(due, g.later), nil
		}
		if g.slowDown(h) {
			g.later = min(g.later, h.due)
			continue
		}
		if firsts == 0 {
			if err := g.parkFirsts(h, &skipped); err != nil {
				return 0, err
			}
			if skipped > maxParked {
				return g.now, nil
			}
			if h.waits() == 0 {
				continue
			}
		}
		place, again, err := g.enterSite(h)
		if err != nil {
			return 0, err
		}
		if again > 0 {
			g.later = min(g.later, again)
			g.reindex(h, again)
			if skipped++; skipped > maxParked {
				return g.now, nil
			}
			continue
		}
		size := min(batchSize(g.cfg.LeaseTTL, h.delay), left)
		if err := g.leaseHost(grant, request, fresh[0], h, size, firsts, place); err != nil {
			return 0, err
		}
		fresh = fresh[1:]
	}
	if err := g.due.Error(); err != nil {
		return 0, fatal("read due hosts", err)
	}
	return g.later, nil
}

// inFlight returns how many requests to a host the caller can have under way at once.
func inFlight(request *frontier.LeaseRequest) int {
	if request.Hosts != nil {
		return 0
	}
	return max(request.InFlight, 1)
}

// leaseThese leases request.Hosts, apart from those that are leased or have no items to lease.
func (g *group) leaseThese(grant *frontier.Grant, request frontier.LeaseRequest) error {
	for i, id := range request.IDs[:min(len(request.IDs), len(request.Hosts))] {
		if _, ended := g.ended.byID[id]; ended || g.leases[id] != nil {
			continue
		}
		h, err := g.hostOf(request.Hosts[i])
		if err != nil {
			return err
		}
		if h.lease == nil && h.waiting[request.Priority] > 0 {
			if err := g.leaseHost(grant, request, id, h, MaxBatch, MaxBatch, place{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// leaseHost leases at most size items of a host, of which at most firsts are in round 0.
func (g *group) leaseHost(grant *frontier.Grant, request frontier.LeaseRequest, id frontier.LeaseID, h *host, size, firsts int, place place) error {
	l := &lease{
		id: id, host: h, inFlight: inFlight(&request), place: place, deadline: g.now + g.cfg.LeaseTTL.Microseconds(),
		settled: make(settledItems),
	}
	first, last := frontier.Priority(0), frontier.Priority(frontier.Priorities-1)
	if request.Hosts != nil {
		first, last = request.Priority, request.Priority
	}
	if err := g.take(l, size, firsts, first, last); err != nil {
		return err
	}
	h.lease, g.leases[id] = l, l
	g.sites.unqueue(h.key)
	g.nextExpiry = min(g.nextExpiry, l.deadline)
	return g.grantTo(grant, l)
}

// batchSize returns how many items of a host a lease holds at first: as many as can be
// requested during its TTL, but at least 1 and at most MaxBatch. delay is in µs.
func batchSize(ttl time.Duration, delay int64) int {
	if delay <= 0 {
		return MaxBatch
	}
	return int(min(max(ttl.Microseconds()/delay, 1), MaxBatch))
}

// leasable returns how many more items of a host can be leased under a limit of pages, and how many of them can be in
// round 0. In a crawl that visits pages again, only the latter are limited.
func (g *group) leasable(host string, limit uint64) (items, firsts int) {
	if frontier.IsCheck(host) {
		limit = 0
	}
	left := g.pagesLeft(limit)
	if g.cfg.Policy().Recrawl.On() && (left > 0 || g.full()) {
		return unlimited, left
	}
	return left, left
}

// unlimited is more items than a lease can have.
const unlimited = 1 << 20

// pagesLeft returns how many more items can be leased under a limit of pages. A limit of 0
// means no limit.
func (g *group) pagesLeft(limit uint64) int {
	s := &g.meta.Stats
	taken := s.Pages + s.Leased - s.Checks.Leased
	if g.cfg.Policy().Recrawl.On() {
		if taken -= s.PagesAgain; taken >= limit {
			taken -= g.leasedAgain()
		}
	}
	switch {
	case limit == 0:
		return unlimited
	case taken >= limit:
		return 0
	}
	return int(min(limit-taken, unlimited))
}

// leasedAgain returns how many leased items are in a later round, apart from checks.
func (g *group) leasedAgain() (n uint64) {
	for _, l := range g.leases {
		for i := range l.held {
			if l.held[i].item.Round > 0 && !frontier.IsCheck(l.host.key) {
				n++
			}
		}
	}
	return n
}

// full reports whether the crawl visits pages again, and has all pages that it may have.
func (g *group) full() bool {
	p, s := g.cfg.Policy(), &g.meta.Stats
	return p.Recrawl.On() && p.MaxPages > 0 && s.Pages-s.PagesAgain >= p.MaxPages
}

func (g *group) grantTo(grant *frontier.Grant, l *lease) error {
	blob, err := g.get(blobKey(l.host.key))
	if err != nil {
		return err
	}
	grant.Leases = append(grant.Leases, frontier.Lease{
		ID: l.id, Host: l.host.key, Items: l.items(), Blob: blob,
		TTL: time.Duration(l.deadline-g.now) * time.Microsecond,
	})
	return nil
}

// take moves up to n waiting items of the lease's host, with priorities from first to last, into the lease. At most firsts
// of them are in round 0.
func (g *group) take(l *lease, n, firsts int, first, last frontier.Priority) error {
	before := len(l.held)
	for p := first; p <= last; p++ {
		if err := g.takePriority(l, p, n-(len(l.held)-before), &firsts); err != nil {
			return err
		}
	}
	taken := len(l.held) - before
	g.move(l.host, -taken, taken)
	g.writeLease(l)
	g.touch(l.host)
	return nil
}

// takePriority moves up to n waiting items of one priority into the lease, and subtracts those in round 0 from firsts. It
// ends before an item for which firsts has no room. It sets aside items that the lease has settled.
func (g *group) takePriority(l *lease, p frontier.Priority, n int, firsts *int) error {
	if n == 0 {
		return nil
	}
	return g.scanQueue(l.host, p, func(at queuePos, item *frontier.Item) (taken, more bool) {
		if _, settled := l.settled[item.Fingerprint]; settled {
			l.aside = append(l.aside, at)
			return true, true
		}
		if item.Round == 0 {
			if *firsts == 0 {
				return false, false
			}
			*firsts--
		}
		l.held = append(l.held, heldItem{*item, at})
		l.recent = append(l.recent, *item)
		n--
		return true, n > 0
	})
}

// scanQueue calls visit for the waiting items of a host with one priority, in order. An item that visit takes does not wait any
// more. The scan ends with the queue, with an item that is not taken, or when visit says that there is no more to do.
func (g *group) scanQueue(h *host, p frontier.Priority, visit func(at queuePos, item *frontier.Item) (taken, more bool)) error {
	if h.waiting[p] == 0 {
		return nil
	}
	if g.queue == nil {
		lower, upper := table(tableQueue)
		var err error
		if g.queue, err = newIter(g.db, lower, upper); err != nil {
			return err
		}
	}
	first := appendQueueKey(nil, h.key, queuePos{p, h.head[p]})
	prefix := first[:len(first)-8]
	for ok := g.queue.SeekGE(first); h.waiting[p] > 0; ok = g.queue.Next() {
		if !ok || !bytes.HasPrefix(g.queue.Key(), prefix) {
			if err := g.queue.Error(); err != nil {
				return fatal("read the queue of "+h.key, err)
			}
			return fatal("read the queue of "+h.key, errRow) // the queue is shorter than the host's row says
		}
		_, at, ok := splitQueueKey(g.queue.Key())
		if !ok {
			return fatal("read the queue of "+h.key, errRow)
		}
		item, err := decodeEntry(g.queue.Value(), h.key, g.hasher)
		if err != nil {
			return fatal("read the queue of "+h.key, err)
		}
		taken, more := visit(at, &item)
		if taken {
			h.head[p] = at.seq + 1
			h.waiting[p]--
		}
		if !taken || !more {
			break
		}
	}
	return nil
}

// writeLease writes the row of the lease. After a crash, recoverLeases reads it and ends
// the lease.
func (g *group) writeLease(l *lease) {
	g.scratch = appendLease(g.scratch[:0], l)
	g.set(leaseKey(l.id), g.scratch)
}

// Extend implements frontier.Store. Of the first topUp.Known items of the lease, the store
// keeps only the last maxRecent. A later call with a smaller topUp.Known does not return older
// items.
func (s *Store) Extend(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
	var extension frontier.Extension
	err := s.submit(ctx, &op{grant: func(g *group) error {
		l := g.leases[id]
		if l == nil {
			return frontier.ErrLeaseLost
		}
		l.deadline = g.now + g.cfg.LeaseTTL.Microseconds()
		more, firsts := g.leasable(l.host.key, topUp.MaxPages)
		more = min(more, topUp.Items-len(l.held))
		if more > 0 && !g.meta.Stats.Paused && l.host.waits() > 0 {
			if err := g.take(l, more, firsts, 0, frontier.Priorities-1); err != nil {
				return err
			}
		}
		extension = frontier.Extension{TTL: g.cfg.LeaseTTL, Items: l.since(topUp.Known)}
		return nil
	}})
	if err != nil {
		return frontier.Extension{}, err
	}
	return extension, nil
}
