package exact_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// TestDecisionsOfSet checks the decision for each kind of answer and rule.
func TestDecisionsOfSet(t *testing.T) {
	d := newDesk(t, exact.Windows{4: time.Hour}, 0)
	pure, found, bulk := d.page(2), d.page(1), d.page(3)
	malformed := frontier.Offer{URL: "", Host: "h", Class: 4}
	want := func(offers []frontier.Offer, want ...exact.Decision) {
		t.Helper()
		got, err := d.client.Decide(t.Context(), d.queue.Hasher(), offers)
		d.must(err)
		for i := range want {
			if want[i].Kind != exact.Undecided {
				want[i].Print = d.queue.Hasher().Fingerprint(offers[i].URL)
			}
		}
		if !slices.Equal(got.Each, want) {
			t.Errorf("decisions %+v, want %+v", got.Each, want)
		}
	}
	undecided, known := exact.Decision{}, exact.Decision{Kind: exact.Known}
	want([]frontier.Offer{bulk, malformed})
	isNew := exact.Decision{Kind: exact.New}
	want([]frontier.Offer{pure, found, bulk, pure, malformed}, isNew, exact.Decision{Kind: exact.Promoted, Later: true}, undecided, isNew, undecided)
	want([]frontier.Offer{pure, found, bulk}, known, known, undecided)
	d.clock.Advance(time.Minute)
	d.forward()
	d.state(pure, exact.Queued, 0)
	d.state(found, exact.Queued, 0)
	d.state(bulk, exact.Unknown, 0)
	d.finishAll()
	d.state(pure, exact.Done, 0)
	d.clock.Advance(time.Hour)
	want([]frontier.Offer{pure}, exact.Decision{Kind: exact.Again, Round: 1})
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
	c.LinkAnswered = func(link int, verdict frontier.Verdict) {
		if verdict.Answer == frontier.Refused {
			refused = append(refused, link)
		}
	}
	d.must(d.complete(l, c))
	d.state(third, exact.Unknown, 0)
	d.state(d.page(5), exact.Queued, 0)
	if !slices.Equal(refused, []int{1}) {
		t.Errorf("LinkAnswered was called for the refused links %v, want link 1", refused)
	}
}

// TestAddWhileAway: while the set is unavailable, Add accepts bulk items but no exact
// ones. If the set decided about items but its answer was lost, a forwarder queues them, and
// the crawl is not empty before that.
func TestAddWhileAway(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.weak.fails = func(string, int) (before, after bool) { return false, true }
	if _, err := d.queue.Add(t.Context(), []frontier.Offer{d.page(2)}); !errors.Is(err, frontier.ErrUnavailable) {
		t.Errorf("Add of an exact item while the set is unavailable: %v, want ErrUnavailable", err)
	}
	d.offer(frontier.Added, d.page(3))
	d.weak.fails = nil
	d.finishAll()
	d.state(d.page(2), exact.Pending, 0)
	d.offer(frontier.Seen, d.page(2))
	if grant := d.grant(); grant.Empty || grant.Wait < time.Second {
		t.Errorf("Lease while a key is pending = %+v, want a wait and not Empty", grant)
	}
	d.clock.Advance(61 * time.Second)
	d.forward()
	d.state(d.page(2), exact.Queued, 0)
	d.finishAll()
	if grant := d.grant(); !grant.Empty {
		t.Errorf("Lease after all items are done = %+v, want Empty", grant)
	}
}

// TestLateAddOffersNothing: a key that was decided long ago is not offered and not
// withdrawn, because a forwarder might have queued it.
func TestLateAddOffersNothing(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 1)
	d.offer(frontier.Added, frontier.Offer{URL: "https://h0.test/", Host: "h0.test"})
	late := d.page(8) // of the same host
	d.weak.late = func(op string) {
		if op == "decide" {
			d.clock.Advance(11 * time.Second)
		}
	}
	d.offer(frontier.Seen, late)
	d.state(late, exact.Pending, 0)
}

