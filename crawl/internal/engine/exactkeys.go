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

// exactSetting is the name of the setting that a crawl in Redis has if its exact keys
// are in Postgres. Exact keys are the fingerprints of exact URLs.
const exactSetting = "exact-set"

// exactKeys are the exact keys of a crawl in Redis, which are in Postgres.
type exactKeys struct {
	*pgstore.Store
	forwarder *exact.Forwarder
}

// newExactKeys returns the exact keys of a crawl whose queue has client as its exact set.
func newExactKeys(c *Config, queue *redisstore.Store, keys *pgstore.Store, client *exact.Client) *exactKeys {
	return &exactKeys{keys, &exact.Forwarder{Client: client, Queue: queue, Host: func(url string) (string, error) {
		parsed, err := c.Canon.Parse(url)
		if err != nil {
			return "", err
		}
		return c.Canon.HostKey(parsed), nil
	}}}
}

// engine returns an Engine over e. All fields of e must be set before.
func (e *sharedEngine) engine(out *outputs) *Engine {
	return &Engine{Queue: e, Look: e, Change: e, Versions: e, Output: out, close: func() error {
		return errors.Join(e.Store.Close(), out.close(), e.closeExact(), e.boxes.close())
	}}
}

// closeExact closes the connections to Postgres.
func (e *sharedEngine) closeExact() error {
	if e.exact != nil {
		e.exact.Close()
	}
	return nil
}

// ExactKeys implements Look.
func (e *sharedEngine) ExactKeys(ctx context.Context) (*report.ExactKeys, error) {
	if e.exact == nil {
		return nil, nil
	}
	stats, err := e.exact.Stats(ctx)
	if errors.Is(err, frontier.ErrUnavailable) {
		return &report.ExactKeys{Fault: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	return &report.ExactKeys{Pending: stats.Pending, Queued: stats.Queued, Done: stats.Done, Failed: stats.Failed,
		Due: stats.Due, Lag: stats.Lag.Seconds()}, nil
}

// CancelWait implements Queue. It does nothing: a call that waits for Redis ends
// with its context.
func (*sharedEngine) CancelWait() {}

// Forward implements Queue.
func (e *sharedEngine) Forward(ctx context.Context) (stop func()) {
	if e.exact == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { _ = e.exact.forwarder.Run(ctx) }) // Run returns only when ctx ends
	running.Go(func() { e.storeWaiting(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// Each worker of a crawl stores in Postgres how many URLs are queued or leased in Redis.
const (
	storeEvery       = 15 * time.Second // between two attempts to store the number
	lastStoreTimeout = 2 * time.Second  // timeout for storing the number when a worker ends
)

// storeWaiting stores the number of waiting URLs every storeEvery until ctx ends, and then
// once more. It also stores in Redis a version of the policy that only Postgres has.
func (e *sharedEngine) storeWaiting(ctx context.Context) {
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	for {
		_, err := e.LastVersion(ctx)
		if err := errors.Join(err, e.storeWaitingOnce(ctx, storeEvery/2)); err != nil && ctx.Err() == nil {
			e.log.LogAttrs(ctx, slog.LevelDebug, "number of waiting keys or policy not stored", slog.Any("err", err))
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastStoreTimeout)
		defer cancel()
		_ = e.storeWaitingOnce(last, 0) // after an error, the number that was stored before stays
		return
	}
}

func (e *sharedEngine) storeWaitingOnce(ctx context.Context, age time.Duration) (err error) {
	var waits pgstore.Waited
	if waits.All, waits.Exact, err = e.Waiting(ctx); err != nil {
		return err
	}
	return e.exact.Keep(ctx, waits, age)
}
