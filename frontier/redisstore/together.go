package redisstore

import (
	"context"

	"github.com/bloomfrontier/crawler/internal/groupcommit"
)

// maxGroupedCalls bounds the calls that go to a node in one pipeline.
const maxGroupedCalls = 256

// newCallQueue returns a queue that sends the calls of many callers to a node
// together, one pipeline after the other.
func (s *Store) newCallQueue(n *node) *groupcommit.Queue[*call] {
	return groupcommit.New(groupcommit.Config[*call]{
		MaxSize: maxGroupedCalls, Go: s.spawn,
		Commit: func(ctx context.Context, group []*call) { s.runGroup(ctx, n, group) },
	})
}

// runTogether runs a call like runAll, in one pipeline with the calls of other callers, and
// returns it. If ctx ends before the answer arrives, the call can still run, and the result is
// another call, which has only the error. The caller must use only the result.
func (s *Store) runTogether(ctx context.Context, c *call) *call {
	n, err := s.nodeOf(ctx, c.part)
	if err == nil {
		err = n.calls.Add(c, 1).Wait(ctx)
	}
	if err != nil {
		return &call{err: err}
	}
	return c
}

func (s *Store) runGroup(ctx context.Context, n *node, group []*call) {
	s.runOn(ctx, n, joinCalls(group))
	for _, c := range group {
		if c.joined != nil {
			c.reply, c.ran, c.err = c.joined.reply, c.joined.ran, c.joined.err
		}
	}
}

// joinCalls returns the calls to send for a group, in order. It joins calls that complete items of
// the same lease, because a joined call costs the server little more than a single one.
func joinCalls(group []*call) []*call {
	calls := make([]*call, 0, len(group))
	last := make(map[*heldLease]*call)
	for _, c := range group {
		if into := last[c.lease]; into != nil && joinCompletions(into, c) {
			c.joined = into
			continue
		}
		if c.lease != nil {
			last[c.lease] = c
		}
		calls = append(calls, c)
	}
	return calls
}
