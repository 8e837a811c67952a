package localstore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/suite"
)

var suiteWindows = [maxClass + 1]time.Duration{frontiertest.ClassWindow: frontiertest.Window}

func TestWindowsOfExactKeys(t *testing.T) {
	t.Parallel()
	for name, pure := range map[string]func(frontier.Class) bool{"pure": isPure, "as found": nil} {
		t.Run(name, func(t *testing.T) {
			frontiertest.RunWindows(t, func(t *testing.T, opt frontiertest.Options) frontiertest.Crawl {
				return openWith(t, vfs.NewMem(), "crawl", opt, func(cfg *Config) { cfg.Windows, cfg.Pure = suiteWindows, pure })
			})
		})
	}
}

func isPure(class frontier.Class) bool { return class != frontier.Bulk }

// TestRoundsDoNotRepeat: see frontiertest.Rounds. The class depends on how a URL is found, so no key is swept.
func TestRoundsDoNotRepeat(t *testing.T) {
	t.Parallel()
	first, runs := suite.FirstSeed(*seed, 12)
	for i := range uint64(runs) {
		clock := suite.NewClock()
		crawl := openWith(t, vfs.NewMem(), "crawl", frontiertest.Options{Now: clock.Now, LeaseTTL: 30 * time.Second}, func(cfg *Config) {
			cfg.Windows[frontier.Listed] = frontiertest.Window
		})
		frontiertest.Rounds(t, crawl, clock, func() {}, first+i)
	}
}

func TestWindowsOfNothing(t *testing.T) {
	t.Parallel()
	_, err := Open(Config{Dir: "crawl", FS: vfs.NewMem(), Windows: [maxClass + 1]time.Duration{
		frontier.Bulk: -time.Hour, frontier.Exact: -time.Hour, frontier.Sitemap: time.Hour,
	}})
	if err == nil || strings.Count(err.Error(), "window of") != 2 {
		t.Errorf("Open = %v, want two faults of Windows", err)
	}
}

// TestWindowPromotesBulkKeys: a key that is known as a bulk key has no time of
// completion. If it is offered as an exact key of a class with a window, it is queued
// once more and counted in Promoted.
func TestWindowPromotesBulkKeys(t *testing.T) {
	t.Parallel()
	s := openWindows(t, vfs.NewMem(), time.Now)
	bulk := frontier.Offer{URL: "http://a.test/1", Host: "a.test", Priority: frontier.PriorityPage}
	exact := bulk
	exact.Class = frontiertest.ClassWindow
	answer(t, s, bulk, frontier.Added)
	answer(t, s, exact, frontier.Seen) // it waits
	completeAll(t, s, 0, frontier.OK)
	answer(t, s, bulk, frontier.Seen)
	answer(t, s, exact, frontier.Added)
	completeAll(t, s, 1, frontier.OK)
	answer(t, s, exact, frontier.Seen)
	stats, err := s.Counters(t.Context())
	if err != nil || stats.Promoted != 1 || stats.Recovered != 0 {
		t.Errorf("%d promoted, %d recovered (%v), want 1, 0", stats.Promoted, stats.Recovered, err)
	}
	checkRecount(t, s)
}

// TestWindowAndRetryInOneGroup: a group is a set of calls that are committed together. It
// cannot read its own changes. If the window of a failed key has ended, the first Add or
// Retry of the group queues the key again, and its later calls do not.
func TestWindowAndRetryInOneGroup(t *testing.T) {
	t.Parallel()
	item := frontier.Offer{URL: "http://a.test/1", Host: "a.test", Class: frontiertest.ClassWindow}
	add := func(g *group) error {
		_, err := g.add(&g.offers([]frontier.Offer{item})[0])
		return err
	}
	retry := func(g *group) error {
		lower, upper := table(tableFailed)
		_, _, err := g.retry(new(frontier.Failures), lower, upper, g.meta.Seq)
		return err
	}
	for name, calls := range map[string][]func(*group) error{"add first": {add, retry, add}, "retry first": {retry, add, retry}} {
		t.Run(name, func(t *testing.T) {
			now := suite.NewClock()
			s := openWindows(t, vfs.NewMem(), now.Now)
			answer(t, s, item, frontier.Added)
			completeAll(t, s, 0, frontier.Network)
			now.Advance(frontiertest.Window)
			err := s.submit(t.Context(), &op{change: func(g *group) error {
				for _, call := range calls {
					if err := call(g); err != nil {
						return err
					}
				}
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			checkRecount(t, s)
			completeAll(t, s, 1, frontier.OK)
			if grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: make([]frontier.LeaseID, 1)}); err != nil || !grant.Empty {
				t.Errorf("Lease = %+v (%v), want nothing left", grant, err)
			}
		})
	}
}

// TestWindowModel makes random calls with a few keys, some of which have a window, and
// compares the answers with a list in memory. Now and then the process dies.
func TestWindowModel(t *testing.T) {
	t.Parallel()
	runs, steps := 5, 400
	if *proof {
		runs, steps = 100, 2000
	}
	first, runs := suite.FirstSeed(*seed, runs)
	for i := range runs {
		seed := first + uint64(i)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Logf("replay with -seed=%d", seed)
			newWindowModel(t, seed).run(steps)
		})
	}
}

