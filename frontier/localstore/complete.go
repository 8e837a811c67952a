package localstore

import (
	"context"
	"fmt"

	"github.com/bloomfrontier/crawler/frontier"
)

// Complete implements frontier.Store: links, completions, records and host in
// one step. A lost lease adds no links either.
func (s *Store) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	if len(update.Blob) > frontier.MaxBlob {
		return fmt.Errorf("localstore: host blob has %d bytes, want at most %d", len(update.Blob), frontier.MaxBlob)
	}
	for i := range done {
		if err := s.checkCompletion(&done[i]); err != nil {
			return err
		}
	}
	links := make([][]offer, len(done))
	for i := range done {
		links[i] = s.offers(done[i].Links)
	}
	return s.do(ctx, &op{change: func(g *group) error { return g.complete(id, done, links, update) }})
}

func (s *Store) checkCompletion(c *frontier.Completion) error {
	switch {
	case c.Disposition > frontier.GiveBack:
		return fmt.Errorf("localstore: completion of %x has disposition %d", c.Item[:4], c.Disposition)
	case c.Disposition == frontier.Finish && c.Outcome.State() == frontier.Unknown:
		return fmt.Errorf("localstore: completion of %x has outcome %q", c.Item[:4], c.Outcome)
	case c.Record != nil && s.output == nil:
		return fmt.Errorf("localstore: completion of %x has a record, but the store no output", c.Item[:4])
	}
	return nil
}

func (g *group) complete(id frontier.LeaseID, done []frontier.Completion, links [][]offer, update frontier.HostUpdate) error {
	l := g.leases[id]
	if l == nil {
		return g.completeEnded(id, done)
	}
	for i := range done {
		if it := l.byPrint[done[i].Item]; it == nil || it.state == returned {
			return fmt.Errorf("localstore: completion of %x, which lease of %q does not hold: %w",
				done[i].Item[:4], l.host.key, frontier.ErrLeaseLost)
		}
	}
	for i := range done {
		if it := l.byPrint[done[i].Item]; it.state == held {
			if err := g.settle(l, it, &done[i], links[i]); err != nil {
				return err
			}
		}
	}
	h := l.host
	h.due, h.delay = g.now+micros(update.Due), micros(update.Delay)
	if update.Blob != nil {
		g.set(blobKey(h.key), update.Blob)
	}
	g.touch(h)
	if update.End {
		g.endLease(l)
	}
	return nil
}

// completeEnded answers a repeat: nil if the lease completed all of done while
// it lasted.
func (g *group) completeEnded(id frontier.LeaseID, done []frontier.Completion) error {
	l := g.ended.leash[id]
	if l == nil {
		return frontier.ErrLeaseLost
	}
	for i := range done {
		it := l.byPrint[done[i].Item]
		if it == nil || (it.state != completed && done[i].Disposition != frontier.GiveBack) {
			return frontier.ErrLeaseLost
		}
	}
	return nil
}

// settle carries out one completion. Its errors are fatal.
func (g *group) settle(l *lease, it *heldItem, c *frontier.Completion, links []offer) error {
	var counts frontier.LinkCounts
	for i := range links {
		v, err := g.add(&links[i])
		if err != nil {
			return err
		}
		switch v.Answer {
		case frontier.Added:
			counts.Added++
		case frontier.Seen:
			counts.Seen++
		default:
			counts.Refused++
		}
	}
	stats := &g.meta.Stats
	for _, r := range c.Refused {
		g.countRefused(r.Reason, r.Count)
		counts.Refused += r.Count
		stats.Found += r.Count
	}
	counts.Found = counts.Added + counts.Seen + counts.Refused

	if c.Disposition == frontier.GiveBack {
		g.putBack(it)
		l.open--
		return nil
	}
	item := l.handed[it.index]
	g.scratch = appendQueueKey(g.scratch[:0], l.host.key, it.at)
	g.remove(g.scratch)
	it.state = completed
	l.open--
	stats.Leased--
	if c.Disposition == frontier.Retry {
		item.Attempts = min(item.Attempts, 254) + 1
		stats.Queued++
		stats.Retries++
		g.delay(l.host, &item, micros(c.RetryIn))
		return nil
	}
	return g.conclude(l.host, &item, c, counts)
}

// conclude finishes an item.
func (g *group) conclude(h *host, item *frontier.Item, c *frontier.Completion, counts frontier.LinkCounts) error {
	stats := &g.meta.Stats
	if c.Record != nil {
		if err := c.Record(counts); err != nil {
			return fatal("write the record of "+item.URL, err)
		}
		g.records = true
		stats.Records++
	}
	if stats.Outcomes == nil {
		stats.Outcomes = make(map[frontier.Outcome]uint64)
	}
	stats.Outcomes[c.Outcome]++
	if c.Page {
		stats.Pages++
	}
	row := outcome{outcome: c.Outcome, status: c.Status, round: item.Round}
	if c.Outcome.State() == frontier.Failed {
		row.seq = g.nextSeq()
		g.scratch = appendEntry(g.scratch[:0], item)
		g.set(failedKey(h.key, row.seq), g.scratch)
		stats.Failed++
	} else {
		stats.Done++
	}
	g.scratch = appendOutcome(g.scratch[:0], row)
	g.set(outcomeKey(item.Fingerprint), g.scratch)
	return nil
}
