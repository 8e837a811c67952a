package exact_test

import (
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// desk is a crawl of a small web, see the type world, in one process that does not die.
type desk struct{ *world }

func newDesk(t *testing.T, windows exact.Windows, most uint64) *desk {
	w := newWorld(t, 30, windows)
	w.start()
	w.useQueue(w.newQueue(10*time.Minute, most))
	return &desk{w}
}

func (d *desk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// offer adds items and checks the answers.
func (d *desk) offer(want frontier.Answer, items ...frontier.Offer) {
	d.Helper()
	verdicts, err := d.queue.Add(d.Context(), items)
	d.must(err)
	for i, v := range verdicts {
		if v.Answer != want {
			d.Errorf("Add of %s = %v (reason %q), want %v", items[i].URL, v.Answer, v.Reason, want)
		}
	}
}

// grant asks for a lease of one host.
func (d *desk) grant() frontier.Grant {
	d.Helper()
	grant, err := d.queue.Lease(d.Context(), frontier.LeaseRequest{Worker: "w", IDs: []frontier.LeaseID{d.leaseID()}, InFlight: 1})
	d.must(err)
	return grant
}

func (d *desk) lease() frontier.Lease {
	d.Helper()
	grant := d.grant()
	if len(grant.Leases) != 1 {
		d.Fatalf("Lease = %+v, want one lease", grant)
	}
	return grant.Leases[0]
}

func (d *desk) complete(l frontier.Lease, done ...frontier.Completion) error {
	return d.queue.Complete(d.Context(), l.ID, done, frontier.HostUpdate{})
}

// fail ends a lease whose one item failed.
func (d *desk) fail(l frontier.Lease) {
	d.Helper()
	failed := frontier.Completion{Item: l.Items[0].Fingerprint, Outcome: frontier.Network}
	d.must(d.queue.Complete(d.Context(), l.ID, []frontier.Completion{failed}, frontier.HostUpdate{End: true}))
}

// at returns the state of a URL in the set.
func (d *desk) at(url string) exact.Status {
	d.Helper()
	status, err := d.client.Set.Lookup(d.Context(), d.queue.Hasher().Fingerprint(url))
	d.must(err)
	return status
}

// state checks the state of a URL in the set.
func (d *desk) state(item frontier.Offer, want exact.State, round uint32) {
	d.Helper()
	if status := d.at(item.URL); status.State != want || status.Round != round {
		d.Errorf("the set has %s in state %q and round %d, want %q and round %d", item.URL, status.State, status.Round, want, round)
	}
}

// finishAll completes everything that can be leased, without links.
func (d *desk) finishAll() {
	d.Helper()
	for {
		grant := d.grant()
		if len(grant.Leases) == 0 {
			return
		}
		var done []frontier.Completion
		for _, item := range grant.Leases[0].Items {
			c := d.completion(item)
			c.Links = nil
			done = append(done, c)
		}
		d.must(d.queue.Complete(d.Context(), grant.Leases[0].ID, done, frontier.HostUpdate{End: true}))
	}
}

// failing makes the first calls of op fail before they take effect.
func (d *desk) failing(op string, calls int) {
	d.weak.fails = func(call string, _ int) (before, after bool) {
		if call == op && calls > 0 {
			calls--
			return true, false
		}
		return false, false
	}
}
