package exact_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/exact"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
)

// desk is a world whose calls to the queue are noted.
type desk struct {
	*world
	asked *asked
}

// asked is a queue that keeps what it was offered, and fails by plan.
type asked struct {
	*frontiertest.Memory
	added    [][]frontier.Item
	made     [][]frontier.Completion
	slow     func()                          // called in Add; nil: nothing
	late     func()                          // called in Waits; nil: nothing
	output   frontier.Output                 // synced by Complete itself; nil: by the Memory
	wrote    map[bloomstore.Fingerprint]bool // whose records were written, with output
	complete error                           // answered by the next Complete, in place of its reply
	early    bool                            // the Complete that fails has no effect
}

func (a *asked) Add(ctx context.Context, items []frontier.Item) ([]frontier.Verdict, error) {
	a.added = append(a.added, slices.Clone(items))
	if a.slow != nil {
		a.slow()
	}
	return a.Memory.Add(ctx, items)
}

func (a *asked) Waits(ctx context.Context, items []frontier.Item) ([]bool, error) {
	if a.late != nil {
		a.late()
	}
	return a.Memory.Waits(ctx, items)
}

func (a *asked) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	a.made = append(a.made, slices.Clone(done))
	fault := a.complete
	a.complete = nil
	if fault != nil && a.early {
		return fault
	}
	if a.output != nil {
		if err := a.record(done); err != nil {
			return err
		}
	}
	return errors.Join(a.Memory.Complete(ctx, id, done, update), fault)
}

// record does as redisstore does: a record is written once, however often its
// completion is tried, and each try is synced.
func (a *asked) record(done []frontier.Completion) error {
	for i := range done {
		if done[i].Record != nil && !a.wrote[done[i].Item] {
			if err := done[i].Record(frontier.LinkCounts{}); err != nil {
				return err
			}
			a.wrote[done[i].Item] = true
		}
		done[i].Record = nil
	}
	_, err := a.output.Sync()
	return err
}

