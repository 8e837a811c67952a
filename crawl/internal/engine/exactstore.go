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

// exactStore is the frontier of a crawl in Redis whose exact keys are in Postgres.
type exactStore struct {
	*exact.Store
	set *pgstore.Store
}

// newExactStore returns a frontier over queue. The argument set decides whether exact
// items are new, and the argument keys is the database behind set.
func newExactStore(c *Config, queue *redisstore.Store, keys *pgstore.Store, set *exact.Breaker) *exactStore {
	store := exact.New(exact.Config{
		Queue: queue, Set: set, Rules: c.Exact, Hasher: queue.Hasher(), Logger: c.Logger,
		Host: func(url string) (string, error) {
			parsed, err := c.Canon.Parse(url)
			if err != nil {
				return "", err
			}
			return c.Canon.HostKey(parsed), nil
		},
	})
	return &exactStore{store, keys}
}

// mixedQueue is a queue whose items are added and completed through another store.
type mixedQueue struct {
	frontier.Store
	frontier.Control
	besideStore
}

// engine returns an Engine over e. All fields of e must be set before. Items are added
// and completed through the exact set, if there is one.
func (e *sharedEngine) engine(out *outputs) *Engine {
	engine := &Engine{Queue: e, Look: e, Change: e, Output: out, close: func() error {
		return errors.Join(e.Store.Close(), out.close(), e.closeExact(), e.boxes.close())
	}}
	switch {
	case e.exact != nil:
		engine.Queue = mixedQueue{e.exact, e.exact, e}
	case e.exactElsewhere:
		without := withoutSet{e, errElsewhere(e.server.String(), "exact keys")}
		engine.Queue = mixedQueue{without, without, e}
	}
	return engine
}

// withoutSet is a frontier whose exact set cannot be asked, so nothing can be added or retried.
type withoutSet struct {
	*sharedEngine
	err error
}

// Add implements frontier.Store.
func (w withoutSet) Add(context.Context, []frontier.Offer) ([]frontier.Verdict, error) {
	return nil, w.err
}

// Retry implements frontier.Control.
func (w withoutSet) Retry(context.Context, string) (int, error) { return 0, w.err }

// closeExact closes the connections to Postgres.
func (e *sharedEngine) closeExact() error {
	if e.exact != nil {
		e.exact.set.Close()
	}
	return nil
}

// addStatus adds the outcome of a URL to its status, if the exact set has the outcome.
// It does nothing if t is nil or the exact set is unavailable.
func (t *exactStore) addStatus(ctx context.Context, url string, status *frontier.Status) error {
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

// ExactKeys implements Look.
func (e *sharedEngine) ExactKeys(ctx context.Context) (*report.ExactKeys, error) {
	if e.exact == nil {
		return nil, nil
	}
	stats, err := e.exact.set.Stats(ctx)
	if errors.Is(err, frontier.ErrUnavailable) {
		return &report.ExactKeys{Fault: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	return &report.ExactKeys{Pending: stats.Pending, Queued: stats.Queued, Done: stats.Done, Failed: stats.Failed, Lag: stats.Lag.Seconds()}, nil
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
	running.Go(func() { _ = exact.NewForwarder(e.exact.Store).Run(ctx) }) // Run returns only when ctx ends
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
// once more.
func (e *sharedEngine) storeWaiting(ctx context.Context) {
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	for {
		if err := e.storeWaitingOnce(ctx, storeEvery/2); err != nil && ctx.Err() == nil {
			e.log.LogAttrs(ctx, slog.LevelDebug, "number of waiting keys not stored", slog.Any("err", err))
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
	return e.exact.set.Keep(ctx, waits, age)
}
