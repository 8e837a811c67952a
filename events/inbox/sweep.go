package inbox

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// SweepConfig configures the speed of Sweep. The zero value suits most programs.
type SweepConfig struct {
	Every time.Duration // time between two sweeps; 0 means 1 minute
	Batch int           // the largest number of marks that one transaction deletes; 0 means 500
	// Share is the fraction of its time, in (0, 1], that a sweep spends deleting; 0 means
	// 0.25. Between batches the sweep pauses, so that it does not slow down the handlers.
	Share float64
}

// check returns an error that names a fault of c, if there is one.
func (c SweepConfig) check() error {
	if c.Every < 0 || c.Batch < 0 || !(c.Share >= 0 && c.Share <= 1) {
		return fmt.Errorf("inbox: %+v: want 0 or more, and a Share of 1 at most", c)
	}
	return nil
}

// Sweep deletes expired marks of all groups until ctx ends, and then returns nil. It only
// keeps the table small. An expired mark has no effect, even if it is not deleted yet. It is
// enough that one process runs Sweep, but several can run it at the same time.
//
// It returns an error if Postgres fails or cfg has a fault. After an error of Postgres, call
// it again later.
func (i *Inbox) Sweep(ctx context.Context, cfg SweepConfig) error {
	if err := cfg.check(); err != nil {
		return err
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

// SweepOnce deletes the expired marks of all groups and returns how many it deleted. It does
// not use cfg.Every. It returns the same errors as Sweep.
func (i *Inbox) SweepOnce(ctx context.Context, cfg SweepConfig) (deleted int, err error) {
	if err := cfg.check(); err != nil {
		return 0, err
	}
	batch, share := cmp.Or(cfg.Batch, 500), cmp.Or(cfg.Share, 0.25)
	var from *time.Time
	for {
		started := time.Now()
		var count int
		var lag *int64
		var last *time.Time
		if err := i.cfg.DB.QueryRow(ctx, i.statement(sweepSQL), batch, i.clock(), from).Scan(&count, &lag, &last); err != nil {
			return deleted, fmt.Errorf("inbox: delete expired marks: %w", explain(err))
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
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