func newDesk(t *testing.T, windows exact.Windows, most uint64) *desk {
	w := newWorld(t, 30, windows)
	w.queue = frontiertest.NewMemory(frontiertest.MemoryConfig{
		Now: w.clock.Now, Output: w.out, LeaseTTL: 10 * time.Minute, MaxPerHost: most,
	})
	d := &desk{world: w, asked: &asked{Memory: w.queue}}
	set := exact.NewBreaker(w.weak, time.Nanosecond)
	w.out.current = exact.NewOutput(exact.OutputConfig{Set: set, Files: w.files})
	store, err := exact.New(exact.Config{
		Queue: d.asked, Set: set, Output: w.out.current, Rules: w.rules, Hasher: w.queue.Hasher(), Host: hostOf, Now: w.clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.store, w.relay = store, exact.NewRelay(store, exact.RelayConfig{})
	return d
}

func (d *desk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// offer adds items and checks the answers.
func (d *desk) offer(want frontier.Answer, items ...frontier.Item) {
	d.Helper()
	verdicts, err := d.store.Add(d.Context(), items)
	d.must(err)
	for i, v := range verdicts {
		if v.Answer != want {
			d.Errorf("%s is answered %v %q, want %v", items[i].URL, v.Answer, v.Reason, want)
		}
	}
}

func (d *desk) lease() frontier.Lease {
	d.Helper()
	grant, err := d.store.Lease(d.Context(), frontier.LeaseRequest{Worker: "w", IDs: []frontier.LeaseID{d.leaseID()}, InFlight: 1})
	d.must(err)
	if len(grant.Leases) != 1 {
		d.Fatalf("no lease was granted: %+v", grant)
	}
	return grant.Leases[0]
}

func (d *desk) complete(l frontier.Lease, done ...frontier.Completion) error {
	return d.store.Complete(d.Context(), l.ID, done, frontier.HostUpdate{})
}

// state checks where the set has a URL.
func (d *desk) state(item frontier.Item, want exact.State, round uint32) {
	d.Helper()
	status, err := d.store.Where(d.Context(), item.URL)
	d.must(err)
	if status.State != want || status.Round != round {
		d.Errorf("the set has %s as %q in round %d, want %q in round %d", item.URL, status.State, status.Round, want, round)
	}
}

// finishAll completes all that can be leased, without links.
func (d *desk) finishAll() {
	d.Helper()
	for {
		grant, err := d.store.Lease(d.Context(), frontier.LeaseRequest{Worker: "w", IDs: []frontier.LeaseID{d.leaseID()}})
		d.must(err)
		if len(grant.Leases) == 0 {
			return
		}
		var done []frontier.Completion
		for _, item := range grant.Leases[0].Items {
			c := d.completion(item)
			c.Links = nil
			done = append(done, c)
		}
		d.must(d.store.Complete(d.Context(), grant.Leases[0].ID, done, frontier.HostUpdate{End: true}))
	}
}

// decisionsOf returns the decisions that items were offered with.
func decisionsOf(items []frontier.Item) (all []frontier.Decision) {
	for _, item := range items {
		all = append(all, item.Decision)
	}
	return all
}

func (d *desk) wantDecisions(items []frontier.Item, want ...frontier.Decision) {
	d.Helper()
	if got := decisionsOf(items); !slices.Equal(got, want) {
		d.Errorf("decisions %v, want %v", got, want)
	}
}

// TestDecisions: what the queue is told of each kind of answer and rule.
func TestDecisions(t *testing.T) {
	d := newDesk(t, exact.Windows{4: time.Hour}, 0)
	pure, found, bulk := d.page(2), d.page(1), d.page(3)
	malformed := frontier.Item{URL: "", Host: "h", Class: 4}
	if _, err := d.store.Add(t.Context(), []frontier.Item{pure, found, bulk, pure, malformed}); err != nil {
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
	d.clock.advance(time.Hour)
	d.offer(frontier.Added, pure)
	d.wantDecisions(d.asked.added[2], frontier.Again)
	if l := d.lease(); len(l.Items) != 1 || l.Items[0].Round != 1 {
		t.Errorf("leased %+v, want one item in round 1", l.Items)
	}
}

// TestRefusedIsWithdrawn: what the queue refuses the set forgets, of links too.
func TestRefusedIsWithdrawn(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 2)
	first, second, third := d.page(2), d.page(14), d.page(26)
	first.Host, second.Host, third.Host = "h", "h", "h"
	d.offer(frontier.Added, first, second)
	d.offer(frontier.Refused, third, third)
	d.state(third, exact.Unknown, 0)
	l := d.lease()
	c := d.completion(l.Items[0])
	c.Links = []frontier.Item{d.page(5), third, first}
	var refused []int
	c.LinkRefused = func(link int, _ frontier.Reason) { refused = append(refused, link) }
	d.must(d.complete(l, c))
	d.state(third, exact.Unknown, 0)
	d.state(d.page(5), exact.Queued, 0)
	if !slices.Equal(refused, []int{1}) {
		t.Errorf("refused are links %v, want 1", refused)
	}
}

// TestAddWhileAway: no exact item is taken, bulk ones are; what was decided but
// not answered is queued by a relay, and the crawl is not over before.
func TestAddWhileAway(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.weak.fails = func(string, int) (before, after bool) { return false, true }
	if _, err := d.store.Add(t.Context(), []frontier.Item{d.page(2)}); !errors.Is(err, frontier.ErrUnavailable) {
		t.Errorf("Add while the set is away: %v", err)
	}
	d.offer(frontier.Added, d.page(3))
	d.weak.fails = nil
	d.finishAll()
	d.state(d.page(2), exact.Pending, 0)
	d.offer(frontier.Seen, d.page(2))
	grant, err := d.store.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{d.leaseID()}})
	if err != nil || grant.Empty || grant.Wait < time.Second {
		t.Errorf("with a pending key: %+v, %v", grant, err)
	}
	d.clock.advance(61 * time.Second)
	d.tend(d.relay)
	d.state(d.page(2), exact.Queued, 0)
	d.finishAll()
	grant, err = d.store.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{d.leaseID()}})
	if err != nil || !grant.Empty {
		t.Errorf("at the end: %+v, %v", grant, err)
	}
}

