package exact_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// TestDecisionsOfSet checks the decision that the queue gets for each kind of answer and
// rule.
func TestDecisionsOfSet(t *testing.T) {
	d := newDesk(t, exact.Windows{4: time.Hour}, 0)
	pure, found, bulk := d.page(2), d.page(1), d.page(3)
	malformed := frontier.Offer{URL: "", Host: "h", Class: 4}
	if _, err := d.store.Add(t.Context(), []frontier.Offer{pure, found, bulk, pure, malformed}); err != nil {
		t.Fatal(err)
	}
	d.wantDecisions(d.asked.added[0], frontier.New, frontier.Promoted, frontier.Undecided, frontier.New, frontier.Undecided)
	d.offer(frontier.Seen, pure, found, bulk)
	d.wantDecisions(d.asked.added[1], frontier.Known, frontier.Known, frontier.Undecided)
	d.state(pure, exact.Queued, 0)
	d.state(found, exact.Queued, 0)
	d.state(bulk, exact.Unknown, 0)
	d.finishAll()
	d.state(pure, exact.Done, 0)
	d.clock.Advance(time.Hour)
	d.offer(frontier.Added, pure)
	d.wantDecisions(d.asked.added[2], frontier.Again)
	if l := d.lease(); len(l.Items) != 1 || l.Items[0].Round != 1 {
		t.Errorf("the lease has the items %+v, want one in round 1", l.Items)
	}
}

// TestRefusedIsWithdrawn: keys that the queue refuses, including keys of links, are
// withdrawn from the set.
func TestRefusedIsWithdrawn(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 2)
	first, second, third := d.page(2), d.page(14), d.page(26)
	first.Host, second.Host, third.Host = "h", "h", "h"
	d.offer(frontier.Added, first, second)
	d.offer(frontier.Refused, third, third)
	d.state(third, exact.Unknown, 0)
	l := d.lease()
	c := d.completion(l.Items[0])
	c.Links = []frontier.Offer{d.page(5), third, first}
	var refused []int
	c.LinkRefused = func(link int, _ frontier.Reason) { refused = append(refused, link) }
	d.must(d.complete(l, c))
	d.state(third, exact.Unknown, 0)
	d.state(d.page(5), exact.Queued, 0)
	if !slices.Equal(refused, []int{1}) {
		t.Errorf("LinkRefused was called for the links %v, want link 1", refused)
	}
}

// TestAddWhileAway: while the set is unavailable, Add accepts bulk items but no exact
// ones. If the set decided about items but its answer was lost, a forwarder queues them, and
// the crawl is not empty before that.
func TestAddWhileAway(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.weak.fails = func(string, int) (before, after bool) { return false, true }
	if _, err := d.store.Add(t.Context(), []frontier.Offer{d.page(2)}); !errors.Is(err, frontier.ErrUnavailable) {
		t.Errorf("Add of an exact item while the set is unavailable: %v, want ErrUnavailable", err)
	}
	d.offer(frontier.Added, d.page(3))
	d.weak.fails = nil
	d.finishAll()
	d.state(d.page(2), exact.Pending, 0)
	d.offer(frontier.Seen, d.page(2))
	grant, err := d.store.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{d.leaseID()}})
	if err != nil || grant.Empty || grant.Wait < time.Second {
		t.Errorf("Lease while a key is pending = %+v, %v; want a wait and not Empty", grant, err)
	}
	d.clock.Advance(61 * time.Second)
	d.forward(d.forwarder)
	d.state(d.page(2), exact.Queued, 0)
	d.finishAll()
	grant, err = d.store.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{d.leaseID()}})
	if err != nil || !grant.Empty {
		t.Errorf("Lease after all items are done = %+v, %v; want Empty", grant, err)
	}
}

// TestLateAddDoesNotWithdraw: a key that is refused long after it was decided is not
// withdrawn, because a forwarder might have queued it.
func TestLateAddDoesNotWithdraw(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 1)
	d.offer(frontier.Added, frontier.Offer{URL: "https://h0.test/", Host: "h0.test"})
	late := d.page(8) // of the same host
	d.asked.slow = func() { d.clock.Advance(11 * time.Second) }
	d.offer(frontier.Refused, late)
	d.state(late, exact.Pending, 0)
}

