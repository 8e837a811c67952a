package redisstore

import (
	"context"

	"github.com/bloomfrontier/crawler/internal/groupcommit"
)

// maxGroupedCalls bounds the calls that go to a node in one pipeline.
const maxGroupedCalls = 256

// groupedCall is a call of one caller that goes to a node together with others.
type groupedCall struct {
	call
	lease  *holding     // the lease whose items it completes; nil if it completes none
	joined *groupedCall // the call to which the completions of this call were added, or nil
}

// newCallQueue returns a queue that sends the calls of many callers to a node
// together, one pipeline after the other.
func (s *Store) newCallQueue(n *node) *groupcommit.Queue[*groupedCall] {
	return groupcommit.New(groupcommit.Config[*groupedCall]{
		MaxSize: maxGroupedCalls, Go: s.spawn,
		Commit: func(ctx context.Context, group []*groupedCall) { s.runGroup(ctx, n, group) },
	})
}

// runTogether runs a call like runAll, in one pipeline with the calls of other callers. If ctx ends
// before the answer arrives, the call can still run. The argument lease is the lease of a call of
// complete.lua, and nil for other scripts. The caller must not use the call's arguments afterwards.
func (s *Store) runTogether(ctx context.Context, c *call, lease *holding) {
	n, err := s.nodeOf(ctx, c.part)
	if err != nil {
		c.err = err
		return
	}
	grouped := &groupedCall{call: *c, lease: lease}
	if err := n.calls.Add(grouped, 1).Wait(ctx); err != nil {
		c.err = err
		return
	}
	*c = grouped.call
}

func (s *Store) runGroup(ctx context.Context, n *node, group []*groupedCall) {
	s.runOn(ctx, n, joinCalls(group))
	for _, c := range group {
		if c.joined != nil {
			c.reply, c.ran, c.err = c.joined.reply, c.joined.ran, c.joined.err
		}
	}
}

// joinCalls returns the calls to send for a group, in order. It joins calls that complete items of
// the same lease, because a joined call costs the server little more than a single one.
func joinCalls(group []*groupedCall) []*call {
	calls := make([]*call, 0, len(group))
	last := make(map[*holding]*groupedCall)
	for _, c := range group {
		if into := last[c.lease]; into != nil && joinCompletions(&into.call, &c.call) {
			c.joined = into
			continue
		}
		if c.lease != nil {
			last[c.lease] = c
		}
		calls = append(calls, &c.call)
	}
	return calls
}