// TestLateAddDoesNotWithdraw: what was refused long after it was decided may be
// queued by a relay by now.
func TestLateAddDoesNotWithdraw(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 1)
	d.offer(frontier.Added, frontier.Item{URL: "https://h0.test/", Host: "h0.test"})
	late := d.page(8) // of the same host
	d.asked.slow = func() { d.clock.advance(11 * time.Second) }
	d.offer(frontier.Refused, late)
	d.state(late, exact.Pending, 0)
}

// TestRepeatOffersTheSame: a Complete whose reply was lost offers its links as it
// did, but not when its decisions have become old.
func TestRepeatOffersTheSame(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(3))
	l := d.lease()
	c := d.completion(l.Items[0])
	c.Links = []frontier.Item{d.page(2), d.page(6)}
	for i := range 3 {
		d.asked.complete, d.asked.early = frontier.ErrUnavailable, true
		if err := d.complete(l, c); !errors.Is(err, frontier.ErrUnavailable) {
			t.Fatal(err)
		}
		d.wantDecisions(d.asked.made[i][0].Links, frontier.New, frontier.Undecided)
		d.clock.advance(4 * time.Second)
	}
	d.must(d.complete(l, c))
	d.wantDecisions(d.asked.made[3][0].Links, frontier.Known, frontier.Undecided)
	d.state(d.page(2), exact.Pending, 0)
	if c.Links[0].Decision != frontier.Undecided {
		t.Error("the caller's links were changed")
	}
	d.clock.advance(time.Minute)
	d.tend(d.relay)
	d.state(d.page(2), exact.Queued, 0)
}

// TestRepeatOfACompletionDecidesNothing: the queue passes over it, links and all.
func TestRepeatOfACompletionDecidesNothing(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(3))
	l := d.lease()
	c := d.completion(l.Items[0])
	c.Links = nil
	d.must(d.complete(l, c))
	c.Links = []frontier.Item{d.page(2)}
	d.must(d.complete(l, c))
	d.state(d.page(2), exact.Unknown, 0)
	d.must(d.store.Complete(t.Context(), l.ID, nil, frontier.HostUpdate{End: true}))
	d.must(d.complete(l, c))
	d.state(d.page(2), exact.Unknown, 0)
}

// TestLostLeaseDecidesNothing: of a lease that is over, or another process's.
func TestLostLeaseDecidesNothing(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(3))
	l := d.lease()
	c := d.completion(l.Items[0])
	c.Links = []frontier.Item{d.page(2)}
	foreign := l
	foreign.ID = d.leaseID()
	if err := d.complete(foreign, c); !errors.Is(err, frontier.ErrLeaseLost) {
		t.Errorf("Complete of a lease that the Store did not ask for: %v", err)
	}
	d.clock.advance(10 * time.Minute)
	if err := d.complete(l, c); !errors.Is(err, frontier.ErrLeaseLost) {
		t.Errorf("Complete of a lease that is over: %v", err)
	}
	d.state(d.page(2), exact.Unknown, 0)
}

// TestLaterLinks: while the set is away a page's exact links are notes, which a
// relay brings in, and counts.
func TestLaterLinks(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(3), d.page(5))
	l := d.lease()
	c := d.completion(l.Items[0])
	c.Links = []frontier.Item{d.page(2), d.page(5), d.page(6), d.page(2)}
	d.weak.fails = func(string, int) (before, after bool) { return true, false }
	d.must(d.complete(l, c))
	d.wantDecisions(d.asked.made[0][0].Links, frontier.Later, frontier.Later, frontier.Undecided, frontier.Later)
	d.tend(d.relay) // nobody to bring them to
	d.weak.fails = nil
	d.tend(d.relay)
	d.state(d.page(2), exact.Queued, 0)
	stats, err := d.store.Stats(t.Context())
	if err != nil || stats.Balance() != nil || stats.Found != 6 || stats.Added != 4 || stats.Seen != 2 || stats.Outbox != 0 {
		t.Errorf("at the end the books are %+v, %v", stats, err)
	}
}

// TestUntold: the end of an exact item while the set is away is a note.
func TestUntold(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(2))
	l := d.lease()
	c := d.completion(l.Items[0])
	c.Links = nil
	d.weak.fails = func(string, int) (before, after bool) { return true, false }
	if err := d.complete(l, c); !errors.Is(err, frontier.ErrUnavailable) {
		t.Fatalf("the first that finds the set away: %v", err)
	}
	d.must(d.complete(l, c))
	if !d.asked.made[1][0].Untold {
		t.Error("the completion does not say that the set was not told")
	}
	d.weak.fails = nil
	d.state(d.page(2), exact.Queued, 0)
	d.tend(d.relay)
	d.state(d.page(2), exact.Done, 0)
}

