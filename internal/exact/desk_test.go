package exact_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// desk is a crawl of a small web, see the type world. It records the calls to its queue.
type desk struct {
	*world
	asked *asked
}

// asked is a queue that records its calls. A test can make a call fail.
type asked struct {
	*frontiertest.Memory
	added    [][]frontier.Offer
	made     [][]frontier.Completion
	slow     func()                          // called in Add, unless it is nil
	late     func()                          // called in Waits, unless it is nil
	frozen   func()                          // called before each Lease and Extend, unless it is nil
	output   frontier.Output                 // if not nil, Complete calls its Sync; if nil, Memory syncs the output that it was made with
	wrote    map[bloomstore.Fingerprint]bool // with output: the items whose records were written
	complete error                           // returned by the next Complete instead of its reply
	early    bool                            // the failing Complete has no effect
}

func (a *asked) Add(ctx context.Context, items []frontier.Offer) ([]frontier.Verdict, error) {
	a.added = append(a.added, slices.Clone(items))
	if a.slow != nil {
		a.slow()
	}
	return a.Memory.Add(ctx, items)
}

func (a *asked) Waits(ctx context.Context, keys []exact.ItemKey) ([]bool, error) {
	if a.late != nil {
		a.late()
	}
	return a.Memory.Waits(ctx, keys)
}

func (a *asked) Lease(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
	if a.frozen != nil {
		a.frozen()
	}
	return a.Memory.Lease(ctx, request)
}

func (a *asked) Extend(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
	if a.frozen != nil {
		a.frozen()
	}
	return a.Memory.Extend(ctx, id, topUp)
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

// record does the same as redisstore: it writes a record only once even if its completion
// is repeated, and syncs each time.
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
		Now: w.clock.Now, Output: w.out, End: w.out.end, LeaseTTL: 10 * time.Minute, MaxPerHost: most,
	})
	d := &desk{world: w, asked: &asked{Memory: w.queue}}
	set := exact.NewBreaker(w.weak, time.Nanosecond)
	w.out.current = exact.NewOutput(exact.OutputConfig{Set: set, Files: w.files})
	store := exact.New(exact.Config{
		Queue: d.asked, Set: set, Rules: w.rules, Hasher: w.queue.Hasher(), Host: hostOf, Now: w.clock.Now,
	})
	w.store, w.forwarder = store, exact.NewForwarder(store)
	return d
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
	verdicts, err := d.store.Add(d.Context(), items)
	d.must(err)
	for i, v := range verdicts {
		if v.Answer != want {
			d.Errorf("Add of %s = %v (reason %q), want %v", items[i].URL, v.Answer, v.Reason, want)
		}
	}
}

func (d *desk) lease() frontier.Lease {
	d.Helper()
	grant, err := d.store.Lease(d.Context(), frontier.LeaseRequest{Worker: "w", IDs: []frontier.LeaseID{d.leaseID()}, InFlight: 1})
	d.must(err)
	if len(grant.Leases) != 1 {
		d.Fatalf("Lease = %+v, want one lease", grant)
	}
	return grant.Leases[0]
}

func (d *desk) complete(l frontier.Lease, done ...frontier.Completion) error {
	return d.store.Complete(d.Context(), l.ID, done, frontier.HostUpdate{})
}

// state checks the state of a URL in the set.
func (d *desk) state(item frontier.Offer, want exact.State, round uint32) {
	d.Helper()
	status, err := d.store.Where(d.Context(), item.URL)
	d.must(err)
	if status.State != want || status.Round != round {
		d.Errorf("the set has %s in state %q and round %d, want %q and round %d", item.URL, status.State, status.Round, want, round)
	}
}

// finishAll completes everything that can be leased, without links.
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

// decisionsOf returns the decisions of the offered items.
func decisionsOf(items []frontier.Offer) (all []frontier.Decision) {
	for _, item := range items {
		all = append(all, item.Decision)
	}
	return all
}

func (d *desk) wantDecisions(items []frontier.Offer, want ...frontier.Decision) {
	d.Helper()
	if got := decisionsOf(items); !slices.Equal(got, want) {
		d.Errorf("the queue got the decisions %v, want %v", got, want)
	}
}
