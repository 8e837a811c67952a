package exact

import (
	"context"
	"fmt"
	"slices"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// Reconciled counts keys that were offered to the queue again.
type Reconciled struct {
	Offered uint64 `json:"offered"` // pending and queued keys
	Added   uint64 `json:"added"`   // offered keys that the queue did not have
	Refused uint64 `json:"refused"` // offered keys that the queue refused
}

func (o *Reconciled) add(more Reconciled) {
	o.Offered += more.Offered
	o.Added += more.Added
	o.Refused += more.Refused
}

// offerAgain offers waiting keys to the queue. If refill is set, it offers all keys in entries.
// Otherwise it offers only the keys that the queue does not have.
func (f *Forwarder) offerAgain(ctx context.Context, entries []Entry, refill bool) (counts Reconciled, err error) {
	keys, err := f.locate(entries)
	if err != nil {
		return counts, err
	}
	counts = Reconciled{Offered: uint64(len(entries))}
	if !refill {
		if keys, err = f.missing(ctx, keys); err != nil {
			return counts, err
		}
	}
	const atOnce = 50 // so that little changes between the last look-up and the offer
	for some := range slices.Chunk(keys, atOnce) {
		if !refill {
			if some, err = f.waiting(ctx, some); err != nil {
				return counts, err
			}
		}
		more, err := f.offer(ctx, some, refill)
		counts.add(more)
		if err != nil {
			return counts, err
		}
	}
	return counts, nil
}

// located is a waiting key with the host key of its URL.
type located struct {
	Entry
	host string
}

// locate finds the host keys of entries. Every key is a canonical URL, so each has one.
func (f *Forwarder) locate(entries []Entry) ([]located, error) {
	keys := make([]located, len(entries))
	for i, e := range entries {
		host, err := f.Host(e.URL)
		if err != nil {
			return nil, fmt.Errorf("exact: host key of %q: %w", e.URL, err)
		}
		keys[i] = located{e, host}
	}
	return keys, nil
}

// offersOf returns the offers of waiting keys, each in its round. A key in round 0 that may
// have been a bulk key is offered as promoted, because the bulk key may have a record in that round.
func (f *Forwarder) offersOf(keys []located, refill bool) (offers []frontier.Offer, decided []Decision) {
	for _, k := range keys {
		kind := Again
		if k.Round == 0 && !f.Rules.Pure(k.Class) {
			kind = Promoted
		}
		decision := Decision{Kind: kind, Round: k.Round, Print: k.Fingerprint, Later: !f.Rules.Pure(k.Class)}
		if k.State == Pending && !refill { // otherwise the queue had the key, and has lost it
			decision.Line = k.Line
		}
		_, _, submission := ParseLine(k.Line)
		offers = append(offers, frontier.Offer{
			URL: k.URL, Host: k.host, Class: k.Class, Depth: k.Depth, Hops: k.Hops, Priority: k.Priority, Submission: submission,
		})
		decided = append(decided, decision)
	}
	return offers, decided
}

// missing returns the keys that the queue does not have, and marks the others as queued in the
// set. The queue may have finished some of the missing keys after the caller had read them from
// the set. The set has the end of such a key, so the caller looks the missing keys up again.
func (f *Forwarder) missing(ctx context.Context, keys []located) (missing []located, err error) {
	items := make([]ItemKey, len(keys))
	for i, k := range keys {
		items[i] = ItemKey{k.host, k.Fingerprint}
	}
	waits, err := f.Queue.Waits(ctx, items)
	if err != nil {
		return nil, fmt.Errorf("exact: ask the queue for %d URLs: %w", len(items), err)
	}
	answers := Answers{}
	for i, k := range keys {
		if waits[i] {
			answers[Ref{k.Fingerprint, k.Round}] = true
		} else {
			missing = append(missing, k)
		}
	}
	f.Settle(ctx, answers)
	return missing, nil
}

// waiting returns the keys that are still pending or queued in the set, in the same round.
func (f *Forwarder) waiting(ctx context.Context, keys []located) (waiting []located, err error) {
	for _, k := range keys {
		key, err := f.Set.Lookup(ctx, k.Fingerprint)
		if err != nil {
			return nil, fmt.Errorf("exact: look up %q: %w", k.URL, err)
		}
		if key.Round == k.Round && (key.State == Pending || key.State == Queued) {
			waiting = append(waiting, k)
		}
	}
	return waiting, nil
}

// Reconcile makes the set and the queue agree again after one of them has lost data. It
// offers to the queue every pending and queued key that the queue does not have. It skips keys that have been pending for less than a minute, because
// the call that made them pending, or a forwarder, will offer them. Reconcile can be called at any
// time, even concurrently, and while workers run.
//
// The argument refill is for a queue that was just rebuilt, to which no other call offers keys. If
// refill is true, Reconcile offers all pending and queued keys, and does not ask which of them the
// queue has.
func (f *Forwarder) Reconcile(ctx context.Context, refill bool) (done Reconciled, err error) {
	offer := func(entries []Entry) error {
		counts, err := f.offerAgain(ctx, entries, refill)
		done.add(counts)
		return err
	}
	if err = f.eachStale(ctx, f.batch(), offer); err != nil {
		return done, err
	}
	var after bloomstore.Fingerprint
	for {
		entries, err := f.Set.Waiting(ctx, after, f.batch())
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

// eachStale calls handle with batches of at most n keys that have been pending for staleAfter.
func (f *Forwarder) eachStale(ctx context.Context, n int, handle func([]Entry) error) error {
	for {
		entries, err := f.Set.Stale(ctx, staleAfter, n)
		if err != nil {
			return fmt.Errorf("exact: look for stale keys: %w", err)
		}
		if len(entries) == 0 {
			return nil
		}
		if err := handle(entries); err != nil {
			return err
		}
	}
}

// offer offers keys to the queue, stores the answers in the set, and counts the keys.
func (f *Forwarder) offer(ctx context.Context, keys []located, refill bool) (counts Reconciled, err error) {
	if len(keys) == 0 {
		return counts, nil
	}
	offers, each := f.offersOf(keys, refill)
	decided := Decisions{each, f.now()}
	verdicts, err := f.Queue.AddDecided(ctx, offers, each)
	if err != nil {
		return counts, fmt.Errorf("exact: offer %d URLs: %w", len(offers), err)
	}
	crash.Point("offered")
	for _, verdict := range verdicts {
		switch verdict.Answer {
		case frontier.Added:
			counts.Added++
		case frontier.Refused:
			counts.Refused++
		}
	}
	answers := Answers{}
	f.Collect(answers, decided, verdicts)
	f.Settle(ctx, answers)
	return counts, nil
}