// TestRepeatOffersTheSame: a Complete whose reply was lost offers its links with the
// same decisions, unless the decisions are too old.
func TestRepeatOffersTheSame(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(3))
	l := d.lease()
	c := d.completion(l.Items[0])
	c.Links = []frontier.Offer{d.page(2), d.page(6)}
	for i := range 3 {
		d.asked.complete, d.asked.early = frontier.ErrUnavailable, true
		if err := d.complete(l, c); !errors.Is(err, frontier.ErrUnavailable) {
			t.Fatal(err)
		}
		d.wantDecisions(d.asked.made[i][0].Links, frontier.New, frontier.Undecided)
		d.clock.Advance(4 * time.Second)
	}
	d.must(d.complete(l, c))
	d.wantDecisions(d.asked.made[3][0].Links, frontier.Known, frontier.Undecided)
	d.state(d.page(2), exact.Pending, 0)
	if c.Links[0].Decision != frontier.Undecided {
		t.Error("Complete changed the links of its caller")
	}
	d.clock.Advance(time.Minute)
	d.forward(d.forwarder)
	d.state(d.page(2), exact.Queued, 0)
}

// TestRepeatAfterLinkIsFinished: a Complete queues a new link and fails. The link is fetched and
// finished before the Complete is repeated, and is not queued again.
func TestRepeatAfterLinkIsFinished(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(3))
	l := d.lease()
	c := d.completion(l.Items[0])
	c.Links = []frontier.Offer{d.page(2)}
	d.asked.complete, d.asked.early = frontier.ErrUnavailable, true
	if err := d.complete(l, c); !errors.Is(err, frontier.ErrUnavailable) {
		t.Fatal(err)
	}
	if _, err := d.queue.Add(t.Context(), d.asked.made[0][0].Links); err != nil { // as the failed call did
		t.Fatal(err)
	}
	d.finishAll()
	d.state(d.page(2), exact.Done, 0)
	d.must(d.complete(l, c))
	d.wantDecisions(d.asked.made[len(d.asked.made)-1][0].Links, frontier.Known)
	if grant, err := d.store.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{d.leaseID()}}); err != nil || len(grant.Leases) > 0 {
		t.Errorf("Lease = %+v, %v, want none: the link is finished", grant, err)
	}
}

// TestRepeatOfACompletionDecidesNothing: the set is not asked about the links of a repeated
// completion, because the queue ignores the repeat.
func TestRepeatOfACompletionDecidesNothing(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(3))
	l := d.lease()
	c := d.completion(l.Items[0])
	c.Links = nil
	d.must(d.complete(l, c))
	c.Links = []frontier.Offer{d.page(2)}
	d.must(d.complete(l, c))
	d.state(d.page(2), exact.Unknown, 0)
	d.must(d.store.Complete(t.Context(), l.ID, nil, frontier.HostUpdate{End: true}))
	d.must(d.complete(l, c))
	d.state(d.page(2), exact.Unknown, 0)
}

// TestLostLeaseDecidesNothing: the set is not asked about the links of a completion under an
// expired lease, or under a lease of another process.
func TestLostLeaseDecidesNothing(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(3))
	l := d.lease()
	c := d.completion(l.Items[0])
	c.Links = []frontier.Offer{d.page(2)}
	foreign := l
	foreign.ID = d.leaseID()
	if err := d.complete(foreign, c); !errors.Is(err, frontier.ErrLeaseLost) {
		t.Errorf("Complete of a lease of another process: %v, want ErrLeaseLost", err)
	}
	d.clock.Advance(10 * time.Minute)
	if err := d.complete(l, c); !errors.Is(err, frontier.ErrLeaseLost) {
		t.Errorf("Complete of an expired lease: %v, want ErrLeaseLost", err)
	}
	d.state(d.page(2), exact.Unknown, 0)
}

