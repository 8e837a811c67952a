package redisstore

import (
	"context"
	"slices"
	"sync"

	"github.com/bloomfrontier/crawler/frontier"
)

// courier carries calls of many callers to one node together: while some are on
// their way the next gather. No time is spent on waiting for more. Completions of
// one lease become one call, which costs the server hardly more than each of them.
type courier struct {
	mu      sync.Mutex
	waiting []*parcel
	trips   int // under way
}

const (
	maxTrips   = 1   // to one node at once
	maxParcels = 256 // beyond so many a call waits for the next trip
)

// parcel is a call of one caller, to go with those of others.
type parcel struct {
	call
	lease *holding // that it completes items of; nil: none
	in    *parcel  // whose call has this one's completions too; nil: it goes by itself
	done  chan struct{}
}

// runTogether runs a call as runAll does, in one pipeline with those of other
// callers. When ctx ends before the answer comes, it may run all the same. A call
// of complete.lua names its lease, and its arguments are given away.
func (s *Store) runTogether(ctx context.Context, c *call, lease *holding) {
	n, err := s.nodeOf(ctx, c.part)
	if err != nil {
		c.err = err
		return
	}
	p := &parcel{call: *c, lease: lease, done: make(chan struct{})}
	s.post(n, p)
	select {
	case <-p.done:
		*c = p.call
	case <-ctx.Done():
		c.err = context.Cause(ctx)
	}
}

// post hands a parcel to the node's courier.
func (s *Store) post(n *node, p *parcel) {
	o := &n.courier
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting = append(o.waiting, p); o.trips == maxTrips {
		return
	}
	if s.spawn(func(ctx context.Context) { s.carry(ctx, n) }) {
		o.trips++
		return
	}
	for _, p := range o.waiting { // the store is closed
		p.err = frontier.ErrClosed
		close(p.done)
	}
	o.waiting = nil
}

// carry makes trips until nothing waits.
func (s *Store) carry(ctx context.Context, n *node) {
	o := &n.courier
	var load []*parcel
	for {
		o.mu.Lock()
		load = append(load[:0], o.waiting[:min(len(o.waiting), maxParcels)]...)
		o.waiting = slices.Delete(o.waiting, 0, len(load))
		if len(load) == 0 {
			o.trips--
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		s.runOn(ctx, n, pack(load))
		for _, p := range load {
			if p.in != nil {
				p.reply, p.ran, p.err = p.in.reply, p.in.ran, p.in.err
			}
		}
		for _, p := range load {
			close(p.done)
		}
	}
}

// pack returns the calls that a load comes to, in its order.
func pack(load []*parcel) []*call {
	calls := make([]*call, 0, len(load))
	last := make(map[*holding]*parcel)
	for _, p := range load {
		if into := last[p.lease]; into != nil && joinCompletions(&into.call, &p.call) {
			p.in = into
			continue
		}
		if p.lease != nil {
			last[p.lease] = p
		}
		calls = append(calls, &p.call)
	}
	return calls
}
