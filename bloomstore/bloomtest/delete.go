package bloomtest

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// Deleter is a filter from which fingerprints can be deleted.
type Deleter interface {
	bloomstore.Filter
	// Delete removes prints and reports, index for index, which of them were removed: those
	// that the filter claimed to contain. The caller must delete only fingerprints for which
	// AddIfAbsent returned true, each at most once. If prints contains a fingerprint several
	// times, only the first is removed. If several callers delete one fingerprint at the same
	// time, at most one removes it.
	Delete(ctx context.Context, prints []bloomstore.Fingerprint) (deleted []bool, err error)
}

// RunDeleter tests the contract of Deleter, and that of bloomstore.Filter like Run.
func RunDeleter(t *testing.T, open func(t *testing.T) Deleter) {
	Run(t, func(t *testing.T) bloomstore.Filter { return open(t) })
	suite.Run(t, deleteCases, func(t *testing.T, _ options) *deleteTrial { return newDeleteTrial(t, open(t)) })
}

// deleteTrial is what a case of deletion gets.
type deleteTrial struct {
	*trial
	deleter Deleter
}

func newDeleteTrial(t *testing.T, filter Deleter) *deleteTrial {
	t.Helper()
	return &deleteTrial{newTrial(t, filter), filter}
}

func (t *deleteTrial) delete(prints []bloomstore.Fingerprint) []bool {
	deleted, err := call(t.Ctx, t.deleter.Delete, prints)
	t.Must(err, "Delete")
	return deleted
}

// addAll adds n random keys and returns those that the filter added.
func (t *deleteTrial) addAll(n int) (prints []bloomstore.Fingerprint) {
	offered := t.prints(n)
	for i, added := range t.add(offered) {
		if added {
			prints = append(prints, offered[i])
		}
	}
	t.wantFew("refusals", n-len(prints), n)
	return prints
}

var deleteCases = []suite.Case[options, *deleteTrial]{
	{"DeleteRemovesOnlyItsKeys", options{}, func(t *deleteTrial) {
		prints := t.addAll(50_000)
		gone, kept := prints[:len(prints)/2], prints[len(prints)/2:]
		t.Require(count(t.delete(gone), false) == 0, "Delete of keys that were added: false for some of them")
		t.wantKnown(kept)
		t.wantFewClaims(gone)
		t.wantFew("deletions", count(t.delete(gone), true), len(gone))
		t.wantFew("refusals", count(t.add(gone), false), len(gone))
		t.wantKnown(prints)
	}},
	{"DeleteRefusesAbsentKeys", options{}, func(t *deleteTrial) {
		prints := t.addAll(10_000)
		t.wantFew("deletions", count(t.delete(t.prints(10_000)), true), 10_000)
		t.wantKnown(prints)
	}},
	{"DeleteOfDuplicates", options{}, func(t *deleteTrial) {
		prints := t.addAll(1000)
		one := prints[0]
		got := t.delete([]bloomstore.Fingerprint{one, prints[1], one})
		t.Require(slices.Equal(got, []bool{true, true, false}), "Delete of keys a, b, a = %v, want true, true, false", got)
		t.wantKnown(prints[2:])
	}},
	{"DeleteEmptyBatch", options{}, func(t *deleteTrial) {
		t.delete(nil)
		t.delete([]bloomstore.Fingerprint{})
	}},
	{"DeleteWithCancelledContext", options{}, func(t *deleteTrial) {
		prints := t.addAll(100)
		cancelled, cancel := context.WithCancel(t.Ctx)
		cancel()
		_, err := call(cancelled, t.deleter.Delete, prints)
		t.Require(errors.Is(err, context.Canceled), "Delete with a cancelled context: %v, want context.Canceled", err)
		t.wantKnown(prints)
	}},
	{"RacersDeleteOnce", options{}, racersDeleteOnce},
	{"DeleteModel", options{}, deleteModel},
}

// racersDeleteOnce lets 16 racers delete the same keys, while they add and delete keys of their
// own. No key is deleted twice, and other keys stay.
func racersDeleteOnce(t *deleteTrial) {
	const racers, keys = 16, 1 << 12
	shared, kept := t.addAll(keys), t.addAll(keys)
	wins := make([]atomic.Int32, len(shared))
	seed := t.rng.Uint64()
	t.Race(racers, func(racer int) error {
		rng := rand.New(rand.NewPCG(seed, uint64(racer)))
		for _, i := range rng.Perm(len(shared)) {
			own := (&trial{rng: rng}).prints(1)
			added, err := call(t.Ctx, t.AddIfAbsent, own)
			if err != nil {
				return err
			}
			batch := []bloomstore.Fingerprint{shared[i]}
			if added[0] {
				batch = append(batch, own[0])
			}
			deleted, err := call(t.Ctx, t.deleter.Delete, batch)
			if err != nil {
				return err
			}
			if deleted[0] {
				wins[i].Add(1)
			}
			if len(deleted) == 2 && !deleted[1] {
				return errors.New("Delete of a key that this caller has just added: false")
			}
		}
		return nil
	})
	for i := range wins {
		n := wins[i].Load()
		t.Require(n == 1, "%d racers deleted key %d, want 1", n, i)
	}
	t.wantKnown(kept)
	t.wantFewClaims(shared)
}

// deleteModel adds, deletes and looks up random keys, and compares the answers with a map.
func deleteModel(t *deleteTrial) {
	batches := 400
	if t.proof {
		batches = 8000
	}
	known := make(map[bloomstore.Fingerprint]bool) // keys that were added and not deleted
	var offered []bloomstore.Fingerprint
	falsely, lookups := 0, 0
	note := func(claimed bool) {
		lookups++
		if claimed {
			falsely++
		}
	}
	for range batches {
		batch := t.prints(t.rng.IntN(200))
		for i := range batch {
			if len(offered) > 0 && t.rng.IntN(3) > 0 {
				batch[i] = offered[t.rng.IntN(len(offered))]
			}
		}
		offered = append(offered, batch...)
		switch t.rng.IntN(3) {
		case 0:
			for i, added := range t.add(batch) {
				t.Require(!known[batch[i]] || !added, "AddIfAbsent says that key %x is new, although it was added before", batch[i])
				if !known[batch[i]] {
					note(!added)
				}
				if added {
					known[batch[i]] = true
				}
			}
		case 1: // only keys that were added can be deleted
			batch = slices.DeleteFunc(batch, func(fp bloomstore.Fingerprint) bool { return !known[fp] })
			for i, deleted := range t.delete(batch) {
				t.Require(!known[batch[i]] || deleted, "Delete of key %x, which was added: false", batch[i])
				if !known[batch[i]] { // the same key twice in a batch
					note(deleted)
				}
				delete(known, batch[i])
			}
		default:
			for i, claimed := range t.contains(batch) {
				t.Require(!known[batch[i]] || claimed, "Contains of key %x, which was added: false", batch[i])
				if !known[batch[i]] {
					note(claimed)
				}
			}
		}
	}
	t.wantFew("claims", falsely, lookups)
	t.wantKnown(slices.Collect(maps.Keys(known)))
}
