package redisstore

import (
	"context"
	"errors"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// Revisit queues finished items for the round after the given one, in a crawl that has an exact set. The result counts
// those that were queued; the others are queued or leased already.
//
// The queue does not know the rounds of finished items. An item whose round was visited already is queued once more, and
// the worker that leases it must end it as frontier.Stale: see fetcher.Known.Next. So a call can be repeated at any time.
func (s *Store) Revisit(ctx context.Context, items []frontier.Finished) (n int, err error) {
	if s.cfg.Exact == nil {
		return 0, errors.ErrUnsupported
	}
	offers, again := make([]frontier.Offer, len(items)), make([]exact.Decision, len(items))
	owed := make([]frontier.Verdict, len(items)) // no limit refuses a page that was fetched before
	for i := range items {
		offers[i], again[i] = items[i].Offer, exact.Decision{Kind: exact.Again, Round: items[i].Round + 1}
		owed[i].Answer = frontier.Added
	}
	got, err := s.offerOwed(ctx, offers, again, false, owed)
	if err != nil {
		return 0, err
	}
	for _, v := range got.verdicts {
		if v.Answer == frontier.Added {
			n++
		}
	}
	if s.cfg.Wait > 0 {
		err = s.replicated(ctx, got)
	}
	return n, err
}