// TestFinishIsTriedAgain: a queue that has written a record does not write it
// again when the completion is repeated; the set is told all the same.
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
	d.offer(frontier.Added, d.page(5)) // the set is back
	d.must(d.complete(l, c))
	d.state(d.page(2), exact.Done, 0)
	if d.asked.made[1][0].Untold || len(d.files.synced) != 1 {
		t.Errorf("untold: %t; records %v", d.asked.made[1][0].Untold, d.files.synced)
	}
}

// TestVoid: a record of which the set knows stays.
func TestVoid(t *testing.T) {
	for _, told := range []bool{false, true} {
		d := newDesk(t, exact.Windows{}, 0)
		d.offer(frontier.Added, d.page(2))
		l := d.lease()
		c := d.completion(l.Items[0])
		c.Links = nil
		voided := false
		c.Void = func() error { voided = true; return nil }
		d.asked.complete, d.asked.early = errors.New("in doubt"), !told
		_ = d.complete(l, c)
		d.must(d.asked.made[0][0].Void())
		if voided == told {
			t.Errorf("told %t: voided %t", told, voided)
		}
	}
}

// TestFinishWithoutRecord: the set is told before the queue.
func TestFinishWithoutRecord(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(2), d.page(14))
	l := d.lease()
	bare := func(i int) frontier.Completion {
		return frontier.Completion{Item: l.Items[i].Fingerprint, Outcome: frontier.Network}
	}
	d.asked.complete, d.asked.early = errors.New("broken"), true
	if err := d.complete(l, bare(0)); err == nil {
		t.Fatal("no error")
	}
	d.state(d.page(2), exact.Failed, 0)
	d.must(d.complete(l, bare(0)))
	d.weak.fails = func(string, int) (before, after bool) { return true, false }
	d.must(d.complete(l, bare(1)))
	if !d.asked.made[2][0].Untold {
		t.Error("the completion does not say that the set was not told")
	}
}

// TestOtherOutput: a queue that syncs another output is found out.
func TestOtherOutput(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(2))
	l := d.lease()
	d.out.current = exact.NewOutput(exact.OutputConfig{Set: exact.NewBreaker(d.set, 0)})
	if err := d.complete(l, d.completion(l.Items[0])); err == nil {
		t.Error("an item was completed behind the set's back")
	}
}

