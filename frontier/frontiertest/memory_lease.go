package frontiertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

type lease struct {
	id        frontier.LeaseID
	host      *host
	items     []*entry        // all entries that the lease got, in order
	handed    []frontier.Item // copies of the items as the lease got them, for repeats
	completed map[*entry]bool
	decided   map[*entry]exact.Decisions // of an exact set, about the links of items whose completion failed
	deadline  time.Time
	inFlight  int
	ended     bool // the worker has ended the lease, which is kept for a repeat of the last Complete
}

// open returns how many items of l are not completed.
func (l *lease) open() int { return len(l.items) - len(l.completed) }

// batch returns how many items a new lease has: as many as a worker can request within the
// lease at the host's delay, but at least 1 and at most 32.
func batch(ttl, delay time.Duration) int {
	if delay <= 0 {
		return 32
	}
	return int(min(max(ttl/delay, 1), 32))
}

// wake returns the time at which h is due and has a ready item. It ignores a lease of h.
// queued is false if h has no queued items, or only items that are held.
func (m *Memory) wake(h *host) (at time.Time, queued bool) {
	for _, e := range h.queue {
		if e.held {
			continue
		}
		if !e.notBefore.After(h.due) {
			return h.due, true
		}
		if !queued || e.notBefore.Before(at) {
			at, queued = e.notBefore, true
		}
	}
	return at, queued
}

// Lease implements frontier.Store.
func (m *Memory) Lease(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
	now := m.lock()
	defer m.mu.Unlock()
	var grant frontier.Grant
	for i, id := range request.IDs {
		l := m.leases[id]
		if l == nil && request.Hosts != nil {
			l = m.leaseThis(id, request.Hosts[i], request.Priority, now)
		} else if l == nil {
			l = m.newLease(id, request, now)
		}
		if l == nil || l.ended {
			continue
		}
		// A repeat gets the time that is left of the lease.
		grant.Leases = append(grant.Leases, frontier.Lease{
			ID: id, Host: l.host.key, Items: slices.Clone(l.handed), TTL: l.deadline.Sub(now), Blob: slices.Clone(l.host.blob),
		})
	}
	grant.Paused = m.stats.Paused
	grant.Empty = m.stats.Queued+m.stats.Leased == 0
	checks := m.checks()
	grant.Limited = m.stats.Queued > checks.Queued && m.allowance("", request.MaxPages) == 0
	grant.Reached = grant.Limited && m.stats.Pages >= request.MaxPages && checks.Waiting() == 0
	grant.Wait = m.wait(now)
	if m.cfg.Exact != nil {
		return grant, m.cfg.Exact.Empty(ctx, &grant)
	}
	return grant, nil
}

// newLease leases the host that has been due for the longest time. It returns nil if no
// host is due.
func (m *Memory) newLease(id frontier.LeaseID, request frontier.LeaseRequest, now time.Time) *lease {
	if m.stats.Paused {
		return nil
	}
	var first *host
	var since time.Time
	loads := m.loads(now)
	for _, h := range m.hosts {
		at, queued := m.wake(h)
		if h.lease != nil || !queued || at.After(now) || m.cfg.Policy().HostPaused(h.key) || m.allowance(h.key, request.MaxPages) == 0 || m.crowded(h, loads) {
			continue
		}
		if first == nil || at.Before(since) || at.Equal(since) && h.key < first.key {
			first, since = h, at
		}
	}
	if first == nil {
		return nil
	}
	l := m.addLease(id, first, max(request.InFlight, 1), now)
	first.share = 0
	if m.limit(first) > 0 {
		first.share = 1 / first.delay.Seconds()
	}
	m.hand(l, batch(m.cfg.LeaseTTL, first.delay), request.MaxPages, now)
	return l
}

// limit returns how many requests per second the hosts of the site of h get together; 0 means that there is no limit.
func (m *Memory) limit(h *host) float64 {
	own := m.cfg.Policy().Host(h.key)
	if h.site == "" || h.delay == 0 {
		return 0
	}
	return own.DomainRate
}

// loads returns how many requests per second the hosts make that have a place in a site, by site.
func (m *Memory) loads(now time.Time) map[string]float64 {
	loads := make(map[string]float64)
	for _, h := range m.hosts {
		if h.share > 0 && (h.lease != nil && h.lease.inFlight > 0 || h.leaves.After(now)) {
			loads[h.site] += h.share
		}
	}
	return loads
}

