package redisstore

import (
	"context"
	"math"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// maxTopUp bounds the items that one call of Extend adds.
const maxTopUp = 1024

// Extend implements frontier.Store. It adds at most maxTopUp items. Of the items that an
// earlier call counted in topUp.Known, Extend can return only the last maxRecent again.
func (s *Store) Extend(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
	h := s.held.get(id)
	if h == nil || !h.current(s.now()) {
		return frontier.Extension{}, frontier.ErrLeaseLost
	}
	held := h.open()
	open := min(topUp.Items, held+maxTopUp)
	most, until := math.MaxInt32, time.Time{}
	if open > held {
		paused, err := s.paused(ctx)
		if err != nil {
			return frontier.Extension{}, err
		}
		if err := s.lookAgain(ctx, h.part); err != nil {
			return frontier.Extension{}, err
		}
		if paused {
			open = 0
		} else if topUp.MaxPages > 0 {
			var unlock func()
			if most, until, unlock, err = s.reserve(ctx, topUp.MaxPages, open-held); err != nil {
				return frontier.Extension{}, err
			}
			defer unlock()
		}
	}
	return s.extend(ctx, h, open, most, until, topUp.Known)
}

// extend restarts the TTL of a lease. It adds items until the lease has as many open items as
// the argument open says. The argument most limits the number of added items, until the time
// in until: see fence.
func (s *Store) extend(ctx context.Context, h *holding, open, most int, until time.Time, known int) (frontier.Extension, error) {
	asked := s.now()
	c := &call{part: h.part, script: extendScript, keys: h.part.hostKeys(h.host), args: []any{
		h.host, h.id[:], millis(s.cfg.LeaseTTL), h.next(), open, most, s.fence(h.part, until),
	}}
	s.runTogether(ctx, c, nil)
	if c.err != nil {
		return frontier.Extension{}, c.err
	}
	values := list(c.reply)
	if integer(at(values, 0)) == 0 {
		return frontier.Extension{}, frontier.ErrLeaseLost
	}
	items, err := s.decodeNumbered(h.host, values[1:])
	if err != nil {
		return frontier.Extension{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if deadline := asked.Add(s.cfg.LeaseTTL); deadline.After(h.deadline) {
		h.deadline = deadline
	}
	h.receive(items)
	return frontier.Extension{TTL: s.cfg.LeaseTTL, Items: h.since(known)}, nil
}
