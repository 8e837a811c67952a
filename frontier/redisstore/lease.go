package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// leaser is the part of a Store that leases hosts.
type leaser struct {
	lending  chan struct{} // a semaphore: only one call of Lease at a time asks the servers
	schedule *schedule
	held     heldLeases
	// lastTotals are the totals that were read last, so that frequent calls do not read every
	// partition; nil means none.
	lastTotals atomic.Pointer[totals]
	completed  atomic.Uint64 // pages in calls of Complete that have returned
	parking    parking
	counting   sync.Mutex // held during LimitReached, so that callers share a reading
	// durable is the time from the answer to a write until the write is certainly on the
	// node's disk, if the node has not restarted. Nodes sync their log every second.
	durable time.Duration
}

func newLeaser(parts []*partition) leaser {
	return leaser{lending: make(chan struct{}, 1), schedule: newSchedule(parts), durable: 2 * time.Second}
}

// firstEpoch stores the epoch in which a partition is created. Without it the partition would
// look like one that was lost.
func (s *Store) firstEpoch(ctx context.Context, p *partition) error {
	n, err := s.nodeOf(ctx, p)
	if err != nil {
		return err
	}
	ep, err := s.epochOf(ctx, n)
	if err != nil {
		return err
	}
	return s.classify(ctx, s.client.HSetNX(ctx, p.meta, fieldEpoch, ep.run).Err())
}

// now returns the time of this process, for its own deadlines.
func (s *Store) now() time.Time {
	if s.cfg.Now != nil {
		return s.cfg.Now()
	}
	return time.Now()
}

// age returns how long after the creation of the crawl a time is.
func (s *Store) age(now time.Time) time.Duration { return now.Sub(s.card.Created) }

// moment returns the Moment of now.
func (s *Store) moment() frontier.Moment { return frontier.MomentAt(s.age(s.now())) }

// maxTries bounds how many times one call of Lease tries hosts. Lease tries other
// hosts if other workers got the first ones.
const maxTries = 4

// Lease implements frontier.Store. Calls of one process are serialized. If some servers are
// unavailable, Lease leases hosts of the others, and returns an error only if it gets none.
//
// After a server has begun a new epoch, no host of its partitions is leased until the TTL of a
// lease plus the delay of the host have passed.
func (s *Store) Lease(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
	select {
	case s.lending <- struct{}{}:
		defer func() { <-s.lending }()
	case <-ctx.Done():
		return frontier.Grant{}, context.Cause(ctx)
	}
	l := &loan{Store: s, request: request}
	l.repeat()
	paused, err := s.paused(ctx)
	if err != nil {
		return frontier.Grant{}, err
	}
	l.grant.Paused = paused
	if s.cfg.Now != nil {
		s.schedule.forget() // tests move the clock forward
	}
	steps := []func(context.Context) error{l.lookAround, l.unpark, l.lend, l.sum}
	if request.Hosts != nil {
		steps = steps[2:] // no due host is looked for
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			l.failed = err
		}
	}
	if l.failed != nil && len(l.grant.Leases) == 0 {
		return frontier.Grant{}, l.failed
	}
	l.grant.Wait = s.schedule.wait(s.now())
	if s.cfg.Exact != nil {
		if err := s.cfg.Exact.Empty(ctx, &l.grant); err != nil {
			return frontier.Grant{}, err
		}
	}
	return l.grant, nil
}

// loan is one call of Lease.
type loan struct {
	*Store
	request  frontier.LeaseRequest
	grant    frontier.Grant
	fresh    []frontier.LeaseID // ids without a host
	doubtful []*heldLease       // leases that may be granted already: the answer was lost
	failed   error
}

// repeat adds to the grant the leases that the requested ids already have. It sorts the other
// ids into fresh and doubtful.
func (l *loan) repeat() {
	now := l.now()
	l.held.sweep(now)
	for _, id := range l.request.IDs {
		h := l.held.get(id)
		if h == nil {
			l.fresh = append(l.fresh, id)
		} else if state := h.state(); state.current(now) {
			l.grant.Leases = append(l.grant.Leases, h.lease(now))
		} else if !state.granted {
			l.doubtful = append(l.doubtful, h)
		}
	}
}

// lookAround does nothing if the schedule knows enough due hosts and the last look is recent.
// Otherwise it looks (see Store.look) at those partitions of this worker for which the schedule
// has planned a look by now. If the schedule then still knows too few due hosts, lookAround does
// the same with the partitions of the other workers.
func (l *loan) lookAround(ctx context.Context) error {
	now, wanted := l.now(), len(l.fresh)
	if l.schedule.enough(wanted, now) {
		return nil
	}
	err := l.lookAt(ctx, l.schedule.toLook(now, false))
	if !l.schedule.enough(max(wanted, 1), now) {
		if elsewhere := l.lookAt(ctx, l.schedule.toLook(now, true)); err == nil {
			err = elsewhere
		}
	}
	return err
}

// lookAt looks at partitions. It asks each for about twice its share of the hosts that are needed.
func (l *loan) lookAt(ctx context.Context, parts []*partition) error {
	if len(parts) == 0 {
		return nil
	}
	least := 1
	if l.card.BySite { // all hosts of a site are in one partition, and many of them may find no place
		least = 8
	}
	return l.look(ctx, parts, 2*len(l.fresh)/len(parts)+least)
}

