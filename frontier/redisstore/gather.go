package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/groupcommit"
	"github.com/bloomfrontier/crawler/internal/redisbits"
)

const (
	// maxGroups is how many groups of one node can be in progress at once. So the client
	// works on one group while the server works on another.
	maxGroups    = 2
	maxGroupAsks = 4096 // of one group; it is not divided for the rest of a page
	// maxAskBytes is the length of a URL up to which it counts as one ask in a group. A longer
	// URL counts as several, so that the URLs of a group have at most 3 MiB.
	maxAskBytes = 512
)

// offering is the part of one caller's offers that belongs to one node.
type offering struct {
	asks     []ask
	group    *groupcommit.Group[*offering]
	left     int           // asks without an answer; used by the group only
	answered chan struct{} // closed when left is 0, which can be before the group has ended
}

// newOffering returns an offering with room for n asks.
func newOffering(n int) *offering {
	return &offering{asks: make([]ask, 0, n), answered: make(chan struct{})}
}

// wait waits until every ask is answered, and returns the first of their errors. If ctx ends
// first, the group continues without the caller.
func (o *offering) wait(ctx context.Context) error {
	select {
	case <-o.answered:
	case <-o.group.Done(): // also if it was not committed
		if err := o.group.Wait(ctx); err != nil {
			return err
		}
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

// newOfferQueue returns a queue that groups the offers of several callers to a node. A
// group is less work for the server than a request for each offer.
func (s *Store) newOfferQueue(n *node) *groupcommit.Queue[*offering] {
	groups := sync.Pool{New: func() any {
		return &group{s: s, node: n, reader: redisbits.NewReader(n.client)}
	}}
	return groupcommit.New(groupcommit.Config[*offering]{
		MaxSize: maxGroupAsks, Parallel: maxGroups, Go: s.spawn,
		Commit: func(ctx context.Context, offerings []*offering) {
			g := groups.Get().(*group)
			g.generation = s.seen.generation() // read before any server is asked
			g.decide(ctx, offerings)
			groups.Put(g)
		},
	})
}

// group is a set of asks that are decided together on one node. Its buffers are reused.
type group struct {
	s          *Store
	node       *node
	generation uint64 // of the cache of seen URLs

	reader *redisbits.Reader
	open   []*ask             // not decided yet, in the order offered
	tests  []redisbits.Ask    // of the asks in open, index for index
	known  *exceptions        // at the last call of round
	unsure []*ask             // asks that the filter alone cannot answer
	later  []*ask             // asks that the next call of round must repeat
	blocks map[blockKey]block // blocks that the scripts of this call of round change
	edits  []edit             // memory of ask.edit for the asks in unsure
	bytes  []byte             // memory of blocks and edits
}

// maxAsked bounds how many times an ask is sent. An ask is repeated, for example, if the filter
// grew, or if the same URL was offered several times.
const maxAsked = 16

// decide answers all asks of offerings in the order in which they were offered. Each gets a
// verdict or an error. One caller can have more asks than a group should have. Then they are decided in
// parts of nearly the same size, because each part costs a read of the filter and a round of scripts.
func (g *group) decide(ctx context.Context, offerings []*offering) {
	size := 0
	for _, o := range offerings {
		o.left = len(o.asks)
		size += o.size()
	}
	most := partSize(size)
	size = 0
	for _, o := range offerings {
		for i := range o.asks {
			a := &o.asks[i]
			a.of = o
			g.open = append(g.open, a)
			if size += a.size(); size >= most {
				g.decideOpen(ctx)
				size = 0
			}
		}
	}
	g.decideOpen(ctx)
}

// partSize returns the size of the parts of a group, at most one and a half times maxGroupAsks.
func partSize(size int) int {
	parts := max(1, (size+maxGroupAsks/2)/maxGroupAsks)
	return max(1, (size+parts-1)/parts)
}

// size returns how many asks this one counts as.
func (a *ask) size() int { return 1 + len(a.item.URL)/maxAskBytes }

// size returns the sum of the sizes of all asks.
func (o *offering) size() (size int) {
	for i := range o.asks {
		size += o.asks[i].size()
	}
	return size
}

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
		g.fail(a, err)
	}
	g.open = g.open[:0]
}