// TestFrozenBeforeLease: a process stands still after it began a call and before the queue
// answers, so it takes the granted lease for one that is over, and forgets it. If the queue
// extends the lease afterwards, no item ends in the queue whose end the set does not know.
func TestFrozenBeforeLease(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(3), d.page(2))
	d.asked.frozen = func() { d.clock.Advance(11 * time.Minute) }
	l := d.lease()
	d.asked.frozen = nil
	d.clock.Advance(time.Second)
	if _, err := d.store.Lease(t.Context(), frontier.LeaseRequest{Worker: "w", IDs: []frontier.LeaseID{d.leaseID()}}); err != nil {
		t.Fatal(err)
	}
	_, extended := d.store.Extend(t.Context(), l.ID, frontier.TopUp{Known: math.MaxInt})
	completed := d.complete(l, d.completion(l.Items[0]))
	for _, err := range []error{extended, completed} {
		if err != nil && !errors.Is(err, frontier.ErrLeaseLost) {
			t.Errorf("%v, want nil or ErrLeaseLost", err)
		}
	}
	at, err := d.queue.Lookup(t.Context(), l.Items[0].Host, l.Items[0].URL)
	d.must(err)
	status, err := d.store.Where(t.Context(), l.Items[0].URL)
	d.must(err)
	if (at.State == frontier.Done) != (status.State == exact.Done) {
		t.Errorf("after Extend (%v) and Complete (%v) the queue has the item in state %v and the set in %q", extended, completed, at.State, status.State)
	}
}

// TestExtendAnsweredLate: the answer to Extend arrives after the lease's former end, and
// another call has removed the lease in between. The items of the lease stay known.
func TestExtendAnsweredLate(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(3), d.page(2))
	l := d.lease()
	d.clock.Advance(9 * time.Minute)
	if _, err := d.queue.Extend(t.Context(), l.ID, frontier.TopUp{}); err != nil { // the server has done it, and its answer is on the way
		t.Fatal(err)
	}
	d.asked.frozen = func() {
		d.asked.frozen = nil
		d.clock.Advance(2 * time.Minute)
		if _, err := d.store.Lease(t.Context(), frontier.LeaseRequest{Worker: "w", IDs: []frontier.LeaseID{d.leaseID()}}); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.store.Extend(t.Context(), l.ID, frontier.TopUp{Known: math.MaxInt}); err != nil {
		t.Fatal(err)
	}
	d.must(d.complete(l, d.completion(l.Items[0])))
	d.state(l.Items[0].Offer(), exact.Done, 0)
}

// TestCompleteWhileAway: while the set is away, Complete refuses exact items and pages with exact links
// before the queue hears of them, and completes all others. When the set answers again, the repeated
// calls take effect once.
func TestCompleteWhileAway(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(0), d.page(4), d.page(8)) // bulk, and exact twice; of one host
	d.offer(frontier.Added, d.page(12))
	l := d.lease()
	byURL := map[string]frontier.Completion{}
	for _, item := range l.Items {
		c := d.completion(item)
		c.Links = nil
		byURL[item.URL] = c
	}
	linking, plain := byURL[d.page(0).URL], byURL[d.page(12).URL]
	linking.Links = []frontier.Offer{d.page(2), d.page(8), d.page(6), d.page(2)}
	bare := byURL[d.page(4).URL]
	bare.Record = nil
	waiting := []frontier.Completion{linking, byURL[d.page(8).URL], bare}
	d.weak.fails = func(string, int) (before, after bool) { return true, false }
	for range 3 {
		for _, c := range waiting {
			if err := d.complete(l, c); !errors.Is(err, frontier.ErrUnavailable) {
				t.Errorf("Complete while the set is away = %v, want ErrUnavailable", err)
			}
		}
	}
	d.must(d.complete(l, plain))
	if n := len(d.asked.made); n > 2 { // one call found out that the set is away, after the queue had the record
		t.Errorf("the queue got %d completions while the set was away, want that of the bulk item and at most one more", n)
	}
	d.weak.fails = nil
	for range 2 {
		for _, c := range waiting {
			d.must(d.complete(l, c))
		}
	}
	d.state(d.page(2), exact.Queued, 0)
	d.state(d.page(8), exact.Done, 0)
	stats, err := d.store.Stats(t.Context())
	if err != nil || stats.Balance() != nil || stats.Found != 8 || stats.Added != 6 || stats.Seen != 2 || stats.Done != 4 {
		t.Errorf("Stats at the end = %+v, %v; want 8 found, 6 added, 2 seen, 4 done", stats, err)
	}
	for ref, n := range d.files.synced {
		if n != 1 {
			t.Errorf("%x has %d records, want 1", ref.Fingerprint[:4], n)
		}
	}
}