// crowded reports whether the site of a host has no place for it.
func (m *Memory) crowded(h *host, loads map[string]float64) bool {
	rate, load := m.limit(h), loads[h.site]
	return rate > 0 && load > 0 && load+1/h.delay.Seconds() > rate*(1+1e-9)
}

func (m *Memory) addLease(id frontier.LeaseID, h *host, inFlight int, now time.Time) *lease {
	l := &lease{id: id, host: h, deadline: now.Add(m.cfg.LeaseTTL), inFlight: inFlight, completed: map[*entry]bool{}, decided: map[*entry]exact.Decisions{}}
	h.lease, m.leases[id] = l, l
	return l
}

// leaseThis leases one of LeaseRequest.Hosts. It returns nil if the host is leased, or has no items to lease.
func (m *Memory) leaseThis(id frontier.LeaseID, key string, p frontier.Priority, now time.Time) *lease {
	h := m.hosts[key]
	if h == nil || h.lease != nil || !slices.ContainsFunc(h.queue, func(e *entry) bool { return e.item.Priority == p && !m.waits(e, now) }) {
		return nil
	}
	l := m.addLease(id, h, 0, now)
	others := func(e *entry) bool { return e.item.Priority != p }
	all := h.queue
	h.queue = slices.DeleteFunc(slices.Clone(all), others)
	m.hand(l, 32, 0, now)
	h.queue = slices.DeleteFunc(all, func(e *entry) bool { return e.state == frontier.Leased })
	return l
}

// waits reports whether a queued item cannot be leased yet.
func (m *Memory) waits(e *entry, now time.Time) bool {
	return e.notBefore.After(now) || e.held
}

// allowance returns how many more items of a host can be leased under maxPages.
func (m *Memory) allowance(host string, maxPages uint64) int {
	if maxPages == 0 || frontier.IsCheck(host) {
		return 1 << 30
	}
	taken := m.stats.Pages
	if m.cfg.PagesOnly && taken < maxPages {
		return 1 << 30
	}
	taken = min(taken+m.stats.Leased-m.checks().Leased, maxPages)
	return int(min(maxPages-taken, 1<<30))
}

// LimitsPagesOnly implements LimitsPagesOnly.
func (m *Memory) LimitsPagesOnly() bool { return m.cfg.PagesOnly }

// LimitReached implements frontier.Store.
func (m *Memory) LimitReached(_ context.Context, maxPages uint64) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cfg.PagesOnly && maxPages > 0 && m.stats.Pages >= maxPages, nil
}

// hand moves up to n ready items of l's host to l, in order. It skips items that l
// completed (retried or given back). Otherwise a repeat of that completion would look
// like a second completion.
func (m *Memory) hand(l *lease, n int, maxPages uint64, now time.Time) {
	n = min(n, m.allowance(l.host.key, maxPages))
	l.host.queue = slices.DeleteFunc(l.host.queue, func(e *entry) bool {
		if n <= 0 || m.waits(e, now) || l.completed[e] {
			return false
		}
		n--
		e.held = false
		e.state, e.notBefore = frontier.Leased, time.Time{}
		l.items, l.handed = append(l.items, e), append(l.handed, e.item)
		m.stats.Queued--
		m.stats.Leased++
		return true
	})
}

