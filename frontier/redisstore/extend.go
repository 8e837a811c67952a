package redisstore

import (
	"context"

	"github.com/bloomfrontier/crawler/frontier"
)

// maxTopUp bounds the items that one call of Extend adds.
const maxTopUp = 1024

// Extend implements frontier.Store. It adds at most maxTopUp items.
func (s *Store) Extend(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
	h := s.held.get(id)
	if h == nil || !h.current(s.now()) {
		return frontier.Extension{}, frontier.ErrLeaseLost
	}
	held := h.open()
	wantOpen := min(topUp.Items, held+maxTopUp)
	if wantOpen > held {
		halted, err := s.paused(ctx)
		if err != nil {
			return frontier.Extension{}, err
		}
		if err := s.lookAgain(ctx, h.part); err != nil {
			return frontier.Extension{}, err
		}
		if !halted && !frontier.IsCheck(h.host) && !s.cfg.Policy().Recrawl.On() {
			if halted, err = s.LimitReached(ctx, topUp.MaxPages); err != nil {
				return frontier.Extension{}, err
			}
		}
		if halted {
			wantOpen = 0
		}
	}
	return s.extend(ctx, h, wantOpen, topUp.Known)
}

// extend restarts the TTL of a lease. It adds items until the lease has wantOpen open items.
func (s *Store) extend(ctx context.Context, h *heldLease, wantOpen, known int) (frontier.Extension, error) {
	asked := s.now()
	c := s.runTogether(ctx, &call{part: h.part, script: extendScript, keys: append(h.part.hostKeys(h.host), h.part.places(s.siteOf(h.host))), args: []any{
		h.host, h.id[:], millis(s.cfg.LeaseTTL), h.next(), wantOpen,
	}})
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
	if deadline := asked.Add(s.cfg.LeaseTTL); deadline.After(h.deadline) {
		h.deadline = deadline
	}
	h.receive(items)
	extension := frontier.Extension{TTL: s.cfg.LeaseTTL, Items: h.since(known)}
	h.mu.Unlock()
	s.held.put(h) // if the answer came after the old deadline, a call of Lease may have removed h
	return extension, nil
}