// fail answers an ask, and the later asks of the same URL, with an error, unless they are answered.
func (g *group) fail(a *ask, err error) {
	for ; a != nil; a = a.next {
		if !a.done {
			a.err = err
			g.answered(a)
		}
	}
}

// answered notes that an ask has a verdict or an error. If it is the last one of its offering, the caller goes on.
func (g *group) answered(a *ask) {
	a.done = true
	o := a.of
	if o.left--; o.left == 0 {
		g.s.remember(g.node, o, g.generation)
		close(o.answered)
	}
}

// round tests the open asks with the filter, and runs the script on those that the filter
// does not decide. It leaves in g.open those that must be asked again.
func (g *group) round(ctx context.Context) error {
	ep, err := g.s.epochOf(ctx, g.node)
	if err != nil {
		return err
	}
	if g.s.number > 0 && slices.ContainsFunc(g.open, func(a *ask) bool { return !g.s.ledger.checkedIn(a.part, ep) }) {
		if err := g.s.checkLosses(ctx, g.node, ep); err != nil {
			return err
		}
	}
	g.tests = g.tests[:0]
	for _, a := range g.open {
		g.tests = append(g.tests, redisbits.Ask{Chain: a.part.chain(), Print: a.print})
	}
	if err := g.reader.Read(ctx, g.tests); err != nil {
		return g.unread(ctx, err)
	}
	if err := g.findReadmitted(ctx); err != nil {
		return err
	}
	g.unsure, g.later = g.unsure[:0], g.later[:0]
	full := g.s.queueFull()
	for i, a := range g.open {
		switch test := &g.tests[i]; {
		case !a.let && a.line.chunk == "" && (test.Known && !a.exact && !a.sampled || a.decision == exact.Known):
			g.settle(a, frontier.Verdict{Answer: frontier.Seen}, ep)
		case full && a.link && !a.exact && !test.Known:
			g.settle(a, frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonQueueFull}, ep)
		default:
			a.full = full && a.link && (a.decision != exact.Undecided || a.let)
			a.test = test
			g.unsure = append(g.unsure, a)
		}
	}
	g.add(ctx, ep)
	g.open = append(g.open[:0], g.later...)
	return nil
}

// unread handles a failed read of the filter. It returns the error to report, or nil if the
// asks must be repeated.
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

// settle answers an ask, and the later asks of the same URL.
func (g *group) settle(a *ask, v frontier.Verdict, ep *epoch) {
	exact, follows := a.exact, false
	for a != nil {
		follower := a.next
		a.next = nil
		switch {
		case follows && a.line.chunk != "": // its verdict must be stored
			g.later = append(g.later, a)
		case v.Answer == frontier.Seen && !exact && a.exact: // the answer to a bulk item does not hold for an exact item
			g.later = append(g.later, a)
		case v.Answer == frontier.Refused && a.exempt(v.Reason):
			g.later = append(g.later, a)
		case !a.done:
			a.verdict, a.epoch = v, ep
			g.answered(a)
		}
		if v.Answer == frontier.Added {
			v = frontier.Verdict{Answer: frontier.Seen}
			exact = exact || g.s.cfg.Exact == nil // without an exact set, an exact item must not be queued in addition to a bulk item of the same URL
		}
		a, follows = follower, true
	}
}

// exempt reports whether a is exempt from the limit that has the given reason. Of several asks of
// one URL, some can be exempt and others not.
func (a *ask) exempt(reason frontier.Reason) bool {
	return a.owed || reason == frontier.ReasonQueueFull && !a.link
}

// remember adds seen fingerprints to the cache, except those of partitions that moved to
// another node meanwhile.
func (s *Store) remember(n *node, o *offering, generation uint64) {
	single := s.nodes.single != nil
	for i := range o.asks {
		a := &o.asks[i]
		known := a.err == nil && a.verdict.Answer != frontier.Refused && (single || a.part.node.Load() == n)
		if known && !a.exact && !a.sampled {
			s.seen.add(a.print, generation)
		}
	}
}
