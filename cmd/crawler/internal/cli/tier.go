package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/exact"
	"github.com/bloomfrontier/crawler/frontier/pgstore"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
)

// exactSetting is the setting of a crawl whose exact keys are in Postgres.
const exactSetting = "exact-set"

// tier is the Postgres beside a crawl in Redis, which has its exact keys.
type tier struct {
	*exact.Store
	set *pgstore.Store
}

// errNoTier says that a crawl's exact keys are in a Postgres that nobody named.
func (h *sharedHome) errNoTier() error {
	return usage(fmt.Errorf("the exact keys of %s are in Postgres: name it with --postgres", h.title()))
}

// newTier has keys decide about the exact items of queue. output is the queue's;
// nil: nothing is completed here.
func (p *plan) newTier(queue *redisstore.Store, keys *pgstore.Store, set *exact.Breaker, output *exact.Output, o opening) (*tier, error) {
	store, err := exact.New(exact.Config{
		Queue: queue, Set: set, Rules: p.options.exact.Rules, Hasher: queue.Hasher(), Host: p.hostKeyOf, Output: output,
		Crash: o.crash, Logger: o.log,
	})
	return &tier{store, keys}, err
}

// hostKeyOf returns the host key of a canonical URL.
func (p *plan) hostKeyOf(url string) (string, error) {
	parsed, err := p.canon.Parse(url)
	if err != nil {
		return "", err
	}
	return p.canon.HostKey(parsed), nil
}

// Add implements frontier.Store.
func (e *sharedEngine) Add(ctx context.Context, items []frontier.Item) ([]frontier.Verdict, error) {
	switch {
	case e.tier != nil:
		return e.tier.Add(ctx, items)
	case e.exactElsewhere:
		return nil, e.home.errNoTier()
	}
	return e.Store.Add(ctx, items)
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

// Close implements upkeep.
func (e *sharedEngine) Close() error {
	err := e.Store.Close()
	if e.tier != nil {
		e.tier.set.Close()
	}
	return err
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

// exactKeys implements upkeep.
func (e *sharedEngine) exactKeys(ctx context.Context) (*report.ExactKeys, error) {
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

// letGo implements upkeep: whoever waits for a Redis does so with a context.
func (*sharedEngine) letGo() {}

// relay implements upkeep: it runs until stop.
func (e *sharedEngine) relay(ctx context.Context) (stop func()) {
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