// windowModel is what the test knows about the keys of a store.
type windowModel struct {
	t     *testing.T
	rng   *rand.Rand
	now   *suite.Clock
	fs    vfs.FS
	store *Store
	keys  []modelKey
}

type modelKey struct {
	item     frontier.Offer
	state    frontier.State
	round    uint32 // while it waits, the least round that it may have
	finished time.Time
}

func newWindowModel(t *testing.T, seed uint64) *windowModel {
	m := &windowModel{t: t, rng: rand.New(rand.NewPCG(seed, 3)), now: suite.NewClock(), fs: vfs.NewMem()}
	for n := range 12 {
		host := fmt.Sprintf("h%d.test", n%3)
		item := frontier.Offer{URL: fmt.Sprintf("http://%s/%d", host, n), Host: host, Priority: frontier.PriorityPage}
		item.Class = []frontier.Class{frontiertest.ClassWindow, frontiertest.ClassWindow, frontiertest.ClassForever, frontier.Bulk}[n/3]
		m.keys = append(m.keys, modelKey{item: item})
	}
	m.open()
	return m
}

func (m *windowModel) open() { m.store = openPure(m.t, m.fs, m.now.Now) }

func (m *windowModel) run(steps int) {
	for range steps {
		switch m.rng.IntN(10) {
		default:
			m.offer()
		case 4, 5, 6:
			m.work()
		case 7:
			m.now.Advance(time.Duration(m.rng.Int64N(int64(frontiertest.Window))))
		case 8:
			m.retry()
		case 9:
			m.die()
			if m.rng.IntN(4) == 0 {
				checkRecount(m.t, m.store)
			}
		}
		if m.t.Failed() {
			return
		}
	}
	checkRecount(m.t, m.store)
}

// offer adds some keys, some of them twice.
func (m *windowModel) offer() {
	var items []frontier.Offer
	var want []frontier.Answer
	for range 1 + m.rng.IntN(4) {
		k := &m.keys[m.rng.IntN(len(m.keys))]
		items, want = append(items, k.item), append(want, m.expect(k))
	}
	verdicts, err := m.store.Add(m.t.Context(), items)
	if err != nil {
		m.t.Fatal(err)
	}
	for i, v := range verdicts {
		if v.Answer != want[i] {
			m.t.Fatalf("Add of %s in class %d: %v, want %v", items[i].URL, items[i].Class, v.Answer, want[i])
		}
	}
}

// expect returns the right verdict for an offer of a key, and notes the change.
func (m *windowModel) expect(k *modelKey) frontier.Answer {
	final := k.state == frontier.Done || k.state == frontier.Failed
	over := final && k.item.Class == frontiertest.ClassWindow && m.now.Now().Sub(k.finished) >= frontiertest.Window
	switch {
	case over:
		k.round++
	case k.state != frontier.Unknown:
		return frontier.Seen
	}
	k.state = frontier.Queued
	return frontier.Added
}

// work finishes some items of a lease.
func (m *windowModel) work() {
	id := frontier.LeaseID{}
	for i := range id {
		id[i] = byte(m.rng.Uint32())
	}
	grant, err := m.store.Lease(m.t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{id}})
	if err != nil || len(grant.Leases) == 0 {
		return
	}
	var done []frontier.Completion
	for _, item := range grant.Leases[0].Items {
		k := m.key(item.URL)
		late := item.Round > k.round && k.item.Class != frontier.Bulk // keys were swept
		if k.state != frontier.Queued || item.Round != k.round && !late {
			m.t.Fatalf("%s is handed out in round %d, but is %q in round %d", item.URL, item.Round, k.state, k.round)
		}
		k.round = item.Round
		outcome := []frontier.Outcome{frontier.OK, frontier.Network, ""}[m.rng.IntN(3)]
		if outcome == "" { // the end of the lease gives it back
			continue
		}
		k.state, k.finished = outcome.State(), m.now.Now()
		done = append(done, frontier.Completion{Item: item.Fingerprint, Outcome: outcome})
	}
	if err := m.store.Complete(m.t.Context(), id, done, frontier.HostUpdate{End: true}); err != nil {
		m.t.Fatal(err)
	}
}

