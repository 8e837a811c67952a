package bloomtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// call calls a method of a filter. It checks that the call leaves prints unchanged and
// gives one answer for each of the prints.
func call(ctx context.Context, method func(context.Context, []bloomstore.Fingerprint) ([]bool, error),
	prints []bloomstore.Fingerprint) ([]bool, error) {
	before := slices.Clone(prints)
	answers, err := method(ctx, prints)
	switch {
	case !slices.Equal(prints, before):
		return nil, errors.New("the call changed its argument")
	case err == nil && len(answers) != len(prints):
		return nil, fmt.Errorf("the call returned %d answers for %d fingerprints", len(answers), len(prints))
	}
	return answers, err
}

func (t *trial) add(prints []bloomstore.Fingerprint) []bool {
	added, err := call(t.Ctx, t.AddIfAbsent, prints)
	t.Must(err, "AddIfAbsent")
	return added
}

func (t *trial) contains(prints []bloomstore.Fingerprint) []bool {
	known, err := call(t.Ctx, t.Contains, prints)
	t.Must(err, "Contains")
	return known
}

// wantKnown checks that the filter claims every fingerprint in prints.
func (t *trial) wantKnown(prints []bloomstore.Fingerprint) {
	for i, claimed := range t.contains(prints) {
		t.Require(claimed, "Contains of key %d of %d, %x, which was added: false", i, len(prints), prints[i])
	}
}

// wantFewClaims checks that the filter claims no more fingerprints in prints than its
// rate allows. The caller must not have added any of the prints.
func (t *trial) wantFewClaims(prints []bloomstore.Fingerprint) {
	t.wantFew("claims", count(t.contains(prints), true), len(prints))
}

// count returns how many answers are equal to want.
func count(answers []bool, want bool) (n int) {
	for _, answer := range answers {
		if answer == want {
			n++
		}
	}
	return n
}

var cases = []suite.Case[options, *trial]{
	{"EmptyBatch", options{}, func(t *trial) {
		for _, batch := range [][]bloomstore.Fingerprint{nil, {}} {
			t.add(batch)
			t.contains(batch)
		}
	}},
	// This case mixes known and new keys in one batch.
	{"AnswersIndexForIndex", options{}, func(t *trial) {
		// The keys with i%3 == 0 are added first. For these keys, n-1-i is not divisible by
		// 3, so the case notices answers in reverse order.
		const n = 4100
		prints := t.prints(n)
		var old []bloomstore.Fingerprint
		for i := 0; i < n; i += 3 {
			old = append(old, prints[i])
		}
		t.add(old)
		known := t.contains(prints)
		added := t.add(prints)
		falsely := 0
		for i := range prints {
			wasAdded := i%3 == 0
			t.Require(!wasAdded || known[i] && !added[i],
				"key %d was added before: Contains says %t, AddIfAbsent %t; want true, false", i, known[i], added[i])
			t.Require(known[i] != added[i], "key %d: Contains and then AddIfAbsent both say %t", i, known[i])
			if !wasAdded && known[i] {
				falsely++
			}
		}
		t.wantFew("claims", falsely, n)
		t.wantKnown(prints)
	}},
	{"LargeBatch", options{}, func(t *trial) {
		prints := t.prints(50_000)
		t.wantFew("refusals", count(t.add(prints), false), len(prints))
		t.wantKnown(prints)
	}},
	// This case looks up, for each added key, the 128 keys that differ from it in one
	// bit. Each bit is part of the identity.
	{"TellsSimilarKeysApart", options{}, func(t *trial) {
		base := t.prints(8)
		t.add(base)
		var similar []bloomstore.Fingerprint
		for _, fp := range base {
			for bit := range 8 * len(fp) {
				neighbour := fp
				neighbour[bit/8] ^= 1 << (bit % 8)
				similar = append(similar, neighbour)
			}
		}
		t.wantFewClaims(similar)
	}},
	{"CancelledContext", options{}, func(t *trial) {
		old, fresh := t.prints(100), t.prints(100)
		t.add(old)
		cancelled, cancel := context.WithCancel(t.Ctx)
		cancel()
		_, err := call(cancelled, t.AddIfAbsent, fresh)
		t.Require(errors.Is(err, context.Canceled), "AddIfAbsent with a cancelled context: %v, want context.Canceled", err)
		_, err = call(cancelled, t.Contains, old)
		t.Require(errors.Is(err, context.Canceled), "Contains with a cancelled context: %v, want context.Canceled", err)
		t.add(fresh)
		t.wantKnown(append(old, fresh...))
	}},
	// This case reuses the argument of a call, and checks that the filter still has the
	// keys of that call. It also checks that a call does not change the results of an
	// earlier one.
	{"KeepsNoReference", options{}, func(t *trial) {
		prints, others := t.prints(1000), t.prints(1000)
		batch := slices.Clone(prints)
		first := t.add(batch)
		copy(batch, others)
		answered := slices.Clone(first)
		t.add(prints)
		t.Require(slices.Equal(first, answered), "AddIfAbsent changed the answers that the previous call returned")
		t.wantKnown(prints)
		t.wantFewClaims(others)
	}},
	{"RacersGetAtMostOneTrue", options{}, racersGetAtMostOneTrue},
	{"Model", options{}, modelRun},
}
