package exact

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"
)

// RelayConfig says how a Relay works; its zero value does.
type RelayConfig struct {
	Every      time.Duration // how often the outbox is looked at; 0 means 1 s
	StaleEvery time.Duration // how often stale keys are looked for, and what is over is swept; 0 means 10 s
	Batch      int           // notes, keys at once; 0 means 500
}

// Relay brings to the set what it missed, and to the queue what that missed:
// notes of the outbox, and keys that somebody was told are new and never queued.
// It also sweeps keys whose windows are over. Any number of them may run, in any
// processes.
type Relay struct {
	*Store
	cfg RelayConfig
}

// NewRelay returns a relay between the two sides of store.
func NewRelay(store *Store, cfg RelayConfig) *Relay {
	cfg.Every = cmp.Or(cfg.Every, time.Second)
	cfg.StaleEvery = cmp.Or(cfg.StaleEvery, 10*time.Second)
	cfg.Batch = cmp.Or(cfg.Batch, batch)
	return &Relay{Store: store, cfg: cfg}
}

// Run relays until ctx ends. It goes on when one side is away.
func (r *Relay) Run(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.Every)
	defer tick.Stop()
	var stale time.Time // when stale keys were looked for
	held := false
	for {
		err := r.Deliver(ctx)
		// A set that is away is asked each time: while nothing else asks it
		// nobody would notice that it is back.
		if now := time.Now(); err == nil && (now.Sub(stale) >= r.cfg.StaleEvery || r.Store.cfg.Set.Away()) {
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

// log says when the relay cannot go on, and when it can again.
func (r *Relay) log(ctx context.Context, err error, held *bool) {
	log := r.Store.cfg.Logger
	switch {
	case err != nil && !*held:
		log.LogAttrs(ctx, slog.LevelWarn, "exact keys are held up", slog.Any("err", err))
	case err == nil && *held:
		log.LogAttrs(ctx, slog.LevelInfo, "exact keys go on")
	}
	*held = err != nil
}

// Tidy does once what Run does now and then: it offers stale keys again, those
// that the queue has lost at the end of a crawl too, and sweeps.
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

// sweep makes the set forget keys until no more are over. Batches are small and
// the set is left alone between them, so that a crawl does not notice.
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

// Deliver brings to the set what waits in the outbox, until nothing does.
func (r *Relay) Deliver(ctx context.Context) error {
	_, err := r.drain(ctx, r.cfg.Batch, func(int) {})
	return err
}
