package exact

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

const (
	relayEvery = time.Second      // between two reads of the outbox
	staleEvery = 10 * time.Second // between two searches for stale and expired keys
)

// Relay delivers the notes of the outbox to the set. It queues new keys that their
// callers did not queue, and sweeps keys whose windows are over. Any number of relays
// can run at once, in any processes.
type Relay struct {
	*Store
	Batch int // number of notes, or keys, in one step
}

// NewRelay returns a relay between the set and the queue of store.
func NewRelay(store *Store) *Relay { return &Relay{store, batch} }

// Run does the work of the relay until ctx ends. While the set or the queue is away, it
// tries again every second.
func (r *Relay) Run(ctx context.Context) error {
	tick := time.NewTicker(relayEvery)
	defer tick.Stop()
	var stale time.Time // time of the last search for stale keys
	interrupted := false
	for {
		err := r.Deliver(ctx)
		// While the set is away, Tidy runs each time: if there are no other calls, only
		// Tidy can find out that the set is back.
		if now := time.Now(); err == nil && (now.Sub(stale) >= staleEvery || r.cfg.Set.Away()) {
			stale = now
			err = r.Tidy(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		r.log(ctx, err, &interrupted)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// log logs that the relay is interrupted, or that it continues. The variable interrupted is
// true if the previous step failed. log updates it.
func (r *Relay) log(ctx context.Context, err error, interrupted *bool) {
	log := r.cfg.Logger
	switch {
	case err != nil && !*interrupted:
		log.LogAttrs(ctx, slog.LevelWarn, "relay of exact keys is interrupted and will try again", slog.Any("err", err))
	case err == nil && *interrupted:
		log.LogAttrs(ctx, slog.LevelInfo, "relay of exact keys continues")
	}
	*interrupted = err != nil
}

// Tidy offers stale keys again and deletes expired keys. Run calls it regularly. If the queue
// has been empty for a minute although keys wait in the set, Tidy calls Reconcile, because the
// queue might have lost these keys.
func (r *Relay) Tidy(ctx context.Context) error {
	offer := func(entries []Entry) error {
		_, err := r.offerAgain(ctx, entries, false)
		return err
	}
	if err := r.eachStale(ctx, r.Batch, offer); err != nil {
		return err
	}
	if r.idleLonger(staleAfter, r.cfg.Now()) {
		if _, err := r.Reconcile(ctx, false); err != nil {
			return err
		}
	}
	return r.sweep(ctx)
}

// sweep deletes expired keys from the set until none is left. It deletes them in small batches, so
// that no call of the set takes long.
func (r *Relay) sweep(ctx context.Context) error {
	for ctx.Err() == nil {
		swept, _, err := r.cfg.Set.Sweep(ctx, r.Batch)
		if err != nil {
			return fmt.Errorf("exact: sweep: %w", err)
		}
		if swept < r.Batch {
			return nil
		}
	}
	return nil
}

// Deliver delivers the notes of the outbox until there are none.
func (r *Relay) Deliver(ctx context.Context) error {
	_, err := r.drain(ctx, r.Batch)
	return err
}
