package speed

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
)

// waiting is the number of queued items. It stays the same during the measurement. Each
// host has 32 items.
const waiting = 32_000

// pages is a workload that leases hosts and completes their items: it stores a result for
// each item, as if the item had been fetched as a page.
func pages(ctx context.Context, turn *report.Turn, table *report.Table, set *sets.Set, kind sets.Kind, n int, keys uint64) error {
	const filled = 1000
	for first := uint64(0); first < waiting; first += filled {
		if _, err := set.Add(ctx, links(first, filled)); err != nil {
			return err
		}
	}
	q := queue{store: set.Store}
	q.known.Store(waiting)
	for i, onPage := range pageLinks {
		m := measure(ctx, set, n, keys/32+1, turn.Left()/time.Duration(len(pageLinks)-i), func(ctx context.Context, _ uint64) error {
			_, err := q.turn(ctx, onPage, func(call func() error) error { return call() })
			return err
		}, func(ctx context.Context, _ uint64, timed timer) (uint64, error) { return q.turn(ctx, onPage, timed) })
		if m.err != nil {
			return m.err
		}
		m.row(table, kind, n, onPage)
		turn.Found("%.3g pages/s with %d links each", m.rate(), onPage)
	}
	return nil
}

// queue is a store, for a workload that leases and completes items.
type queue struct {
	store frontier.Store
	known atomic.Uint64 // number of different links that were offered
}

// turn leases a host, completes its items as pages, and ends the lease. It returns the
// number of items.
func (q *queue) turn(ctx context.Context, links uint64, timed timer) (uint64, error) {
	var id frontier.LeaseID
	_, _ = rand.Read(id[:])
	grant, err := q.store.Lease(ctx, frontier.LeaseRequest{Worker: "bench", IDs: []frontier.LeaseID{id}, InFlight: 1})
	if err != nil {
		return 0, err
	}
	if len(grant.Leases) == 0 { // other callers have leased all hosts that are due
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Millisecond):
			return 0, nil
		}
	}
	lease := grant.Leases[0]
	for i := range lease.Items {
		done := frontier.Completion{
			Item: lease.Items[i].Fingerprint, Outcome: frontier.OK, Status: 200, Page: true, Links: q.links(links),
		}
		update := frontier.HostUpdate{End: i == len(lease.Items)-1}
		if err := timed(func() error {
			return q.store.Complete(ctx, lease.ID, []frontier.Completion{done}, update)
		}); err != nil {
			return uint64(i), err
		}
	}
	return uint64(len(lease.Items)), nil
}

// links returns n links of a page. One of them is new.
func (q *queue) links(n uint64) []frontier.Offer {
	fresh := q.known.Add(1) - 1
	offers := make([]frontier.Offer, 0, n)
	for i := range n - 1 {
		offers = append(offers, links((fresh*n+i)%waiting, 1).Offer(0))
	}
	return append(offers, links(fresh, 1).Offer(0))
}
