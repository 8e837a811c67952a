// Package exacttest tests implementations of exact.Set.
//
// It owns the suite that each implementation must pass: RunSet runs named cases, and
// ModelSet compares random calls with Memory, the reference implementation. It imports
// no other implementation.
//
// The suite also checks these rules, which are not in the comments of package exact:
//
//   - A set reads the time from Options.Now and is allowed to store it in whole
//     seconds. The suite makes no call within a second of the end of a window or an age.
//   - Stale and Waiting return a key with every field as it was when the key was last
//     decided to be new.
//   - Lookup returns the round and class of a pending or queued key, and also the
//     outcome and HTTP status of a finished key.
//   - A call that fails because the caller's context ended takes effect as a whole or
//     not at all. Each key that is new has an owner, or a forwarder finds it.
package exacttest

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// Options describe the set that a case needs.
type Options struct {
	Windows exact.Windows
	Now     func() time.Time // the set's clock; safe for concurrent use
}

// Set is an exact.Set whose records the suite can read.
type Set interface {
	exact.Set
	// Records returns the records, ordered by fingerprint and round.
	Records(ctx context.Context) ([]exact.Row, error)
}

// Sharer is a Set that several processes can use. Share opens it once more, as another
// process does.
type Sharer interface {
	Share() (exact.Set, error)
}

// RunSet tests the contract of exact.Set, each case as a subtest. Each call of the function
// open must return a new, empty set and close it with t.Cleanup.
func RunSet(t *testing.T, open func(t *testing.T, opt Options) Set) {
	suite.Run(t, allCases(), driving(open))
}

// testCase tests one part of the contract with a new, empty set.
type testCase = suite.Case[exact.Windows, *driver]

func allCases() []testCase {
	return slices.Concat(decideCases, stateCases, windowCases, forwarderCases, raceCases)
}

// driving returns a function that opens a set with open and returns its driver.
func driving(open func(*testing.T, Options) Set) func(*testing.T, exact.Windows) *driver {
	return func(t *testing.T, windows exact.Windows) *driver {
		d := &driver{Driver: suite.NewDriver(t.Context())}
		d.Set = open(t, Options{Windows: windows, Now: d.Clock.Now})
		return d
	}
}

// driver calls the methods of one set, and ends the case if a result is wrong.
type driver struct {
	Set
	suite.Driver
}

// share opens the set once more, as another process does. It returns the set itself if the
// set is not a Sharer.
func (d *driver) share() exact.Set {
	sharer, ok := d.Set.(Sharer)
	if !ok {
		return d.Set
	}
	set, err := sharer.Share()
	d.Must(err, "Share")
	return set
}

// key returns the n-th key. The fingerprints are hashes, like those of URLs.
func key(n int) exact.Key {
	return exact.Key{
		Fingerprint: print(n), URL: fmt.Sprintf("https://host.test/%d", n),
		Class: frontier.Exact, Depth: uint16(n), Hops: uint8(n % 7), Priority: frontier.Priority(n % frontier.Priorities),
	}
}

var hasher = bloomstore.NewHasher(bloomstore.Key{1})

func print(n int) bloomstore.Fingerprint {
	return hasher.Fingerprint(string(binary.BigEndian.AppendUint64(nil, uint64(n))))
}

// keys returns the keys with the numbers first to end-1.
func keys(first, end int) (keys []exact.Key) {
	for n := first; n < end; n++ {
		keys = append(keys, key(n))
	}
	return keys
}

// refs returns the Refs of keys in a round.
func refs(round uint32, keys ...exact.Key) []exact.Ref {
	refs := make([]exact.Ref, len(keys))
	for i, key := range keys {
		refs[i] = exact.Ref{Fingerprint: key.Fingerprint, Round: round}
	}
	return refs
}

func (d *driver) decide(keys ...exact.Key) []exact.Answer {
	answers, err := d.Decide(d.Ctx, keys)
	d.Must(err, "Decide")
	d.Require(len(answers) == len(keys), "Decide returned %d answers for %d keys", len(answers), len(keys))
	return answers
}

// wantAnswers decides about keys and checks that each gets the answer want.
func (d *driver) wantAnswers(want exact.Answer, keys ...exact.Key) {
	for i, got := range d.decide(keys...) {
		d.Require(got == want, "Decide(%q) = %+v, want %+v", suite.Cut(keys[i].URL), got, want)
	}
}

// fresh decides about keys that must be new and unknown to the set.
func (d *driver) fresh(keys ...exact.Key) {
	d.wantAnswers(exact.Answer{New: true, First: true}, keys...)
}

// queue decides about keys that must be new in round, and marks them as queued.
func (d *driver) queue(round uint32, keys ...exact.Key) {
	d.wantAnswers(exact.Answer{New: true, Round: round, First: round == 0}, keys...)
	d.markQueued(round, keys...)
}

