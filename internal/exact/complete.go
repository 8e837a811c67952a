package exact

import (
	"context"
	"maps"
	"slices"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// Complete implements frontier.Store. First the set decides about the exact links. Then the queue
// completes the items. Before an exact item is completed, Output.Sync stores its end in the set.
// While the set is away, Complete returns frontier.ErrUnavailable if an item is exact or has exact
// links. The caller keeps the completions, and repeats the call.
//
// If the answer of a call was lost, a repeated call offers the same links with the same
// decisions. There is one exception: a key that was new in the first call, and is not pending
// any more, now counts as known (see recheck). A lease belongs to the Store that asked for it:
// another Store returns ErrLeaseLost.
func (s *Store) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	h := s.leases.get(id)
	if h == nil && len(done) == 0 {
		return s.Queue.Complete(ctx, id, nil, update) // the answer to the request for the lease was lost
	} else if h == nil {
		return frontier.ErrLeaseLost
	}
	switch ended, over := h.status(s.cfg.Now()); {
	case ended: // a repeated call, or a call after the lease has ended: the queue answers it
		return s.Queue.Complete(ctx, id, done, update)
	case over: // the queue might refuse the links, and their new keys would then wait in the set for a forwarder
		return frontier.ErrLeaseLost
	}
	c := &completing{Store: s, h: h, done: slices.Clone(done)}
	if c.prepare() {
		if err := s.cfg.Set.Ready(ctx); err != nil { // otherwise the records of other items would wait too
			return err
		}
	}
	if err := c.decideLinks(ctx); err != nil {
		return err
	}
	if err := s.Queue.Complete(ctx, id, c.done, update); err != nil {
		return err
	}
	crash.Point("completed")
	c.settleAll(ctx, update.End)
	return nil
}

// completing is one call of Complete.
type completing struct {
	*Store
	h     *lease
	done  []frontier.Completion // for the queue
	pages []*page
}

// page is a completion with exact links.
type page struct {
	*frontier.Completion // its Links are the links in the field offered
	offered              offers
	decisions            *decisions
	refused              map[int]bool // by index in Links
}

// prepare finds the pages with exact links. It reports whether the set must be asked about them, or told
// the end of an item.
func (c *completing) prepare() (needed bool) {
	for i := range c.done {
		done := &c.done[i]
		class, settled := c.h.state(done.Item)
		if settled {
			continue
		}
		needed = needed || class != frontier.Bulk && done.Disposition == frontier.Finish
		if hasExact(done.Links) {
			p := &page{Completion: done, offered: c.exactOf(done.Links), refused: map[int]bool{}}
			p.Links = p.offered.links
			c.pages = append(c.pages, p)
		}
	}
	return needed || len(c.pages) > 0
}

// decideLinks asks the set about the exact links of all pages in one call, and stores the
// decisions in the links. If the set has already decided about the links of a page,
// decideLinks uses the earlier decisions.
func (c *completing) decideLinks(ctx context.Context) error {
	if len(c.pages) == 0 {
		return nil
	}
	var undecided []offers
	for _, p := range c.pages {
		c.h.mu.Lock()
		p.decisions = c.h.item(p.Item).links
		c.h.mu.Unlock()
		if p.decisions == nil {
			undecided = append(undecided, p.offered)
			continue
		}
		if err := c.recheck(ctx, p); err != nil {
			return err
		}
	}
	if err := c.ask(ctx, undecided); err != nil {
		return err
	}
	now := c.cfg.Now()
	for _, p := range c.pages {
		p.decisions.apply(p.offered, now)
		p.watchRefused()
	}
	return nil
}

// recheck is for the links of a repeated completion. The failed call may have queued new keys,
// and other workers may have finished them. So a new key counts as known now, unless it is still
// pending.
func (c *completing) recheck(ctx context.Context, p *page) error {
	now := decisions{of: maps.Clone(p.decisions.of), at: p.decisions.at}
	for i, print := range p.offered.prints {
		if !isExact(&p.Links[i]) || !isNew(now.of[print].decision) {
			continue
		}
		key, err := c.cfg.Set.Lookup(ctx, print)
		if err != nil {
			return err
		}
		if key.State != Pending || key.Round != now.of[print].round {
			now.of[print] = decided{decision: frontier.Known}
		}
	}
	p.decisions = &now
	return nil
}

// ask asks the set about the links in the argument undecided, and stores the decisions in
// the pages that have none.
func (c *completing) ask(ctx context.Context, undecided []offers) error {
	if len(undecided) == 0 {
		return nil
	}
	d, err := c.decide(ctx, keysOf(undecided...))
	if err != nil {
		return err
	}
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	for _, p := range c.pages {
		if p.decisions == nil {
			p.decisions = &d
			c.h.item(p.Item).links = p.decisions
		}
	}
	return nil
}

// watchRefused stores in p.refused which links the queue refuses.
func (p *page) watchRefused() {
	next := p.LinkRefused
	p.LinkRefused = func(link int, reason frontier.Reason) {
		p.refused[link] = true
		if next != nil {
			next(link, reason)
		}
	}
}

// settleAll stores the queue's answers to the links in the set.
func (c *completing) settleAll(ctx context.Context, ended bool) {
	answers := queueAnswers{}
	for _, p := range c.pages {
		for i := range p.Links {
			answers.setWaits(p.offered, i, !p.refused[i])
		}
	}
	c.settle(ctx, answers)
	c.h.settle(c.done, ended)
}
