package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/redisbits"
)

// gatherer collects what callers offer to one node: while one group is on its
// way the next gathers. No time is spent on waiting for more.
type gatherer struct {
	mu      sync.Mutex
	waiting []*offering
	asks    int      // of those
	groups  int      // on their way
	free    []*group // whose buffers are not in use
}

const (
	// maxGroups is how many groups of one node may be on their way at once: the
	// work of one is done here beside that of the other there. The second must
	// be full: what is asked together costs the server less.
	maxGroups    = 2
	maxGroupAsks = 4096 // beyond so many an offering waits for the next group
)

// offering is what one caller asks one node.
type offering struct {
	asks []ask
	done chan struct{}
}

// wait returns when every ask is answered, with the first error of any. A caller
// that leaves earlier leaves the asks to their group.
func (o *offering) wait(ctx context.Context) error {
	select {
	case <-o.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for i := range o.asks {
		if err := o.asks[i].err; err != nil {
			return err
		}
	}
	return nil
}

// submit hands an offering to the node's gatherer.
func (s *Store) submit(n *node, o *offering) {
	o.done = make(chan struct{})
	g := &n.gatherer
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, o)
	g.asks += len(o.asks)
	if g.groups == maxGroups || g.groups > 0 && g.asks < maxGroupAsks {
		return
	}
	started := s.spawn(func(ctx context.Context) { s.gather(ctx, n) })
	if started {
		g.groups++
		return
	}
	for _, o := range g.waiting { // the store is closed
		o.fail(frontier.ErrClosed)
	}
	g.waiting, g.asks = nil, 0
}

func (o *offering) fail(err error) {
	for i := range o.asks {
		o.asks[i].err = err
	}
	close(o.done)
}

// gather decides groups until nothing waits.
func (s *Store) gather(ctx context.Context, n *node) {
	g := &n.gatherer
	var grp *group
	for {
		g.mu.Lock()
		if len(g.waiting) == 0 {
			if grp != nil {
				grp.forget()
				g.free = append(g.free, grp)
			}
			g.groups--
			g.mu.Unlock()
			return
		}
		if grp == nil {
			grp = g.freeGroup(s, n)
		}
		g.fill(grp)
		g.mu.Unlock()
		generation := s.seen.generation() // before anything is asked
		grp.decide(ctx)
		grp.finish(generation)
	}
}

// freeGroup returns a group that is not in use.
func (g *gatherer) freeGroup(s *Store, n *node) *group {
	last := len(g.free) - 1
	if last < 0 {
		return &group{s: s, node: n, reader: redisbits.NewReader(n.client)}
	}
	grp := g.free[last]
	g.free = g.free[:last]
	return grp
}

// fill hands what waits to a group, up to about maxGroupAsks.
func (g *gatherer) fill(grp *group) {
	size, count := 0, 0
	for count < len(g.waiting) && size < maxGroupAsks {
		size += len(g.waiting[count].asks)
		count++
	}
	grp.offerings = append(grp.offerings[:0], g.waiting[:count]...)
	g.asks -= size
	g.waiting = slices.Delete(g.waiting, 0, count)
}

// group is what is decided together on one node. Its buffers are used again.
type group struct {
	s         *Store
	node      *node
	offerings []*offering

	reader *redisbits.Reader
	open   []*ask          // not decided yet, in the order offered
	tests  []redisbits.Ask // of open, index for index
	unsure []pending       // what the filter cannot answer alone
	later  []*ask          // to be asked again

	blocks map[place]block // as the calls of a round leave them
	bytes  []byte          // of these
}

// forget keeps nothing of what callers offered.
func (g *group) forget() {
	clear(g.offerings[:cap(g.offerings)])
	clear(g.open[:cap(g.open)])
	clear(g.tests[:cap(g.tests)])
	clear(g.unsure[:cap(g.unsure)])
	clear(g.later[:cap(g.later)])
	g.blocks = nil
}

// maxAsked bounds how often an ask is asked again because the filter grew, or
// the same URL came several times.
const maxAsked = 16