// markQueued marks keys of a round as queued.
func (d *driver) markQueued(round uint32, keys ...exact.Key) {
	d.Must(d.Queued(d.Ctx, refs(round, keys...)), "Queued")
}

// withdraw withdraws keys of a round.
func (d *driver) withdraw(round uint32, keys ...exact.Key) {
	d.Must(d.Withdraw(d.Ctx, refs(round, keys...)), "Withdraw")
}

// storeEnds stores the given ends in the set, without records.
func (d *driver) storeEnds(ends ...exact.Finished) { d.Must(d.Finish(d.Ctx, ends, nil), "Finish") }

// finished returns the end of key in a round, with an outcome and an HTTP status.
func finished(key exact.Key, round uint32, outcome frontier.Outcome, status int) exact.Finished {
	return exact.Finished{Ref: refs(round, key)[0], Class: key.Class, Outcome: outcome, Status: status}
}

// finish finishes keys with the outcome OK.
func (d *driver) finish(round uint32, keys ...exact.Key) {
	var all []exact.Finished
	for _, key := range keys {
		all = append(all, finished(key, round, frontier.OK, 200))
	}
	d.storeEnds(all...)
}

func (d *driver) status(key exact.Key) exact.Status {
	status, err := d.Lookup(d.Ctx, key.Fingerprint)
	d.Must(err, "Lookup")
	return status
}

// wantState checks the state, the round and the class of keys.
func (d *driver) wantState(state exact.State, round uint32, keys ...exact.Key) {
	for _, key := range keys {
		got := d.status(key)
		class := key.Class
		if state == exact.Unknown {
			class = frontier.Bulk
		}
		d.Require(got.State == state && got.Round == round && got.Class == class,
			"%q: state %q, round %d, class %d; want %q, round %d, class %d",
			suite.Cut(key.URL), got.State, got.Round, got.Class, state, round, class)
	}
}

func (d *driver) wantStats(pending, queued, done, failed uint64) {
	got, err := d.Stats(d.Ctx)
	d.Must(err, "Stats")
	got.Due, got.Lag = 0, 0
	want := exact.Stats{Pending: pending, Queued: queued, Done: done, Failed: failed}
	d.Require(got == want, "Stats are %+v, want %+v", got, want)
}

// waiting returns all entries that wait. It reads n entries at a time, and checks their
// order.
func (d *driver) waiting(n int) (all []exact.Entry) {
	for after := (bloomstore.Fingerprint{}); ; {
		entries, err := d.Waiting(d.Ctx, after, n)
		d.Must(err, "Waiting")
		d.Require(len(entries) <= n, "Waiting returned %d entries, want at most %d", len(entries), n)
		if len(entries) == 0 {
			return all
		}
		for _, e := range entries {
			d.Require(string(e.Fingerprint[:]) > string(after[:]), "Waiting returned %x after %x, want increasing fingerprints", e.Fingerprint, after)
			after = e.Fingerprint
		}
		all = append(all, entries...)
	}
}

// wantEntries checks that got has the entries of the keys in want, in a round and in any order.
func (d *driver) wantEntries(what string, got []exact.Entry, round uint32, want ...exact.Key) {
	left := map[bloomstore.Fingerprint]exact.Key{}
	for _, key := range want {
		left[key.Fingerprint] = key
	}
	for _, e := range got {
		key, ok := left[e.Fingerprint]
		d.Require(ok, "%s returned %q, which is not wanted, or returned it twice", what, suite.Cut(e.URL))
		d.Require(e.Key == key && e.Round == round, "%s returned %+v, want %+v in round %d", what, e, key, round)
		delete(left, e.Fingerprint)
	}
	d.Require(len(left) == 0, "%s returned %d keys, want %d", what, len(got), len(want))
}

func (d *driver) stale(age time.Duration, n int) []exact.Entry {
	entries, err := d.Stale(d.Ctx, age, n)
	d.Must(err, "Stale")
	d.Require(len(entries) <= n, "Stale returned %d entries, want at most %d", len(entries), n)
	return entries
}

func (d *driver) sweep(n int) (int, time.Duration) {
	swept, lag, err := d.Sweep(d.Ctx, n)
	d.Must(err, "Sweep")
	return swept, lag
}

// wantSweep sweeps at most n keys, and checks the number of swept keys and the lag. A lag
// that is not 0 is allowed to differ by a second.
func (d *driver) wantSweep(what string, n, wantSwept int, wantLag time.Duration) {
	swept, lag := d.sweep(n)
	d.Require(swept == wantSwept && about(lag, wantLag) && (lag == 0) == (wantLag == 0),
		"Sweep of %s = %d keys, lag %v; want %d keys, lag %v", what, swept, lag, wantSwept, wantLag)
}

// about reports whether two durations differ by at most one second.
func about(a, b time.Duration) bool { return (a - b).Abs() <= time.Second }
