package fetcher

import (
	"context"
	"errors"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// Drop ends the items of a host that the present policy refuses, without a request, as a worker does that has the host. It
// goes once through the queue of the host, of which most is the length, and does not change when the host is
// due. It returns how many items it has ended. It leaves out delayed items, and does nothing while another worker has the
// host. It can be called while Run runs, or without it.
func (c *Crawl) Drop(ctx context.Context, host string, most uint64) (dropped uint64, err error) {
	return c.DropIf(ctx, host, most, func(item *frontier.Item) string { return RefusedBy(c.cfg.Policy(), c.cfg.Canon, c.cfg.Exact, item) })
}

// DropIf is like Drop for the items for which the function refused returns why they are dropped, in words.
func (c *Crawl) DropIf(ctx context.Context, host string, most uint64, refused func(*frontier.Item) string) (dropped uint64, err error) {
	for p := range frontier.Priority(frontier.Priorities) {
		var first bloomstore.Fingerprint // the first item that stays: the end of the queue comes before it
		for seen := uint64(0); seen < most; {
			n, got, more, err := c.dropSome(ctx, host, p, &first, refused)
			if dropped += n; err != nil {
				return dropped, err
			}
			if seen += got; !more {
				break
			}
		}
	}
	return dropped, nil
}

// dropSome looks at the first items of a host with one priority. Those that stay go to the end of the queue. It returns
// how many items it has ended, and how many it has seen. more is false if all were seen.
func (c *Crawl) dropSome(ctx context.Context, host string, p frontier.Priority, first *bloomstore.Fingerprint,
	refused func(*frontier.Item) string) (dropped, seen uint64, more bool, err error) {
	var grant frontier.Grant
	request := frontier.LeaseRequest{Worker: c.cfg.Worker, IDs: newLeaseIDs(1), Hosts: []string{host}, Priority: p}
	err = c.whileUnavailable(ctx, func() (err error) {
		grant, err = c.cfg.Store.Lease(ctx, request)
		return err
	})
	if err != nil || len(grant.Leases) == 0 {
		return 0, 0, false, err
	}
	crash.Point("drop leased")
	h := &holding{Crawl: c, lease: grant.Leases[0]}
	done := make([]frontier.Completion, 0, len(h.lease.Items))
	more = true
	for _, item := range h.lease.Items {
		if item.Fingerprint == *first {
			more = false
		}
		switch why := refused(&item); {
		case why != "" && item.Deliveries < frontier.MaxDeliveries:
			done = append(done, h.conclusion(item, frontier.Dropped, "", why))
			dropped++
		case !more: // this one and those after it were seen before
			done = append(done, frontier.Completion{Item: item.Fingerprint, Disposition: frontier.GiveBack})
		default:
			done = append(done, frontier.Completion{Item: item.Fingerprint, Disposition: frontier.Last})
			if *first == (bloomstore.Fingerprint{}) {
				*first = item.Fingerprint
			}
		}
	}
	err = c.whileUnavailable(ctx, func() error {
		return c.cfg.Store.Complete(ctx, h.lease.ID, done, frontier.HostUpdate{Keep: true, End: true})
	})
	if sink, ok := c.cfg.Sink.(record.Settler); ok {
		for i := range done {
			sink.Settle(done[i].Item, h.lease.ID, err == nil)
		}
	}
	switch {
	case errors.Is(err, frontier.ErrLeaseLost): // it took too long; another worker may have the host
		return 0, uint64(len(done)), true, nil
	case err != nil:
		return 0, 0, false, err
	}
	crash.Point("drop completed")
	c.tally.finish(done)
	return dropped, uint64(len(done)), more, nil
}
