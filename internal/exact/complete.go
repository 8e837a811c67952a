package exact

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// Complete implements frontier.Store. The set decides about the exact links first; while it is
// away they become notes of the outbox. It stores the end of an exact item after the item's
// record is safe and before the queue completes the item. While it is away, the end becomes a
// note too, unless the set has the records.
//
// If an answer was lost, a repeated call offers what the first one did. A lease belongs to the
// Store that asked for it: another Store returns ErrLeaseLost.
func (s *Store) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	h := s.leases.get(id)
	if h == nil && len(done) == 0 {
		return s.Queue.Complete(ctx, id, nil, update) // the answer to the request for the lease was lost
	} else if h == nil {
		return frontier.ErrLeaseLost
	}
	switch ended, over := h.state(s.cfg.Now()); {
	case ended: // a repeat with nothing left to do, or too late
		return s.Queue.Complete(ctx, id, done, update)
	case over: // keys that the set decided to be new would wait for the relay
		return frontier.ErrLeaseLost
	}
	c := &completing{Store: s, h: h, done: slices.Clone(done)}
	if err := c.decideLinks(ctx); err != nil {
		return err
	}
	if err := c.finish(ctx); err != nil {
		return err
	}
	defer c.leaveNothing()
	if err := s.Queue.Complete(ctx, id, c.done, update); err != nil {
		return err
	}
	crash.Point("completed")
	return c.settleAll(ctx, update.End)
}

// completing is one call of Complete.
type completing struct {
	*Store
	h     *holding
	done  []frontier.Completion // for the queue
	pages []*page
	ends  []*ending
}

// page is a completion with exact links.
type page struct {
	*frontier.Completion // its Links are those of offered
	offered              offers
	said                 *decisions
	refused              map[int]bool // by index in Links
}

// ending is a completion that finishes an exact item whose end the set does not have yet.
type ending struct {
	*frontier.Completion
	note  *note
	wrote bool // this call wrote its record
}

// decideLinks asks the set about the exact links of all pages at once, except pages about which
// it was asked before, and stores its decisions in the links.
func (c *completing) decideLinks(ctx context.Context) error {
	var undecided []offers
	for i := range c.done {
		if !hasExact(c.done[i].Links) || c.h.isSettled(c.done[i].Item) {
			continue
		}
		p := &page{Completion: &c.done[i], offered: c.exactOf(c.done[i].Links), refused: map[int]bool{}}
		p.Links = p.offered.links
		c.pages = append(c.pages, p)
		c.h.mu.Lock()
		p.said = c.h.item(p.Item).links
		c.h.mu.Unlock()
		if p.said == nil {
			undecided = append(undecided, p.offered)
		}
	}
	if len(c.pages) == 0 {
		return nil
	}
	if err := c.ask(ctx, undecided); err != nil {
		return err
	}
	now := c.cfg.Now()
	for _, p := range c.pages {
		p.said.apply(p.offered, now)
		p.watch()
	}
	return nil
}

// ask stores the decisions of the set in pages without decisions.
func (c *completing) ask(ctx context.Context, undecided []offers) error {
	if len(undecided) == 0 {
		return nil
	}
	keys := keysOf(undecided...)
	d, err := c.decide(ctx, keys)
	if errors.Is(err, frontier.ErrUnavailable) {
		for _, key := range keys {
			d.of[key.Fingerprint] = decided{decision: frontier.Later}
		}
	} else if err != nil {
		return err
	}
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	for _, p := range c.pages {
		if p.said == nil {
			p.said = &d
			c.h.item(p.Item).links = p.said
		}
	}
	return nil
}

// watch records which links the queue refuses.
func (p *page) watch() {
	tell := p.LinkRefused
	p.LinkRefused = func(link int, reason frontier.Reason) {
		p.refused[link] = true
		if tell != nil {
			tell(link, reason)
		}
	}
}

// finish arranges that the set stores the ends of exact items: when their records are synced,
// now if they have none, or later if the set is away.
func (c *completing) finish(ctx context.Context) error {
	var bare []*ending
	away := c.cfg.Set.Away()
	for i := range c.done {
		n := c.noteOf(&c.done[i])
		if n == nil {
			continue
		}
		e := &ending{Completion: &c.done[i], note: n}
		e.Unconfirmed = away && !c.cfg.Output.cfg.Rows
		if confirmed := c.cfg.Output.resume(n, e.Unconfirmed); confirmed {
			e.Unconfirmed = false
			continue
		}
		c.ends = append(c.ends, e)
		if e.Record != nil {
			c.watchRecord(e)
		} else if !e.Unconfirmed {
			bare = append(bare, e)
		}
	}
	return c.finishBare(ctx, bare)
}

// finishBare stores the ends of items without a record in the set.
func (c *completing) finishBare(ctx context.Context, bare []*ending) error {
	if len(bare) == 0 {
		return nil
	}
	notes := make([]*note, len(bare))
	for i, e := range bare {
		notes[i] = e.note
	}
	err := c.cfg.Output.finish(ctx, notes, nil)
	if errors.Is(err, frontier.ErrUnavailable) && !c.cfg.Output.cfg.Rows {
		for _, e := range bare {
			e.Unconfirmed = true
		}
		return nil
	}
	return err
}

// noteOf returns the note of an exact item that a completion finishes, or nil.
func (c *completing) noteOf(done *frontier.Completion) *note {
	if done.Disposition != frontier.Finish {
		return nil
	}
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	it := c.h.items[done.Item]
	if it == nil || it.class == frontier.Bulk {
		return nil
	}
	if it.end == nil {
		it.end = &note{finished: Finished{
			Ref: Ref{done.Item, it.round}, Class: it.class, Outcome: done.Outcome, Status: done.Status,
		}}
	}
	return it.end
}

// watchRecord makes the Sync after the record store the end in the set. A record whose end the
// set has stays: perhaps no other worker gets the item, and a second record of a round does no
// harm.
func (c *completing) watchRecord(e *ending) {
	record, void := e.Record, e.Void
	e.Record = func(links frontier.LinkCounts) error {
		if err := record(links); err != nil {
			return err
		}
		e.wrote = true
		c.cfg.Output.written(e.note, e.Unconfirmed)
		return nil
	}
	if void == nil {
		return
	}
	e.Void = func() error {
		if c.cfg.Output.confirmed(e.note) {
			return nil
		}
		return void()
	}
}

// leaveNothing removes from the next Sync what belongs to a completion that failed. A repeat adds
// it again.
func (c *completing) leaveNothing() {
	for _, e := range c.ends {
		c.cfg.Output.drop(e.note)
	}
}

// settleAll stores in the set what the queue answered to the links.
func (c *completing) settleAll(ctx context.Context, ended bool) error {
	heard := hearing{}
	for _, p := range c.pages {
		for i := range p.Links {
			heard.note(p.offered, i, !p.refused[i])
		}
	}
	if len(heard) > 0 {
		c.settle(ctx, heard)
	}
	c.h.settle(c.done, ended)
	for _, e := range c.ends {
		if e.wrote && !e.Unconfirmed && !c.cfg.Output.confirmed(e.note) {
			return fmt.Errorf("exact: %x was completed without a Sync of the Store's Output", e.Item[:4])
		}
	}
	return nil
}
