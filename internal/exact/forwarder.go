package exact

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

const (
	forwarderEvery = time.Second      // between two reads of the outbox
	staleEvery     = 10 * time.Second // between two searches for stale and expired keys
)

// Forwarder delivers the notes of the outbox to the set. It queues new keys that their
// callers did not queue, and sweeps keys whose windows are over. Any number of forwarders
// can run at once, in any processes.
type Forwarder struct {
	*Store
	Batch int // number of notes, or keys, in one step
}

// NewForwarder returns a forwarder between the set and the queue of store.
func NewForwarder(store *Store) *Forwarder { return &Forwarder{store, batch} }

// Run does the work of the forwarder until ctx ends. While the set or the queue is away, it
// tries again every second.
func (f *Forwarder) Run(ctx context.Context) error {
	tick := time.NewTicker(forwarderEvery)
	defer tick.Stop()
	var stale time.Time // time of the last search for stale keys
	interrupted := false
	for {
		err := f.Deliver(ctx)
		// While the set is away, Tidy runs each time: if there are no other calls, only
		// Tidy can find out that the set is back.
		if now := time.Now(); err == nil && (now.Sub(stale) >= staleEvery || f.cfg.Set.Away()) {
			stale = now
			err = f.Tidy(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		f.log(ctx, err, &interrupted)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// log logs that the forwarder is interrupted, or that it continues. The variable interrupted is
// true if the previous step failed. log updates it.
func (f *Forwarder) log(ctx context.Context, err error, interrupted *bool) {
	log := f.cfg.Logger
	switch {
	case err != nil && !*interrupted:
		log.LogAttrs(ctx, slog.LevelWarn, "forwarder of exact keys is interrupted and will try again", slog.Any("err", err))
	case err == nil && *interrupted:
		log.LogAttrs(ctx, slog.LevelInfo, "forwarder of exact keys continues")
	}
	*interrupted = err != nil
}

// Tidy offers stale keys again and deletes expired keys. Run calls it regularly. If the queue
// has been empty for a minute although keys wait in the set, Tidy calls Reconcile, because the
// queue might have lost these keys.
func (f *Forwarder) Tidy(ctx context.Context) error {
	offer := func(entries []Entry) error {
		_, err := f.offerAgain(ctx, entries, false)
		return err
	}
	if err := f.eachStale(ctx, f.Batch, offer); err != nil {
		return err
	}
	if f.idleLonger(staleAfter, f.cfg.Now()) {
		if _, err := f.Reconcile(ctx, false); err != nil {
			return err
		}
	}
	return f.sweep(ctx)
}

// sweep deletes expired keys from the set until none is left. It deletes them in small batches, so
// that no call of the set takes long.
func (f *Forwarder) sweep(ctx context.Context) error {
	for ctx.Err() == nil {
		swept, _, err := f.cfg.Set.Sweep(ctx, f.Batch)
		if err != nil {
			return fmt.Errorf("exact: sweep: %w", err)
		}
		if swept < f.Batch {
			return nil
		}
	}
	return nil
}

// Deliver delivers the notes of the outbox until there are none.
func (f *Forwarder) Deliver(ctx context.Context) error {
	_, err := f.drain(ctx, f.Batch)
	return err
}
