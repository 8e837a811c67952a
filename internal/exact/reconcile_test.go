package exact_test

import (
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// TestReconcileAfterLoss: Reconcile queues all waiting items, in their rounds, after the
// queue has lost everything.
func TestReconcileAfterLoss(t *testing.T) {
	d := newDesk(t, exact.Windows{4: time.Hour}, 0)
	d.offer(frontier.Added, d.page(2), d.page(5), d.page(4), d.page(3))
	d.finishAll()
	d.clock.Advance(time.Hour)
	d.offer(frontier.Added, d.page(2), d.page(8))
	d.useQueue(d.newQueue(0, 0))
	got, err := d.forwarder.Reconcile(t.Context(), false)
	want := exact.Reconciled{Offered: 2, Added: 2}
	if err != nil || got != want {
		t.Errorf("Reconcile = %+v, %v; want %+v", got, err, want)
	}
	rounds := map[string]uint32{}
	for range 2 {
		for _, item := range d.lease().Items {
			rounds[item.URL] = item.Round
		}
	}
	if len(rounds) != 2 || rounds[d.page(2).URL] != 1 || rounds[d.page(8).URL] != 0 {
		t.Errorf("after Reconcile the queue leases the rounds %v, want page 2 in round 1 and page 8 in round 0", rounds)
	}
}

// TestForwarderPromotes: a worker dies after the set has decided that a finished bulk URL is new as
// an exact URL. The forwarder queues the URL, but not in the round of the bulk URL.
func TestForwarderPromotes(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	found := d.page(1) // its class depends on how it was found
	bulk := found
	bulk.Class = frontier.Bulk
	d.offer(frontier.Added, bulk)
	d.finishAll()
	print := d.queue.Hasher().Fingerprint(found.URL)
	if _, err := d.weak.Decide(t.Context(), []exact.Key{{Fingerprint: print, URL: found.URL, Class: found.Class}}); err != nil {
		t.Fatal(err)
	}
	d.clock.Advance(2 * time.Minute)
	d.must(d.forwarder.Tidy(t.Context()))
	if l := d.lease(); len(l.Items) != 1 || l.Items[0].Round != 1 {
		t.Errorf("the forwarder queued %+v, want %s in round 1", l.Items, found.URL)
	}
}

// TestRoundsAfterSweep: a bulk URL is retried. The set sweeps its expired keys, and so cannot
// know which URLs it had before. Then the bulk URL is found as an exact URL. The URL must be
// queued in a round that it has not had.
func TestRoundsAfterSweep(t *testing.T) {
	d := newDesk(t, exact.Windows{4: time.Hour}, 0)
	found, swept := d.page(1), d.page(2)
	found.Class = 4
	bulk := found
	bulk.Class = frontier.Bulk
	d.offer(frontier.Added, bulk)
	l := d.lease()
	d.fail(l)
	if n, err := d.queue.Retry(t.Context(), frontier.Failures{}); n != 1 || err != nil {
		t.Fatalf("Retry = %d, %v; want 1", n, err)
	}
	d.offer(frontier.Added, swept)
	d.finishAll() // the bulk URL in round 1
	d.clock.Advance(2 * time.Hour)
	d.must(d.forwarder.Tidy(t.Context()))
	d.state(swept, exact.Unknown, 0)
	d.offer(frontier.Added, found)
	d.clock.Advance(time.Second)
	if got := d.lease().Items; len(got) != 1 || got[0].URL != found.URL || got[0].Round != 2 {
		t.Errorf("after the sweep the queue leases %+v, want %s in round 2", got, found.URL)
	}
}

// TestRetryOfSweptKeys: three times, a URL fails, its key is swept, and the URL is retried. The
// set must know each round, so that a link to the URL is not queued in a round that the URL has
// had.
func TestRetryOfSweptKeys(t *testing.T) {
	d := newDesk(t, exact.Windows{4: time.Hour}, 0)
	page := d.page(2)
	fail := func(round uint32) {
		t.Helper()
		l := d.lease()
		if len(l.Items) != 1 || l.Items[0].Round != round {
			t.Fatalf("the queue leases %+v, want one item in round %d", l.Items, round)
		}
		d.fail(l)
		d.state(page, exact.Failed, round)
		d.clock.Advance(time.Second)
	}
	retry := func() {
		t.Helper()
		if n, err := d.queue.Retry(t.Context(), frontier.Failures{}); n != 1 || err != nil {
			t.Fatalf("Retry = %d, %v; want 1", n, err)
		}
	}
	d.offer(frontier.Added, page)
	fail(0)
	retry()
	fail(1) // the window was not over
	for i := range uint32(3) {
		d.clock.Advance(2 * time.Hour)
		d.must(d.forwarder.Tidy(t.Context()))
		d.state(page, exact.Unknown, 0)
		retry()
		d.offer(frontier.Seen, page)
		fail(3 + 2*i) // an unknown key begins two rounds after the swept key
	}
	d.clock.Advance(2 * time.Hour)
	retry() // the key was not swept
	const last = 3 + 5
	fail(last)

	retry() // the window is not over; it ends while the item waits
	d.clock.Advance(2 * time.Hour)
	d.must(d.forwarder.Tidy(t.Context()))
	d.state(page, exact.Unknown, 0)
	d.finishAll()
	d.offer(frontier.Added, page)
	d.clock.Advance(time.Second)
	if l := d.lease(); len(l.Items) != 1 || l.Items[0].Round != last+2 {
		t.Errorf("after a retry in round %d, the queue leases %+v, want round %d", last+1, l.Items, last+2)
	}
}

// TestReconcileMeetsCompletion: an item ends after Reconcile has read the set and before
// it asks the queue about the item. Reconcile must not queue the item again.
func TestReconcileMeetsCompletion(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(2))
	l := d.lease()
	d.weak.late = func(op string) {
		if op != "waiting" {
			return
		}
		d.weak.late = nil
		c := frontier.Completion{Item: l.Items[0].Fingerprint, Outcome: frontier.Network}
		d.must(d.complete(l, c))
	}
	got, err := d.forwarder.Reconcile(t.Context(), false)
	if want := (exact.Reconciled{Offered: 1}); err != nil || got != want {
		t.Errorf("Reconcile = %+v, %v; want %+v", got, err, want)
	}
	d.state(d.page(2), exact.Failed, 0)
}

// TestLossIsFoundAtTheEnd: if the queue has been empty for a minute and keys
// wait in the set, the forwarder queues them again.
func TestLossIsFoundAtTheEnd(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(2))
	d.useQueue(d.newQueue(0, 0))
	for range 13 {
		if grant := d.grant(); len(grant.Leases) > 0 || grant.Empty {
			t.Fatalf("Lease within the first minute = %+v, want no lease and not Empty", grant)
		}
		d.forward()
		d.clock.Advance(5 * time.Second)
	}
	d.forward()
	if grant := d.grant(); len(grant.Leases) != 1 {
		t.Errorf("Lease after the forwarder queued the keys again = %+v, want one lease", grant)
	}
}

// TestRoundsDoNotRepeat: see frontiertest.Rounds.
func TestRoundsDoNotRepeat(t *testing.T) {
	runs := 300
	if *proof {
		runs = 20_000
	}
	first, runs := suite.FirstSeed(*seed, runs)
	for i := range runs {
		d := newDesk(t, exact.Windows{frontier.Listed: frontiertest.Window}, 0)
		frontiertest.Rounds(t, d.queue, d.clock, func() { d.must(d.forwarder.Tidy(t.Context())) }, first+uint64(i))
	}
}
