package redisstore

import (
	"context"

	"github.com/bloomfrontier/crawler/internal/groupcommit"
)

// maxGroupedCalls is how many calls of callers go to a node in one pipeline.
const maxGroupedCalls = 256

// groupedCall is a call of one caller that goes to a node with those of others.
type groupedCall struct {
	call
	lease  *holding     // whose items it completes; nil if it completes none
	joined *groupedCall // whose call has this one's completions too; nil if it goes by itself
}

// newCallQueue returns a queue that sends the calls of many callers to a node
// together, one pipeline after the other.
func (s *Store) newCallQueue(n *node) *groupcommit.Queue[*groupedCall] {
	return groupcommit.New(groupcommit.Config[*groupedCall]{
		MaxSize: maxGroupedCalls, Go: s.spawn,
		Commit: func(ctx context.Context, group []*groupedCall) { s.runGroup(ctx, n, group) },
	})
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
	grouped := &groupedCall{call: *c, lease: lease}
	if err := n.calls.Add(grouped, 1).Wait(ctx); err != nil {
		c.err = err
		return
	}
	*c = grouped.call
}

// runGroup runs the calls of a group on a node.
func (s *Store) runGroup(ctx context.Context, n *node, group []*groupedCall) {
	s.runOn(ctx, n, joinCalls(group))
	for _, c := range group {
		if c.joined != nil {
			c.reply, c.ran, c.err = c.joined.reply, c.joined.ran, c.joined.err
		}
	}
}

// joinCalls returns the calls that a group comes to, in its order. Completions of
// one lease become one call, which costs the server hardly more than each of them.
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