// wait returns the time until a host can become due, if the present leases expire.
func (m *Memory) wait(now time.Time) time.Duration {
	var first time.Time
	sooner := func(at time.Time) {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	loads := m.loads(now)
	for _, h := range m.hosts {
		if at, queued := m.wake(h); queued && h.lease == nil && !m.cfg.Policy().HostPaused(h.key) {
			if !at.After(now) && m.crowded(h, loads) {
				at = now.Add(m.turn(h))
			}
			if !at.After(now) {
				return 0
			}
			sooner(at)
		}
	}
	for _, l := range m.leases {
		if !l.ended {
			sooner(later(l.expiryDue(), l.deadline))
		}
	}
	if first.IsZero() && m.stats.Queued > 0 { // all of it is paused
		return time.Minute
	}
	return max(first.Sub(now), 0)
}

// turn returns the time after which a crowded host is tried again.
func (m *Memory) turn(h *host) time.Duration {
	return min(time.Duration(float64(time.Second)/m.limit(h)), h.delay)
}

// expiryDue returns when l's host is due after l has expired. The worker might have started
// a request at the last moment, so this is at least one delay after the deadline.
func (l *lease) expiryDue() time.Time {
	if l.inFlight == 0 {
		return l.host.due
	}
	return later(l.host.due, l.deadline.Add(l.host.delay))
}

// lock locks the Memory, ends every lease whose deadline has passed, and returns the time.
func (m *Memory) lock() (now time.Time) {
	m.mu.Lock()
	now = m.cfg.Now()
	m.expire(now)
	if p := m.cfg.Policy(); p != m.policy {
		m.policy = p
		for _, e := range m.entries {
			e.held = e.held && p.Paused(e.item.Host, e.item.URL)
		}
	}
	return now
}

// expire ends every lease whose deadline has passed.
func (m *Memory) expire(now time.Time) {
	for id, l := range m.leases {
		if now.Before(l.deadline) {
			continue
		}
		delete(m.leases, id)
		if l.ended {
			continue
		}
		left := l.inFlight
		for _, e := range l.items {
			if !l.completed[e] && left > 0 {
				e.item.Deliveries = min(e.item.Deliveries+1, frontier.MaxDeliveries)
				left--
			}
		}
		l.host.due = l.expiryDue()
		m.release(l, now)
	}
}

// release ends l, and returns the items that l did not complete to the queue.
func (m *Memory) release(l *lease, now time.Time) {
	l.ended, l.host.lease = true, nil
	if l.inFlight > 0 {
		l.host.leaves = now.Add(min(max(l.host.due.Sub(now), 0), seconds(1/l.host.share)))
	}
	for _, e := range l.items {
		if !l.completed[e] {
			m.stats.Leased--
			m.enqueue(e, time.Time{})
		}
	}
}

// Extend implements frontier.Store.
func (m *Memory) Extend(_ context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
	now := m.lock()
	defer m.mu.Unlock()
	l := m.leases[id]
	if l == nil || l.ended {
		return frontier.Extension{}, frontier.ErrLeaseLost
	}
	l.deadline = now.Add(m.cfg.LeaseTTL)
	if !m.stats.Paused {
		m.hand(l, topUp.Items-l.open(), topUp.MaxPages, now)
	}
	return frontier.Extension{TTL: m.cfg.LeaseTTL, Items: slices.Clone(l.handed[min(topUp.Known, len(l.handed)):])}, nil
}

// Complete implements frontier.Store.
func (m *Memory) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	now := m.lock()
	defer m.mu.Unlock()
	l := m.leases[id]
	if l == nil {
		return frontier.ErrLeaseLost
	}
	fresh, err := m.fresh(l, done)
	switch {
	case err != nil:
		return err
	case l.ended && len(fresh) > 0:
		return frontier.ErrLeaseLost
	case l.ended:
		return nil
	case len(update.Blob) > frontier.MaxBlob:
		return fmt.Errorf("frontiertest: blob of host %q has %d bytes, want at most %d", l.host.key, len(update.Blob), frontier.MaxBlob)
	}
	links := m.newDraft()
	for i := range fresh {
		c, _ := fresh[i].ShowedFirst(func(content frontier.Content) (frontier.Referrer, error) {
			return links.showedFirst(content, fresh[i].Item), nil
		})
		fresh[i] = *c
	}
	if m.cfg.Exact != nil {
		if err := m.decide(ctx, l, fresh); err != nil {
			return err
		}
	}
	verdicts, records, err := links.follow(l, fresh)
	if err != nil {
		return err
	}
	ends := m.ends(fresh)
	if len(ends) > 0 {
		m.cfg.Exact.End(ends)
	}
	if records+uint64(len(ends)) > 0 && m.cfg.Output != nil {
		if _, err := m.cfg.Output.Sync(); err != nil {
			return fmt.Errorf("frontiertest: sync the output: %w", err)
		}
	}
	links.commit(now)
	m.stats.Records += records
	for _, c := range fresh {
		m.settle(l, c, now)
	}
	if !update.Keep {
		l.host.due, l.host.delay = now.Add(update.Due), update.Delay
	}
	if update.Blob != nil {
		l.host.blob = slices.Clone(update.Blob)
	}
	if update.End {
		m.release(l, now)
	}
	if m.cfg.Exact != nil {
		m.settleLinks(ctx, l, fresh, verdicts)
	}
	return nil
}