// TestFinishIsTriedAgain: a queue that has written a record does not write it again when
// the completion is repeated. The set must store the end nevertheless.
func TestFinishIsTriedAgain(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.asked.output, d.asked.wrote = d.out, map[bloomstore.Fingerprint]bool{}
	d.offer(frontier.Added, d.page(2))
	l := d.lease()
	c := d.completion(l.Items[0])
	c.Links = nil
	d.weak.fails = func(op string, call int) (before, after bool) { return op == "finish" && call == 0, false }
	if err := d.complete(l, c); !errors.Is(err, frontier.ErrUnavailable) {
		t.Fatal(err)
	}
	d.offer(frontier.Added, d.page(5)) // the set is available again
	d.must(d.complete(l, c))
	d.state(d.page(2), exact.Done, 0)
	if len(d.files.synced) != 1 {
		t.Errorf("synced records %v, want one", d.files.synced)
	}
}

// TestFinishWithoutRecord: while the set cannot store the end of an item without a record, the queue
// does not complete the item.
func TestFinishWithoutRecord(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(2))
	l := d.lease()
	bare := frontier.Completion{Item: l.Items[0].Fingerprint, Outcome: frontier.Network}
	d.weak.fails = func(op string, call int) (before, after bool) { return op == "finish" && call == 0, false }
	if err := d.complete(l, bare); !errors.Is(err, frontier.ErrUnavailable) {
		t.Fatalf("Complete while the set cannot finish keys: %v, want ErrUnavailable", err)
	}
	if at, err := d.queue.Lookup(t.Context(), l.Items[0].Host, l.Items[0].URL); err != nil || at.State != frontier.Leased {
		t.Errorf("the queue has the item in state %v (%v), want leased", at.State, err)
	}
	d.must(d.complete(l, bare))
	d.state(d.page(2), exact.Failed, 0)
}

// TestRetriedItemGetsNewRound: an item that failed and is offered again has a
// new round in the queue, and the set adopts it.
func TestRetriedItemGetsNewRound(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(2))
	l := d.lease()
	c := d.completion(l.Items[0])
	c.Outcome, c.Status, c.Links = frontier.Network, 0, nil
	d.must(d.store.Complete(t.Context(), l.ID, []frontier.Completion{c}, frontier.HostUpdate{End: true}))
	d.state(d.page(2), exact.Failed, 0)
	if n, err := d.store.Retry(t.Context(), ""); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	d.finishAll()
	d.state(d.page(2), exact.Done, 1)
}

// TestNewAgainUnderOneLease: a key whose window has ended is leased again to the worker
// that still leases its host. The set decides about its links, and the key is finished like
// any other key.
func TestNewAgainUnderOneLease(t *testing.T) {
	d := newDesk(t, exact.Windows{4: 10 * time.Second}, 0)
	d.offer(frontier.Added, d.page(2), d.page(6)) // the second page is not finished and keeps the host leased
	l := d.lease()
	at := slices.IndexFunc(l.Items, func(it frontier.Item) bool { return it.URL == d.page(2).URL })
	c := d.completion(l.Items[at])
	c.Links = nil
	d.must(d.complete(l, c))
	d.state(d.page(2), exact.Done, 0)
	d.clock.Advance(11 * time.Second)
	d.offer(frontier.Added, d.page(2))
	more, err := d.store.Extend(t.Context(), l.ID, frontier.TopUp{Items: 8, Known: len(l.Items)})
	if err != nil || len(more.Items) != 1 || more.Items[0].Round != 1 {
		t.Fatalf("Extend: items %+v, error %v; want only the first item, in round 1", more.Items, err)
	}
	c = d.completion(more.Items[0])
	c.Links = []frontier.Offer{d.page(5)}
	d.must(d.complete(l, c))
	d.wantDecisions(d.asked.made[len(d.asked.made)-1][0].Links, frontier.New)
	d.state(d.page(5), exact.Queued, 0)
	d.state(d.page(2), exact.Done, 1)
}
