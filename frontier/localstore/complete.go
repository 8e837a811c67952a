package localstore

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/stage"
)

// Complete implements frontier.Store. It changes the links, the completions, the records
// and the host in one step. If the lease is lost, no links are added either.
func (s *Store) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	if len(update.Blob) > frontier.MaxBlob {
		return fmt.Errorf("localstore: host blob has %d bytes, want at most %d", len(update.Blob), frontier.MaxBlob)
	}
	for i := range done {
		if err := s.checkCompletion(&done[i]); err != nil {
			return err
		}
	}
	links, bytes := make([][]offer, len(done)), int64(0)
	for i := range done {
		links[i] = s.offers(done[i].Links)
		bytes += max(done[i].Bytes, urlBytes(done[i].Links))
	}
	return s.submit(ctx, &op{bytes: bytes, change: func(g *group) error { return g.complete(id, done, links, update) }})
}

func (s *Store) checkCompletion(c *frontier.Completion) error {
	switch {
	case c.Disposition > frontier.Hold:
		return fmt.Errorf("localstore: completion of %x has disposition %d", c.Item[:4], c.Disposition)
	case c.Disposition == frontier.Finish && c.Outcome.State() == frontier.Unknown:
		return fmt.Errorf("localstore: completion of %x has outcome %q", c.Item[:4], c.Outcome)
	case c.Record != nil && s.output == nil:
		return fmt.Errorf("localstore: completion of %x has a record, but the store has no output", c.Item[:4])
	}
	return nil
}

func (g *group) complete(id frontier.LeaseID, done []frontier.Completion, links [][]offer, update frontier.HostUpdate) error {
	l := g.leases[id]
	if l == nil {
		return g.completeEnded(id, done)
	}
	for i := range done {
		if _, settled := l.settled[done[i].Item]; !settled && l.find(done[i].Item) < 0 {
			return fmt.Errorf("localstore: completion of %x, which the lease of %q does not hold: %w",
				done[i].Item[:4], l.host.key, frontier.ErrLeaseLost)
		}
	}
	aside := len(l.aside)
	for i := range done {
		if at := l.find(done[i].Item); at >= 0 { // otherwise it is a repeat
			if err := g.settle(l, at, &done[i], links[i]); err != nil {
				return err
			}
		}
	}
	if len(l.aside) > aside {
		g.writeLease(l)
	}
	h := l.host
	if !update.Keep {
		h.due, h.delay = g.now+micros(update.Due), micros(update.Delay)
	}
	if update.Blob != nil {
		g.set(blobKey(h.key), update.Blob)
	}
	g.touch(h)
	if update.End {
		g.endLease(l)
		g.ended.add(id, l.settled)
	}
	return nil
}

// completeEnded handles a call for a lease that has ended. If all items in done were
// completed before the end of the lease, the call is a repeat, and completeEnded returns
// nil. Otherwise it returns ErrLeaseLost.
func (g *group) completeEnded(id frontier.LeaseID, done []frontier.Completion) error {
	settled := g.ended.byID[id]
	if settled == nil {
		return frontier.ErrLeaseLost
	}
	for i := range done {
		if _, repeat := settled[done[i].Item]; !repeat {
			return frontier.ErrLeaseLost
		}
	}
	return nil
}

