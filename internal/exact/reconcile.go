package exact

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// Offered counts keys that were offered to the queue again.
type Offered struct {
	Offered uint64 `json:"offered"` // pending and queued keys
	Added   uint64 `json:"added"`   // of these the queue did not have
	Refused uint64 `json:"refused"` // of these the queue would not take
}

func (o *Offered) add(more Offered) {
	o.Offered += more.Offered
	o.Added += more.Added
	o.Refused += more.Refused
}

// batch is how many notes and keys are worked on at once.
const batch = 500

// offerAgain offers those of the waiting keys that the queue does not have; of a
// refill all of them. One whose URL has no host key any more counts as refused.
func (s *Store) offerAgain(ctx context.Context, entries []Entry, refill bool) (counts Offered, err error) {
	items, err := s.itemsOf(ctx, entries)
	if err != nil {
		return counts, err
	}
	counts = Offered{Offered: uint64(len(entries)), Refused: uint64(len(entries) - len(items))}
	if !refill {
		if items, err = s.missing(ctx, items); err != nil {
			return counts, err
		}
	}
	const atOnce = 50 // so that little happens between the last look and the offer
	for some := range slices.Chunk(items, atOnce) {
		if !refill {
			if some, err = s.waiting(ctx, some); err != nil {
				return counts, err
			}
		}
		more, err := s.offer(ctx, some)
		counts.add(more)
		if err != nil {
			return counts, err
		}
	}
	return counts, nil
}

// itemsOf returns the items of keys, and withdraws those that have no host key.
func (s *Store) itemsOf(ctx context.Context, entries []Entry) ([]frontier.Item, error) {
	items := make([]frontier.Item, 0, len(entries))
	var homeless []Ref
	for _, e := range entries {
		host, err := s.cfg.Host(e.URL)
		if err != nil {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "exact key has no host", slog.String("url", e.URL), slog.Any("err", err))
			homeless = append(homeless, Ref{e.Fingerprint, e.Round})
			continue
		}
		items = append(items, frontier.Item{
			URL: e.URL, Host: host, Fingerprint: e.Fingerprint, Class: e.Class, Depth: e.Depth, Hops: e.Hops,
			Priority: e.Priority, Decision: frontier.Again, Round: e.Round,
		})
	}
	if len(homeless) > 0 {
		if err := s.cfg.Set.Withdraw(ctx, homeless); err != nil {
			return nil, fmt.Errorf("exact: withdraw %d keys: %w", len(homeless), err)
		}
	}
	return items, nil
}

// missing returns those items that the queue does not have, and tells the set that
// it has the others. What has left the queue since the set was read it has left
// finished: the set knows that, or a note of the outbox, which is brought to it.
func (s *Store) missing(ctx context.Context, items []frontier.Item) (missing []frontier.Item, err error) {
	keys := make([]ItemKey, len(items))
	for i := range items {
		keys[i] = ItemKey{items[i].Host, items[i].Fingerprint}
	}
	waits, err := s.Queue.Waits(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("exact: ask the queue for %d URLs: %w", len(items), err)
	}
	heard := hearing{}
	for i := range items {
		if waits[i] {
			heard.note(&items[i], true)
		} else {
			missing = append(missing, items[i])
		}
	}
	if len(heard) > 0 {
		s.settle(ctx, heard)
	}
	if len(missing) > 0 {
		_, err = s.drain(ctx, batch, func(int) {})
	}
	return missing, err
}

// waiting returns those items that wait by the set.
func (s *Store) waiting(ctx context.Context, items []frontier.Item) (waiting []frontier.Item, err error) {
	for i := range items {
		key, err := s.cfg.Set.Lookup(ctx, items[i].Fingerprint)
		if err != nil {
			return nil, fmt.Errorf("exact: look up %q: %w", items[i].URL, err)
		}
		if key.Round == items[i].Round && (key.State == Pending || key.State == Queued) {
			waiting = append(waiting, items[i])
		}
	}
	return waiting, nil
}

// Reconciled counts what Reconcile did.
type Reconciled struct {
	Notes uint64 `json:"notes"` // of the outbox
	Offered
}

// Reconcile brings both sides together, whatever either of them has lost: it
// drains the outbox and then offers every pending and queued key to the queue,
// which passes over what it has; but for keys that have been pending for less
// than a minute, which somebody is about to offer, or else a relay. It is safe at
// any time, beside workers and by several at once. progress, unless nil, is called
// now and then.
func (s *Store) Reconcile(ctx context.Context, progress func(Reconciled)) (done Reconciled, err error) {
	return s.reconcile(ctx, false, progress)
}

// Refill is Reconcile for a queue that was just made anew: nobody is about to offer
// what he was told is new, so that every pending key is offered.
func (s *Store) Refill(ctx context.Context, progress func(Reconciled)) (Reconciled, error) {
	return s.reconcile(ctx, true, progress)
}

func (s *Store) reconcile(ctx context.Context, refill bool, progress func(Reconciled)) (done Reconciled, err error) {
	report := func() {
		if progress != nil {
			progress(done)
		}
	}
	if _, err = s.drain(ctx, batch, func(notes int) { done.Notes += uint64(notes); report() }); err != nil {
		return done, err
	}
	offer := func(entries []Entry) error {
		counts, err := s.offerAgain(ctx, entries, refill)
		done.add(counts)
		report()
		return err
	}
	if err = s.eachStale(ctx, batch, offer); err != nil {
		return done, err
	}
	var after bloomstore.Fingerprint
	for {
		entries, err := s.cfg.Set.Waiting(ctx, after, batch)
		if err != nil {
			return done, fmt.Errorf("exact: read what waits: %w", err)
		}
		if len(entries) == 0 {
			return done, nil
		}
		after = entries[len(entries)-1].Fingerprint
		if !refill {
			entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.State == Pending })
		}
		if err := offer(entries); err != nil {
			return done, err
		}
	}
}

// eachStale calls do with batches of keys that have been pending for too long.
func (s *Store) eachStale(ctx context.Context, n int, do func([]Entry) error) error {
	for {
		entries, err := s.cfg.Set.Stale(ctx, staleAfter, n)
		if err != nil {
			return fmt.Errorf("exact: look for stale keys: %w", err)
		}
		if len(entries) == 0 {
			return nil
		}
		if err := do(entries); err != nil {
			return err
		}
	}
}
