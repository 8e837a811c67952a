package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// exactSetting is the setting of a crawl whose exact keys are in Postgres.
const exactSetting = "exact-set"

// tier is the Postgres beside a crawl in Redis, which has its exact keys.
type tier struct {
	*exact.Store
	set *pgstore.Store
}

// newTier has keys decide about the exact items of queue. output is the queue's;
// nil: nothing is completed here.
func newTier(c *Config, queue *redisstore.Store, keys *pgstore.Store, set *exact.Breaker, output *exact.Output) (*tier, error) {
	store, err := exact.New(exact.Config{
		Queue: queue, Set: set, Rules: c.Exact, Hasher: queue.Hasher(), Output: output, Logger: c.Logger,
		Host: func(url string) (string, error) {
			parsed, err := c.Canon.Parse(url)
			if err != nil {
				return "", err
			}
			return c.Canon.HostKey(parsed), nil
		},
	})
	return &tier{store, keys}, err
}

// Add implements frontier.Store.
func (e *sharedEngine) Add(ctx context.Context, offers []frontier.Offer) ([]frontier.Verdict, error) {
	switch {
	case e.tier != nil:
		return e.tier.Add(ctx, offers)
	case e.exactElsewhere:
		return nil, errExactElsewhere(e.home.String())
	}
	return e.Store.Add(ctx, offers)
}

// Lease implements frontier.Store.
func (e *sharedEngine) Lease(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
	if e.tier != nil {
		return e.tier.Lease(ctx, request)
	}
	return e.Store.Lease(ctx, request)
}

// Extend implements frontier.Store.
func (e *sharedEngine) Extend(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
	if e.tier != nil {
		return e.tier.Extend(ctx, id, topUp)
	}
	return e.Store.Extend(ctx, id, topUp)
}

// Complete implements frontier.Store.
func (e *sharedEngine) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, host frontier.HostUpdate) error {
	if e.tier != nil {
		return e.tier.Complete(ctx, id, done, host)
	}
	return e.Store.Complete(ctx, id, done, host)
}

// closeTier closes the connections to Postgres.
func (e *sharedEngine) closeTier() error {
	if e.tier != nil {
		e.tier.set.Close()
	}
	return nil
}

// complete adds to what the queue knows of a URL what the exact set does: how it
// ended. A nil tier knows nothing.
func (t *tier) complete(ctx context.Context, url string, status *frontier.Status) error {
	if t == nil || status.State != frontier.Done && status.State != frontier.Unknown {
		return nil
	}
	key, err := t.Where(ctx, url)
	if errors.Is(err, frontier.ErrUnavailable) {
		return nil
	}
	if key.State == exact.Done || key.State == exact.Failed {
		status.State, status.Outcome, status.Status, status.Round = key.Outcome.State(), key.Outcome, key.HTTP, key.Round
	}
	return err
}

// ExactKeys implements Upkeep.
func (e *sharedEngine) ExactKeys(ctx context.Context) (*report.ExactKeys, error) {
	if e.tier == nil {
		return nil, nil
	}
	stats, err := e.tier.set.Stats(ctx)
	if errors.Is(err, frontier.ErrUnavailable) {
		return &report.ExactKeys{Fault: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	return &report.ExactKeys{Pending: stats.Pending, Queued: stats.Queued, Done: stats.Done, Failed: stats.Failed, Lag: stats.Lag.Seconds()}, nil
}

// CancelWait implements Upkeep: a call that waits for Redis ends with its context.
func (*sharedEngine) CancelWait() {}

// Relay implements Upkeep.
func (e *sharedEngine) Relay(ctx context.Context) (stop func()) {
	if e.tier == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { _ = exact.NewRelay(e.tier.Store, exact.RelayConfig{}).Run(ctx) }) // it ends with ctx only
	running.Go(func() { e.keep(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// How often a crawl's workers note in Postgres how much waits in Redis.
const (
	keepEvery = 15 * time.Second
	keepLast  = 2 * time.Second // bounds a worker's last note
)

// keep notes how much waits until ctx ends, and then once more.
func (e *sharedEngine) keep(ctx context.Context) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		if err := e.keepOnce(ctx, keepEvery/2); err != nil && ctx.Err() == nil {
			e.log.LogAttrs(ctx, slog.LevelDebug, "not noted what waits", slog.Any("err", err))
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLast)
		defer cancel()
		_ = e.keepOnce(last, 0) // the one before stands
		return
	}
}

func (e *sharedEngine) keepOnce(ctx context.Context, age time.Duration) (err error) {
	var waits pgstore.Waited
	if waits.All, waits.Exact, err = e.Waiting(ctx); err != nil {
		return err
	}
	return e.tier.set.Keep(ctx, waits, age)
}
