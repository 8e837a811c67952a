package localstore

import (
	"context"
	"strings"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/stage"
)

// offer is a frontier.Offer with values that are computed outside the committer.
type offer struct {
	*frontier.Offer
	print   bloomstore.Fingerprint
	refused frontier.Reason
}

func (s *Store) offers(given []frontier.Offer) []offer {
	offers := make([]offer, len(given))
	for i := range given {
		it := &given[i]
		o := offer{Offer: it}
		switch {
		case len(it.URL) > frontier.MaxURLBytes:
			o.refused = frontier.ReasonTooLong
		case it.URL == "" || it.Host == "" || strings.IndexByte(it.Host, 0) >= 0 ||
			it.Priority >= frontier.Priorities, it.Class > maxClass:
			o.refused = frontier.ReasonMalformed
		default:
			o.print = s.hasher.Fingerprint(it.URL)
		}
		offers[i] = o
	}
	return offers
}

// urlBytes returns the length of all URLs.
func urlBytes(offers []frontier.Offer) (bytes int64) {
	for i := range offers {
		bytes += int64(len(offers[i].URL))
	}
	return bytes
}

// Add implements frontier.Store. It never returns ErrFull: the queue is on disk.
func (s *Store) Add(ctx context.Context, offers []frontier.Offer) ([]frontier.Verdict, error) {
	mine := s.offers(offers)
	verdicts := make([]frontier.Verdict, len(offers))
	err := s.submit(ctx, &op{bytes: urlBytes(offers), change: func(g *group) error {
		stage.Dedup.Begin()
		defer stage.Store.Begin()
		for i := range mine {
			v, err := g.add(&mine[i])
			if err != nil {
				return err
			}
			verdicts[i] = v
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return verdicts, nil
}

// add decides on one offer, and queues it if it is new. Its errors are fatal.
func (g *group) add(o *offer) (frontier.Verdict, error) {
	g.changed = true
	books := &g.meta.Stats.Books
	books.Found++
	if o.refused != "" {
		return g.refuse(o.refused), nil
	}
	claimed := g.filter.Has(o.print)
	if claimed {
		if err := g.compareSample(o.print, claimed); err != nil {
			return frontier.Verdict{}, err
		}
		if queued, err := g.comeBack(o); err != nil {
			return frontier.Verdict{}, err
		} else if queued {
			return frontier.Verdict{Answer: frontier.Added}, nil
		}
	}
	if !claimed && g.meta.Window.Forgot {
		if v, decided, err := g.addForgotten(o); err != nil || decided {
			return v, err
		}
	}
	known := claimed
	if known && o.Class != frontier.Bulk {
		var err error
		if known, err = g.contains(o); err != nil {
			return frontier.Verdict{}, err
		}
	}
	if known && o.Class != frontier.Bulk {
		if renewed, err := g.renew(o); err != nil {
			return frontier.Verdict{}, err
		} else if renewed {
			return frontier.Verdict{Answer: frontier.Added}, nil
		}
	}
	if known {
		books.Seen++
		return frontier.Verdict{Answer: frontier.Seen}, nil
	}
	h, err := g.hostOf(o.Host)
	if err != nil {
		return frontier.Verdict{}, err
	}
	again := claimed && g.meta.Swept.Round > 0 // the rows of the key were probably deleted
	if full, err := g.isFull(h); err != nil {
		return frontier.Verdict{}, err
	} else if full && !again {
		return g.refuse(frontier.ReasonHostLimit), nil
	}
	switch {
	case again:
		g.meta.Swept.Left--
	case claimed:
		g.meta.Stats.Recovered++
	default:
		if err := g.compareSample(o.print, claimed); err != nil {
			return frontier.Verdict{}, err
		}
	}
	if !again {
		h.added++
	}
	g.admit(h, o)
	return frontier.Verdict{Answer: frontier.Added}, nil
}

// isFull reports whether a host has its maximum number of items.
func (g *group) isFull(h *host) (bool, error) {
	own := g.cfg.Policy().Host(h.key)
	if own.MaxItems == 0 || h.added < own.MaxItems {
		return false, nil
	}
	if own.UnlessSeed && !h.ofSeed {
		row, err := g.get(scopeKey(frontier.SeedHost(h.key)))
		if err != nil {
			return false, err
		}
		h.ofSeed = row != nil // a scope key is never removed
	}
	return !own.UnlessSeed || !h.ofSeed, nil
}

// admit queues a new item and adds it to the filter.
func (g *group) admit(h *host, o *offer) {
	g.remember(o.print) // an exact URL is queued even if the filter already has all its bits
	round := uint32(0)
	if class := o.Class; class != frontier.Bulk {
		round = g.meta.Swept.Round
		g.writeExact(o.print, exactKeyRow{class: class, first: round})
	}
	g.queueNew(h, o, round)
}

// remember adds a key to the filter, unless the filter claims it.
func (g *group) remember(print bloomstore.Fingerprint) (added bool) {
	layer, added := g.filter.Add(print)
	if added {
		g.journalKey(layer, print)
	}
	return added
}

// journalKey notes that a key was added to a layer of the filter, or of its newest generation.
func (g *group) journalKey(layer int, print bloomstore.Fingerprint) {
	g.journal = append(append(g.journal, byte(layer)), print[:]...)
	g.journaled++
}

// queueNew queues an item in the given round, and counts it as added.
func (g *group) queueNew(h *host, o *offer, round uint32) {
	item := o.Item(o.print)
	item.Round, item.Added = round, frontier.MomentAt(g.age(g.now))
	if o.Delay > 0 {
		g.delay(h, &item, micros(o.Delay))
	} else {
		g.enqueue(h, &item)
	}
	g.meta.Stats.Added++
	if frontier.IsCheck(h.key) {
		g.meta.Stats.Checks.Added++
	}
	g.move(h, 1, 0)
}

// move changes the numbers of queued and of leased items, all of which are of one host.
func (g *group) move(h *host, queued, leased int) {
	stats := &g.meta.Stats
	stats.Queued += uint64(queued)
	stats.Leased += uint64(leased)
	if frontier.IsCheck(h.key) {
		stats.Checks.Queued += uint64(queued)
		stats.Checks.Leased += uint64(leased)
	}
}

func (g *group) refuse(reason frontier.Reason) frontier.Verdict {
	g.countRefused(reason, 1)
	return frontier.Verdict{Answer: frontier.Refused, Reason: reason}
}

func (g *group) countRefused(reason frontier.Reason, n uint64) {
	books := &g.meta.Stats.Books
	if books.Refused == nil {
		books.Refused = make(map[frontier.Reason]uint64)
	}
	books.Refused[reason] += n
}

// enqueue puts an item at the end of its host's queue.
func (g *group) enqueue(h *host, it *frontier.Item) {
	at := queuePos{it.Priority, g.nextSeq()}
	g.writeEntry(h, at, it)
	h.enqueued(at)
	g.touch(h)
}

// writeEntry writes an item's row at a position of its host's queue.
func (g *group) writeEntry(h *host, at queuePos, it *frontier.Item) {
	g.scratch = appendQueueKey(g.scratch[:0], h.key, at)
	n := len(g.scratch)
	g.scratch = appendEntry(g.scratch, it)
	g.set(g.scratch[:n], g.scratch[n:])
}

// delay adds an item to the delayed items. micros is the delay in µs.
func (g *group) delay(h *host, it *frontier.Item, micros int64) { g.delayUntil(h, it, g.now+micros) }

// delayUntil adds an item to the delayed items. due is the time at which it is queued.
func (g *group) delayUntil(h *host, it *frontier.Item, due int64) {
	g.scratch = appendEntry(append(append(g.scratch[:0], h.key...), 0), it)
	g.set(delayedKey(due, g.nextSeq()), g.scratch)
	h.delayed++
	g.meta.Stats.Delayed++
	g.nextDelayed = min(g.nextDelayed, due)
	g.touch(h)
}

// maxMature bounds the delayed items that one group moves.
const maxMature = 1000

// mature queues delayed items that are due.
func (g *group) mature() error {
	lower, upper := delayedKey(g.delayedFloor, 0), []byte{tableDelayed + 1}
	g.nextDelayed, g.delayedFloor = never, g.now
	moved := 0
	return g.scanRange(g.db, lower, upper, func(key, value []byte) (bool, error) {
		due, _ := splitDueKey(key)
		if due > g.now || moved == maxMature {
			g.nextDelayed, g.delayedFloor = due, min(due, g.now)
			return false, nil
		}
		_, item, err := g.decodeDelayed(key, value)
		if err != nil {
			return false, err
		}
		h, err := g.hostOf(item.Host)
		if err != nil {
			return false, err
		}
		g.remove(key)
		h.delayed--
		g.meta.Stats.Delayed--
		g.enqueue(h, &item)
		moved++
		return true, nil
	})
}

// contains reports whether a URL that the filter claims to contain was really added.
// It is called only for exact items, and never returns a false positive. If no table
// has a row for the fingerprint, and the URL may have been bulk, contains reads the queue of the host and all delayed
// items. That can take long.
func (g *group) contains(o *offer) (bool, error) {
	print := o.print
	if g.exact[print] {
		return true, nil
	}
	if has, err := g.hasRow(exactKey(print), outcomeKey(print), knownKey(print)); err != nil || has {
		return has, err
	}
	// The rows that this group of changes writes cannot be read before it is committed. The
	// fingerprints that the group has added to the filter are in g.journal.
	for j := g.journal; len(j) >= journalAdd; j = j[journalAdd:] {
		if bloomstore.Fingerprint(j[1:journalAdd]) == print {
			return true, nil
		}
	}
	if g.cfg.Pure(o.Class) {
		return false, nil
	}
	status, err := g.find(g.db, o.Host, o.URL)
	return status.State != frontier.Unknown, err
}