func (m *windowModel) key(url string) *modelKey {
	for i := range m.keys {
		if m.keys[i].item.URL == url {
			return &m.keys[i]
		}
	}
	m.t.Fatalf("%s is handed out, but was never added", url)
	return nil
}

func (m *windowModel) retry() {
	want := 0
	for i := range m.keys {
		if k := &m.keys[i]; k.state == frontier.Failed {
			k.state, k.round = frontier.Queued, k.round+1
			want++
		}
	}
	if n, err := m.store.Retry(m.t.Context(), frontier.Failures{}); err != nil || n != want {
		m.t.Fatalf("Retry = %d, %v, want %d", n, err, want)
	}
}

// die ends the store as if the process were killed, or closes it. Then it opens the store
// again.
func (m *windowModel) die() {
	if m.rng.IntN(2) == 0 {
		m.store.guard.fail(errKilled)
	}
	if err := m.store.Close(); (err == nil) != (m.store.Err() == nil) {
		m.t.Fatal(err)
	}
	m.open()
}

func openWindows(t *testing.T, fs vfs.FS, now func() time.Time) *Store {
	t.Helper()
	return openWindowsWith(t, Open, Config{FS: fs, Now: now})
}

// openPure is like openWindows, for a store that sweeps keys.
func openPure(t *testing.T, fs vfs.FS, now func() time.Time) *Store {
	t.Helper()
	return openWindowsWith(t, Open, Config{FS: fs, Now: now, Pure: isPure})
}

func openWindowsWith(t *testing.T, open func(Config) (*Store, error), cfg Config) *Store {
	t.Helper()
	cfg.Dir, cfg.Windows, cfg.Filter = "crawl", suiteWindows, membits.Config{Capacity: 10_000}
	s, err := open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func answer(t *testing.T, s *Store, item frontier.Offer, want frontier.Answer) {
	t.Helper()
	verdicts, err := s.Add(t.Context(), []frontier.Offer{item})
	if err != nil || verdicts[0].Answer != want {
		t.Fatalf("Add of %s in class %d: %v (%v), want %v", item.URL, item.Class, verdicts, err, want)
	}
}

func completeAll(t *testing.T, s *Store, round uint32, outcome frontier.Outcome) {
	t.Helper()
	id := frontier.LeaseID{byte(round), 1}
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{id}})
	if err != nil || len(grant.Leases) != 1 {
		t.Fatalf("Lease = %d leases (%v), want 1", len(grant.Leases), err)
	}
	var done []frontier.Completion
	for _, item := range grant.Leases[0].Items {
		if item.Round != round {
			t.Errorf("%s is of round %d, want %d", item.URL, item.Round, round)
		}
		done = append(done, frontier.Completion{Item: item.Fingerprint, Outcome: outcome})
	}
	if err := s.Complete(t.Context(), id, done, frontier.HostUpdate{End: true}); err != nil {
		t.Fatal(err)
	}
}

// checkRecount compares a store's counters with its rows.
func checkRecount(t *testing.T, s *Store) {
	t.Helper()
	r, err := s.Recount(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, failures := r.Counters, uint64(0)
	for outcome, n := range c.Outcomes {
		if outcome.State() == frontier.Failed {
			failures += n
		}
	}
	if err := c.Balance(); err != nil {
		t.Error(err)
	}
	if r.Queued != c.Queued || r.Leased != c.Leased || r.Finished.Count != c.Done || r.Failed != c.Failed || r.Failures.Count != failures {
		t.Errorf("counted %d queued, %d leased, %d done, %d failed, %d failures, the counters say %d, %d, %d, %d, %d",
			r.Queued, r.Leased, r.Finished.Count, r.Failed, r.Failures.Count, c.Queued, c.Leased, c.Done, c.Failed, failures)
	}
	if off := r.Added - float64(c.Added); off > 1+5*r.AddedErr || off < -1-5*r.AddedErr {
		t.Errorf("added is estimated as %.1f ± %.1f, the counter says %d", r.Added, r.AddedErr, c.Added)
	}
	if r.Forgotten > 0 || len(r.Faults) > 0 {
		t.Errorf("%d URLs forgotten, faults %q, want none", r.Forgotten, r.Faults)
	}
}