// TestRepeatUsesTheSameDecisions: a Complete that failed is repeated. The set is asked about its links once, until
// they are finished or their decisions are too old.
func TestRepeatUsesTheSameDecisions(t *testing.T) {
	for name, repeat := range map[string]func(*desk){
		"at once": func(*desk) {},
		"the link was finished": func(d *desk) {
			d.clock.Advance(2 * time.Minute)
			d.forward()
			ref := exact.Ref{Fingerprint: d.queue.Hasher().Fingerprint(d.page(5).URL)}
			d.must(d.set.Finish(d.Context(), []exact.Finished{{Ref: ref, Class: 4, Outcome: frontier.OK}}, nil))
		},
		"too late": func(d *desk) { d.clock.Advance(11 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, exact.Windows{}, 0)
			d.offer(frontier.Added, d.page(2))
			l := d.lease()
			c := d.completion(l.Items[0])
			c.Links = []frontier.Offer{d.page(5), d.page(6)}
			d.failing("finish", 3)
			decisions := d.weak.calls["decide"]
			for range 3 {
				if err := d.complete(l, c); !errors.Is(err, frontier.ErrUnavailable) {
					t.Fatal(err)
				}
				d.clock.Advance(time.Second)
			}
			d.state(d.page(5), exact.Pending, 0)
			repeat(d)
			d.must(d.complete(l, c))
			if asked := d.weak.calls["decide"] - decisions; asked != 1 {
				t.Errorf("the set was asked %d times about the links, want once", asked)
			}
			at, err := d.queue.Lookup(t.Context(), d.page(5).Host, d.page(5).URL)
			d.must(err)
			switch name {
			case "at once":
				d.state(d.page(5), exact.Queued, 0)
			case "too late":
				if d.state(d.page(5), exact.Pending, 0); at.State != frontier.Unknown {
					t.Errorf("the queue has the link in state %v, want none", at.State)
				}
				d.clock.Advance(time.Minute)
				d.forward()
				d.state(d.page(5), exact.Queued, 0)
			default:
				if stats, err := d.queue.Stats(t.Context()); err != nil || stats.Added != 3 { // two pages and the forwarder's
					t.Errorf("Stats = %+v, %v; want 3 added", stats, err)
				}
			}
		})
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
	d.must(d.queue.Complete(t.Context(), l.ID, nil, frontier.HostUpdate{End: true}))
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
	d.weak.fails = nil
	for range 2 {
		for _, c := range waiting {
			d.must(d.complete(l, c))
		}
	}
	d.state(d.page(2), exact.Queued, 0)
	d.state(d.page(8), exact.Done, 0)
	stats, err := d.queue.Stats(t.Context())
	if err != nil || stats.Balance() != nil || stats.Found != 8 || stats.Added != 6 || stats.Seen != 2 || stats.Done != 4 {
		t.Errorf("Stats at the end = %+v, %v; want 8 found, 6 added, 2 seen, 4 done", stats, err)
	}
	for ref, n := range d.files.synced {
		if n != 1 {
			t.Errorf("%x has %d records, want 1", ref.Fingerprint[:4], n)
		}
	}
}

// TestFinishWithoutRecord: while the set cannot store the end of an item without a record, the queue
// does not complete the item.
func TestFinishWithoutRecord(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(2))
	l := d.lease()
	bare := frontier.Completion{Item: l.Items[0].Fingerprint, Outcome: frontier.Network}
	d.failing("finish", 1)
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
	d.fail(l)
	d.state(d.page(2), exact.Failed, 0)
	if n, err := d.queue.Retry(t.Context(), frontier.Failures{}); n != 1 || err != nil {
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
	more, err := d.queue.Extend(t.Context(), l.ID, frontier.TopUp{Items: 8, Known: len(l.Items)})
	if err != nil || len(more.Items) != 1 || more.Items[0].Round != 1 {
		t.Fatalf("Extend: items %+v, error %v; want only the first item, in round 1", more.Items, err)
	}
	c = d.completion(more.Items[0])
	c.Links = []frontier.Offer{d.page(5)}
	d.must(d.complete(l, c))
	d.state(d.page(5), exact.Queued, 0)
	d.state(d.page(2), exact.Done, 1)
}