// ends returns how exact items end, if there is an exact set.
func (m *Memory) ends(done []frontier.Completion) (ends []exact.Finished) {
	for _, c := range done {
		it := &m.entries[c.Item].item
		if m.cfg.Exact != nil && it.Class != frontier.Bulk && c.Disposition == frontier.Finish {
			ends = append(ends, exact.Finished{
				Ref: exact.Ref{Fingerprint: c.Item, Round: it.Round}, Class: it.Class, Outcome: c.Outcome, Status: c.Status,
			})
		}
	}
	return ends
}

// fresh returns the elements of done whose items l has not completed yet. It returns an
// error if an item does not belong to l, or if the completion of a finished item has no
// valid outcome.
func (m *Memory) fresh(l *lease, done []frontier.Completion) ([]frontier.Completion, error) {
	var fresh []frontier.Completion
	twice := map[bloomstore.Fingerprint]bool{}
	for _, c := range done {
		e := m.entries[c.Item]
		if e == nil || !slices.Contains(l.items, e) {
			return nil, fmt.Errorf("frontiertest: item %x is not of this lease of host %q", c.Item, l.host.key)
		}
		if c.Disposition == frontier.Finish && c.Outcome.State() == frontier.Unknown {
			return nil, fmt.Errorf("frontiertest: %q has no outcome %q", e.item.URL, c.Outcome)
		}
		if !l.completed[e] && !twice[c.Item] {
			twice[c.Item] = true
			fresh = append(fresh, c)
		}
	}
	return fresh, nil
}

// follow adds the links of completions to the draft, and writes the records. It returns the answers to the links by completion.
func (d *draft) follow(l *lease, done []frontier.Completion) (all [][]frontier.Verdict, records uint64, err error) {
	for _, c := range done {
		var counts frontier.LinkCounts
		verdicts := d.offer(c.Links, l.decided[d.m.entries[c.Item]].Each)
		all = append(all, verdicts)
		for i, verdict := range verdicts {
			counts.Count(verdict.Answer, 1)
			if verdict.Answer != frontier.Seen && c.LinkAnswered != nil {
				c.LinkAnswered(i, verdict)
			}
		}
		for _, refusal := range c.Refused {
			counts.Count(frontier.Refused, refusal.Count)
			d.books.Found += refusal.Count
			d.books.Refused[refusal.Reason] += refusal.Count
		}
		if c.Record == nil || c.Disposition != frontier.Finish {
			continue
		}
		if err := c.Record(counts); err != nil {
			return nil, 0, fmt.Errorf("frontiertest: write the record of item %x: %w", c.Item, err)
		}
		records++
	}
	return all, records, nil
}

// settle makes one completion of l take effect.
func (m *Memory) settle(l *lease, c frontier.Completion, now time.Time) {
	e := m.entries[c.Item]
	l.completed[e] = true
	m.stats.Leased--
	m.stats.Bytes += uint64(c.BodyBytes)
	if c.Cause != "" {
		m.stats.Causes[c.Cause]++
	}
	l.host.counts.Completed(&c)
	if c.Disposition != frontier.GiveBack {
		l.host.last = now
	}
	switch c.Disposition {
	case frontier.Finish:
		e.state, e.outcome, e.status, e.ended = c.Outcome.State(), c.Outcome, c.Status, now
		m.stats.Outcomes[c.Outcome]++
		if e.item.Round > 0 {
			m.stats.Repeats++
		}
		if e.state == frontier.Done {
			m.stats.Done++
		} else {
			m.stats.Failed++
		}
		if c.Page {
			m.stats.Pages++
		}
	case frontier.Retry:
		if e.item.Attempts < 255 {
			e.item.Attempts++
		}
		m.stats.Retries++
		m.enqueue(e, now.Add(c.RetryIn))
	case frontier.GiveBack:
		m.enqueue(e, time.Time{})
	case frontier.Last, frontier.Hold:
		m.seq++
		e.seq, e.held = m.seq, c.Disposition == frontier.Hold && m.policy.Paused(e.item.Host, e.item.URL)
		m.enqueue(e, time.Time{})
	}
}