// lend leases hosts under the fresh ids.
func (l *loan) lend(ctx context.Context) error {
	switch {
	case l.request.Hosts != nil:
		return l.lendThese(ctx)
	case l.grant.Paused: // only repeats are granted
		return l.try(ctx, l.next(ctx, len(l.doubtful)), 0)
	case l.request.MaxPages > 0 && !l.cfg.Policy().Recrawl.On():
		if reached, err := l.LimitReached(ctx, l.request.MaxPages); err != nil {
			return err
		} else if reached {
			return l.lendAtLimit(ctx)
		}
	}
	for range maxTries {
		tries := l.next(ctx, len(l.request.IDs))
		if len(tries) == 0 {
			return nil
		}
		if err := l.try(ctx, tries, maxBatch); err != nil {
			return err
		}
	}
	return nil
}

// lendThese leases LeaseRequest.Hosts. It looks at their partitions now and then, because after a restart of a server
// only a look begins the hold, after whose end hosts are leased again.
func (l *loan) lendThese(ctx context.Context) error {
	tries := l.doubtful
	for _, host := range l.request.Hosts {
		if err := l.lookAgain(ctx, l.partition(host)); err != nil {
			return err
		}
	}
	for i, id := range l.request.IDs {
		if slices.Contains(l.fresh, id) {
			host := l.request.Hosts[i]
			tries = append(tries, newHeldLease(id, l.partition(host), host))
		}
	}
	l.doubtful, l.fresh = nil, nil
	return l.try(ctx, tries, maxBatch)
}

// next returns up to n leases to request. The first are those that may be granted already. Each
// of the others is new, for one fresh id and one due host. next looks for more hosts if none is
// known to be due.
func (l *loan) next(ctx context.Context, n int) []*heldLease {
	n = min(n, len(l.doubtful)+len(l.fresh))
	old := min(n, len(l.doubtful))
	tries := l.doubtful[:old:old]
	l.doubtful = l.doubtful[old:]
	hosts := l.takeDue(n - old)
	if len(hosts) == 0 && n > old {
		if err := l.lookAt(ctx, l.schedule.toLook(l.now(), false)); err != nil {
			l.failed = err
		}
		hosts = l.takeDue(n - old)
	}
	for i, c := range hosts {
		tries = append(tries, newHeldLease(l.fresh[i], c.part, c.host))
	}
	l.fresh = l.fresh[len(hosts):]
	return tries
}

// try requests leases of at most maxItems items each. With 0, it grants only repeats.
func (l *loan) try(ctx context.Context, tries []*heldLease, maxItems int) (failed error) {
	asked := l.now()
	calls, queue := make([]*call, len(tries)), ""
	if l.request.Hosts != nil {
		queue = strconv.Itoa(int(l.request.Priority) + 1)
	}
	for i, h := range tries {
		calls[i] = &call{part: h.part, script: leaseScript, keys: l.leaseKeys(h), args: []any{
			h.host, h.id[:], millis(l.cfg.LeaseTTL), l.cfg.delayMillis(h.host), max(l.request.InFlight, 1), maxItems, l.number, queue, l.rateOf(h.host),
		}}
	}
	l.runAll(ctx, calls)
	crash.Point("leased")
	waits := make(map[*partition]time.Duration) // for each partition, the time until another host is due, as in its last answer
	for i, h := range tries {
		wait, err := l.tried(h, calls[i], asked)
		if err != nil {
			failed = err
		}
		waits[h.part] = wait
	}
	for p, wait := range waits {
		l.schedule.lent(p, asked, wait)
	}
	return failed
}

// leaseKeys returns the keys of lease.lua.
func (s *Store) leaseKeys(h *heldLease) []string {
	site := s.siteOf(h.host)
	return append(h.part.hostKeys(h.host), h.part.places(site), h.part.siteQueue(site))
}

// tried handles the answer to the request for a lease. It returns the time until the partition
// has another host that is due.
func (l *loan) tried(h *heldLease, c *call, asked time.Time) (time.Duration, error) {
	if c.err != nil {
		h.doubt(asked.Add(l.cfg.LeaseTTL))
		l.held.put(h) // a repeat must request the same host
		return 0, c.err
	}
	reply := list(c.reply)
	wait := waitOf(integer(at(reply, 1)))
	if integer(at(reply, 0)) == 0 { // another worker was first, or the host is not due
		l.held.remove(h.id)
		l.fresh = append(l.fresh, h.id)
		if other := text(at(reply, 2)); other != "" {
			l.schedule.found(candidate{part: h.part, host: other})
		}
		return wait, nil
	}
	items, err := l.decodeNumbered(h.host, reply[min(4, len(reply)):])
	if err != nil {
		return wait, err
	}
	var blob []byte
	if kept, ok := at(reply, 3).(string); ok {
		blob = []byte(kept)
	}
	h.grant(items, blob, asked.Add(time.Duration(integer(at(reply, 2)))*time.Millisecond))
	l.held.put(h)
	l.grant.Leases = append(l.grant.Leases, h.lease(asked))
	return wait, nil
}

// decodeNumbered reads numbers and entries of items of a host.
func (s *Store) decodeNumbered(host string, reply []any) ([]*heldItem, error) {
	items := make([]*heldItem, 0, len(reply)/2)
	for i := 0; i+1 < len(reply); i += 2 {
		item, err := decodeEntry(text(reply[i+1]), host, s.hasher)
		if err != nil {
			return nil, fmt.Errorf("%w of host %q: %q", err, host, text(reply[i+1]))
		}
		items = append(items, &heldItem{number: integer(reply[i]), item: item})
	}
	return items, nil
}