// settle completes the item l.held[index]. Its errors are fatal.
func (g *group) settle(l *lease, index int, c *frontier.Completion, links []offer) error {
	c, err := c.ShowedFirst(func(content frontier.Content) (frontier.Referrer, error) { return g.showedFirst(content, c.Item) })
	if err != nil {
		return err
	}
	counts, err := g.follow(c, links[:len(c.Links)])
	if err != nil {
		return err
	}
	item, at := l.held[index].item, l.held[index].at
	l.held = slices.Delete(l.held, index, index+1)
	l.settled[c.Item] = struct{}{}
	g.move(l.host, 0, -1)
	if c.Cause != "" {
		if g.meta.Stats.Causes == nil {
			g.meta.Stats.Causes = make(map[string]uint64)
		}
		g.meta.Stats.Causes[c.Cause]++
	}
	if c.Disposition != frontier.GiveBack {
		l.host.counts.Completed(c)
		l.host.last = g.now
		g.meta.Stats.Bytes += uint64(max(c.BodyBytes, 0))
	}
	if c.Disposition == frontier.GiveBack {
		l.aside = append(l.aside, at)
		g.move(l.host, 1, 0)
		return nil
	}
	g.scratch = appendQueueKey(g.scratch[:0], l.host.key, at)
	g.remove(g.scratch)
	if c.Disposition == frontier.Finish {
		return g.conclude(l.host, &item, c, counts)
	}
	if c.Disposition == frontier.Last || c.Disposition == frontier.Hold {
		g.move(l.host, 1, 0)
		if c.Disposition == frontier.Hold && g.cfg.Policy().Paused(item.Host, item.URL) {
			g.delayUntil(l.host, &item, parked)
		} else {
			g.enqueue(l.host, &item)
		}
		return nil
	}
	item.Attempts = min(item.Attempts, math.MaxUint8-1) + 1
	g.move(l.host, 1, 0)
	g.meta.Stats.Retries++
	if c.RetryIn > 0 {
		g.delay(l.host, &item, micros(c.RetryIn))
	} else {
		g.enqueue(l.host, &item)
	}
	return nil
}

// showedFirst returns the first item that showed a content. If none did, that is this item.
func (g *group) showedFirst(content frontier.Content, item bloomstore.Fingerprint) (first frontier.Referrer, err error) {
	if first, known := g.showed[content]; known {
		return first, nil
	}
	row, err := g.get(contentKey(content))
	if err != nil {
		return first, err
	}
	if row == nil {
		first = frontier.ReferrerOf(item)
		g.showed[content] = first
		g.set(contentKey(content), first[:])
	} else if copy(first[:], row) < len(first) {
		return first, fatal("read a content", errRow)
	}
	return first, nil
}

// follow adds the links of a completion and counts them.
func (g *group) follow(c *frontier.Completion, links []offer) (counts frontier.LinkCounts, err error) {
	stage.Dedup.Begin()
	defer stage.Store.Begin()
	for i := range links {
		v, err := g.add(&links[i])
		if err != nil {
			return counts, err
		}
		counts.Count(v.Answer, 1)
		if v.Answer != frontier.Seen && c.LinkAnswered != nil {
			c.LinkAnswered(i, v)
		}
	}
	for _, r := range c.Refused {
		g.countRefused(r.Reason, r.Count)
		counts.Count(frontier.Refused, r.Count)
		g.meta.Stats.Found += r.Count
	}
	return counts, nil
}

func (g *group) conclude(h *host, item *frontier.Item, c *frontier.Completion, counts frontier.LinkCounts) error {
	stats := &g.meta.Stats
	if c.Record != nil {
		g.guard.write("write", "the record of "+item.URL, func() error { return c.Record(counts) })
		g.records = true
		stats.Records++
	}
	if stats.Outcomes == nil {
		stats.Outcomes = make(map[frontier.Outcome]uint64)
	}
	stats.Outcomes[c.Outcome]++
	if item.Round > 0 {
		stats.Repeats++
	}
	if c.Page {
		stats.Pages++
		if item.Round > 0 {
			stats.PagesAgain++
		}
	}
	row := outcome{outcome: c.Outcome, status: c.Status, round: item.Round}
	if g.meta.Window.Carried < g.meta.Window.Newest {
		g.carryKey(item.Fingerprint)
	}
	if item.Class != frontier.Bulk || g.window != nil {
		row.finished = g.now
	}
	if c.Outcome.State() == frontier.Failed {
		row.seq = g.nextSeq()
		g.scratch = appendEntry(appendFailure(g.scratch[:0], c.Outcome, g.now), item)
		g.set(failedKey(h.key, row.seq), g.scratch)
		stats.Failed++
		h.counts.Failed++
	} else {
		stats.Done++
	}
	if expires := g.expiry(item.Class, &row); expires < never {
		g.set(expiryKey(expires, item.Fingerprint), nil)
		g.nextSweep = min(g.nextSweep, expires)
	}
	g.scratch = appendOutcome(g.scratch[:0], row)
	g.set(outcomeKey(item.Fingerprint), g.scratch)
	return nil
}