// TestRetried: an item that failed and is offered again has another round in the
// queue, which the set takes over.
func TestRetried(t *testing.T) {
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

// TestNewAgainUnderOneLease: a key whose window is over is handed out again to who
// holds the host still. Its links are decided about, and it is finished, as those
// of any other.
func TestNewAgainUnderOneLease(t *testing.T) {
	d := newDesk(t, exact.Windows{4: 10 * time.Second}, 0)
	d.offer(frontier.Added, d.page(2), d.page(6)) // the second keeps the host busy
	l := d.lease()
	at := slices.IndexFunc(l.Items, func(it frontier.Item) bool { return it.URL == d.page(2).URL })
	c := d.completion(l.Items[at])
	c.Links = nil
	d.must(d.complete(l, c))
	d.state(d.page(2), exact.Done, 0)
	d.clock.advance(11 * time.Second)
	d.offer(frontier.Added, d.page(2))
	more, err := d.store.Extend(t.Context(), l.ID, frontier.TopUp{Items: 8, Known: len(l.Items)})
	if err != nil || len(more.Items) != 1 || more.Items[0].Round != 1 {
		t.Fatalf("%+v, %v, want round 1 of the first", more.Items, err)
	}
	c = d.completion(more.Items[0])
	c.Links = []frontier.Item{d.page(5)}
	d.must(d.complete(l, c))
	d.wantDecisions(d.asked.made[len(d.asked.made)-1][0].Links, frontier.New)
	d.state(d.page(5), exact.Queued, 0)
	d.state(d.page(2), exact.Done, 1)
}

// TestReconcileAfterLoss: a queue that lost everything gets back what waits, in
// its round.
func TestReconcileAfterLoss(t *testing.T) {
	d := newDesk(t, exact.Windows{4: time.Hour}, 0)
	d.offer(frontier.Added, d.page(2), d.page(5), d.page(4), d.page(3))
	d.finishAll()
	d.clock.advance(time.Hour)
	d.offer(frontier.Added, d.page(2), d.page(8))
	d.asked.Memory = frontiertest.NewMemory(frontiertest.MemoryConfig{Now: d.clock.Now, Output: d.out})
	var progress []exact.Reconciled
	got, err := d.store.Reconcile(t.Context(), func(r exact.Reconciled) { progress = append(progress, r) })
	want := exact.Reconciled{Offered: exact.Offered{Offered: 2, Added: 2}}
	if err != nil || got != want || len(progress) == 0 || progress[len(progress)-1] != want {
		t.Errorf("Reconcile = %+v, %v, want %+v; progress %+v", got, err, want, progress)
	}
	rounds := map[string]uint32{}
	for range 2 {
		for _, item := range d.lease().Items {
			rounds[item.URL] = item.Round
		}
	}
	if len(rounds) != 2 || rounds[d.page(2).URL] != 1 || rounds[d.page(8).URL] != 0 {
		t.Errorf("back are %v", rounds)
	}
}

// TestReconcileMeetsCompletion: an item that ends after the set was read, and
// before the queue is asked for it, is not queued again: the set knows the end, or
// a note does that was written because the set was away.
func TestReconcileMeetsCompletion(t *testing.T) {
	for _, away := range []bool{false, true} {
		d := newDesk(t, exact.Windows{}, 0)
		d.offer(frontier.Added, d.page(2))
		l := d.lease()
		d.asked.late = func() {
			d.asked.late = nil
			if away {
				d.weak.fails = func(op string, _ int) (before, after bool) { return op == "finish", false }
			}
			c := frontier.Completion{Item: l.Items[0].Fingerprint, Outcome: frontier.Network}
			d.must(d.complete(l, c))
			d.weak.fails = nil
		}
		got, err := d.store.Reconcile(t.Context(), nil)
		if want := (exact.Reconciled{Offered: exact.Offered{Offered: 1}}); err != nil || got != want {
			t.Errorf("away %t: Reconcile = %+v, %v, want %+v", away, got, err, want)
		}
		d.state(d.page(2), exact.Failed, 0)
		if untold := d.asked.made[0][0].Untold; untold != away {
			t.Errorf("away %t: the completion says %t that the set was not told", away, untold)
		}
	}
}

// TestLossIsFoundAtTheEnd: when the queue has had nothing for a minute, and the
// set has keys that wait, the relay brings them back.
func TestLossIsFoundAtTheEnd(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	d.offer(frontier.Added, d.page(2))
	d.asked.Memory = frontiertest.NewMemory(frontiertest.MemoryConfig{Now: d.clock.Now, Output: d.out})
	ask := func() frontier.Grant {
		grant, err := d.store.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{d.leaseID()}})
		d.must(err)
		return grant
	}
	for range 13 {
		if grant := ask(); len(grant.Leases) > 0 || grant.Empty {
			t.Fatalf("granted %+v", grant)
		}
		d.tend(d.relay)
		d.clock.advance(5 * time.Second)
	}
	d.tend(d.relay)
	if grant := ask(); len(grant.Leases) != 1 {
		t.Errorf("granted %+v", grant)
	}
}

// TestEntryWithoutHost: a key whose URL has no host key any more is withdrawn.
func TestEntryWithoutHost(t *testing.T) {
	d := newDesk(t, exact.Windows{}, 0)
	key := exact.Key{Fingerprint: d.queue.Hasher().Fingerprint("x"), URL: "x", Class: 4}
	if _, err := d.set.Decide(t.Context(), []exact.Key{key}); err != nil {
		t.Fatal(err)
	}
	d.clock.advance(time.Hour)
	d.tend(d.relay)
	if stats, _ := d.set.Stats(t.Context()); stats != (exact.Stats{}) {
		t.Errorf("the set has %+v", stats)
	}
}
