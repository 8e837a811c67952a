package exact

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"
)

// RelayConfig configures a Relay. The zero value works.
type RelayConfig struct {
	Batch int // number of notes, or keys, in one step; 0 means 500
}

const (
	relayEvery = time.Second      // between two looks at the outbox
	staleEvery = 10 * time.Second // between two looks for stale keys and expired ones
)

// Relay delivers the notes of the outbox to the set, and queues keys that were
// decided to be new but not queued. It also sweeps keys whose windows are over. Any
// number of them may run, in any processes.
type Relay struct {
	*Store
	cfg RelayConfig
}

// NewRelay returns a relay between the set and the queue of store.
func NewRelay(store *Store, cfg RelayConfig) *Relay {
	cfg.Batch = cmp.Or(cfg.Batch, batch)
	return &Relay{Store: store, cfg: cfg}
}

// Run relays until ctx ends. It continues when one side is away.
func (r *Relay) Run(ctx context.Context) error {
	tick := time.NewTicker(relayEvery)
	defer tick.Stop()
	var stale time.Time // last look for stale keys
	held := false
	for {
		err := r.Deliver(ctx)
		// A set that is away is asked each time: otherwise, without other calls, it
		// would not be noticed that it is back.
		if now := time.Now(); err == nil && (now.Sub(stale) >= staleEvery || r.Store.cfg.Set.Away()) {
			stale = now
			err = r.Tidy(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		r.log(ctx, err, &held)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// log logs that the relay cannot continue, and later that it can.
func (r *Relay) log(ctx context.Context, err error, held *bool) {
	log := r.Store.cfg.Logger
	switch {
	case err != nil && !*held:
		log.LogAttrs(ctx, slog.LevelWarn, "relay of exact keys waits", slog.Any("err", err))
	case err == nil && *held:
		log.LogAttrs(ctx, slog.LevelInfo, "relay of exact keys continues")
	}
	*held = err != nil
}

// Tidy does once what Run does now and then: it offers stale keys again, including those that the
// queue has lost at the end of a crawl, and sweeps.
func (r *Relay) Tidy(ctx context.Context) error {
	offer := func(entries []Entry) error {
		_, err := r.offerAgain(ctx, entries, false)
		return err
	}
	if err := r.eachStale(ctx, r.cfg.Batch, offer); err != nil {
		return err
	}
	if r.idle.longerThan(staleAfter, r.Store.cfg.Now()) {
		if _, err := r.Reconcile(ctx, nil); err != nil {
			return err
		}
	}
	return r.sweep(ctx)
}

// sweep deletes expired keys from the set until none is left. It pauses between small batches, so
// that it does not slow down the crawl.
func (r *Relay) sweep(ctx context.Context) error {
	for ctx.Err() == nil {
		swept, _, err := r.Store.cfg.Set.Sweep(ctx, r.cfg.Batch)
		if err != nil {
			return fmt.Errorf("exact: sweep: %w", err)
		}
		if swept < r.cfg.Batch {
			return nil
		}
	}
	return nil
}

// Deliver delivers the notes of the outbox until there are none.
func (r *Relay) Deliver(ctx context.Context) error {
	_, err := r.drain(ctx, r.cfg.Batch, func(int) {})
	return err
}