// decide answers all asks of the group, each by a verdict or an error, in the
// order in which they were offered.
func (g *group) decide(ctx context.Context) {
	for _, o := range g.offerings {
		for i := range o.asks {
			if g.open = append(g.open, &o.asks[i]); len(g.open) == maxGroupAsks { // one caller's are more
				g.decideOpen(ctx)
			}
		}
	}
	g.decideOpen(ctx)
}

// decideOpen answers the asks that are open, and leaves none.
func (g *group) decideOpen(ctx context.Context) {
	for range maxAsked {
		if len(g.open) == 0 {
			return
		}
		if err := g.round(ctx); err != nil {
			g.failOpen(err)
			return
		}
	}
	g.failOpen(fmt.Errorf("%w: the filter changes faster than it can be asked", frontier.ErrUnavailable))
}

func (g *group) failOpen(err error) {
	for _, a := range g.open {
		a.fail(err)
	}
	g.open = g.open[:0]
}

func (a *ask) fail(err error) {
	for ; a != nil; a = a.next {
		a.err = err
	}
}

// round tests the open asks and adds those that are not surely seen. It leaves
// in open what has to be asked again.
func (g *group) round(ctx context.Context) error {
	ep, err := g.s.epochOf(ctx, g.node)
	if err != nil {
		return err
	}
	g.tests = g.tests[:0]
	for _, a := range g.open {
		g.tests = append(g.tests, redisbits.Ask{Chain: a.part.chain(), Print: a.print})
	}
	if err := g.reader.Read(ctx, g.tests); err != nil {
		return g.unread(ctx, err)
	}
	g.unsure, g.later = g.unsure[:0], g.later[:0]
	full := g.s.queueFull()
	for i, a := range g.open {
		switch test := &g.tests[i]; {
		case test.Known && !a.exact && !a.sampled:
			g.settle(a, frontier.Verdict{Answer: frontier.Seen}, ep)
		case full && a.link && !a.exact && !test.Known:
			g.settle(a, frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonQueueFull}, ep)
		default:
			a.full = full && a.link && a.item.Decision != frontier.Undecided
			g.unsure = append(g.unsure, pending{ask: a, test: test})
		}
	}
	g.add(ctx, ep)
	g.open = append(g.open[:0], g.later...)
	return nil
}

// unread returns what is to be done about an error of reading the filter: nil
// to ask again.
func (g *group) unread(ctx context.Context, err error) error {
	seen := make(map[*partition]bool)
	for _, a := range g.open {
		p := a.part
		if seen[p] {
			continue
		}
		seen[p] = true
		if !errors.Is(err, frontier.ErrFilterLost) {
			g.s.misplaced(ctx, p, err)
		} else if err := g.s.refresh(ctx, p); err != nil {
			return err
		}
	}
	if errors.Is(err, frontier.ErrFilterLost) {
		return nil
	}
	return g.s.classify(ctx, err)
}

// settle answers an ask and those of the same URL that came after it.
func (g *group) settle(a *ask, v frontier.Verdict, ep *epoch) {
	exact := a.exact
	for a != nil {
		follower := a.next
		a.next = nil
		if v.Answer == frontier.Seen && !exact && a.exact { // the filter's word is not enough for it
			g.later = append(g.later, a)
		} else {
			a.verdict, a.under = v, ep
		}
		if v.Answer == frontier.Added {
			v = frontier.Verdict{Answer: frontier.Seen}
			exact = exact || !g.s.cfg.ExactSet // else an exact item is queued beside a bulk one
		}
		a = follower
	}
}

// finish puts what the store knows into the seen cache, and lets the callers go.
// What a node says of a partition that moved away meanwhile is not relied on.
func (g *group) finish(generation uint64) {
	single := g.s.nodes.single != nil
	for _, o := range g.offerings {
		for i := range o.asks {
			a := &o.asks[i]
			known := a.err == nil && a.verdict.Answer != frontier.Refused && (single || a.part.node.Load() == g.node)
			if known && !a.exact && !a.sampled {
				g.s.seen.add(a.print, generation)
			}
		}
		close(o.done)
	}
}
