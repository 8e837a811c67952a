package inbox

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// SweepConfig says how fast Sweep deletes. The zero value is good for most.
type SweepConfig struct {
	Every time.Duration // between two sweeps; 0 means 1 minute
	Batch int           // marks that one transaction deletes at most; 0 means 500
	// Share is the part of the time, in (0, 1], in which Sweep deletes; 0 means 0.25.
	// The rest is left to the handlers.
	Share float64
}

// Sweep deletes expired marks of all groups until ctx ends, and returns nil then. It
// keeps the table small; that a mark has expired counts without it. One process
// needs to run it, more do no harm.
//
// It returns an error if Postgres does. Call it again after a while.
func (i *Inbox) Sweep(ctx context.Context, cfg SweepConfig) error {
	if cfg.Every < 0 || cfg.Batch < 0 || cfg.Share < 0 || cfg.Share > 1 {
		return fmt.Errorf("inbox: %+v: want 0 or more, and a Share of 1 at most", cfg)
	}
	every := cmp.Or(cfg.Every, time.Minute)
	for ctx.Err() == nil {
		_, err := i.SweepOnce(ctx, cfg)
		if err != nil && ctx.Err() == nil {
			return err
		}
		sleep(ctx, every)
	}
	return nil
}

// SweepOnce deletes what has expired when it is called and returns how many marks
// that were. Every of cfg is not used.
func (i *Inbox) SweepOnce(ctx context.Context, cfg SweepConfig) (deleted int, err error) {
	batch, share := cmp.Or(cfg.Batch, 500), cmp.Or(cfg.Share, 0.25)
	var from *time.Time
	for {
		started := time.Now()
		var count int
		var lag *int64
		var last *time.Time
		if err := i.cfg.DB.QueryRow(ctx, i.sql.sweep, batch, i.clock(), from).Scan(&count, &lag, &last); err != nil {
			return deleted, fmt.Errorf("inbox: delete expired marks: %w", err)
		}
		took := time.Since(started)
		deleted += count
		if count > 0 && i.cfg.Metrics != nil {
			i.cfg.Metrics.Swept(count, time.Duration(*lag)*time.Microsecond)
		}
		if count < batch {
			return deleted, nil
		}
		from = last
		sleep(ctx, time.Duration(float64(took)*(1-share)/share))
	}
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
