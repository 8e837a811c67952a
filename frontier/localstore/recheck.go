package localstore

import (
	"context"
	"slices"

	"github.com/bloomfrontier/crawler/frontier"
)

var _ frontier.Rechecker = (*Store)(nil)

// Recheck implements frontier.Rechecker. One group queues at most maxRetry items.
func (s *Store) Recheck(ctx context.Context, items []frontier.Finished) (total int, err error) {
	for part := range slices.Chunk(items, maxRetry) {
		offers := make([]frontier.Offer, len(part))
		for i := range part {
			offers[i] = part[i].Offer
		}
		mine, n := s.offers(offers), 0
		err := s.submit(ctx, &op{bytes: urlBytes(offers), change: func(g *group) error {
			n = 0
			for i := range mine {
				queued, err := g.recheck(&mine[i], part[i].Round)
				if err != nil {
					return err
				}
				if queued {
					n++
				}
			}
			return nil
		}})
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// recheck queues a finished item whose last round is the given one. Its errors are fatal.
func (g *group) recheck(o *offer, round uint32) (queued bool, err error) {
	if o.refused != "" || g.exact[o.print] { // this group changed the key; the rows that can be read are older
		return false, nil
	}
	row, err := g.get(outcomeKey(o.print))
	if err != nil || row == nil {
		return false, err
	}
	last, err := decodeOutcome(row)
	if err != nil || last.round != round {
		return false, err
	}
	h, err := g.hostOf(o.Host)
	if err != nil {
		return false, err
	}
	g.changed = true
	if last.seq != 0 {
		key := failedKey(h.key, last.seq)
		value, err := g.get(key)
		if err != nil || value == nil || g.retried[last.seq] {
			return false, err
		}
		g.retried[last.seq] = true
		return true, g.requeueFailed(key, value)
	}
	key, _, err := g.exactRow(o)
	if err != nil {
		return false, err
	}
	key.done++
	g.meta.Stats.Found++
	if last.outcome.ByHost() {
		g.remove(blobKey(h.key)) // it would decide again
	}
	g.queueAgain(h, o, key, last)
	return true, nil
}
