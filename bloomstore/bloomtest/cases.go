package bloomtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// add calls AddIfAbsent. It checks that the call leaves prints unchanged and gives one
// answer for each.
func add(ctx context.Context, filter bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
	return call(ctx, "AddIfAbsent", filter.AddIfAbsent, prints)
}

// contains calls Contains and makes the same checks as the function add.
func contains(ctx context.Context, filter bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
	return call(ctx, "Contains", filter.Contains, prints)
}

func call(ctx context.Context, name string, method func(context.Context, []bloomstore.Fingerprint) ([]bool, error),
	prints []bloomstore.Fingerprint) ([]bool, error) {
	before := slices.Clone(prints)
	answers, err := method(ctx, prints)
	if !slices.Equal(prints, before) {
		return nil, fmt.Errorf("%s changed the fingerprints it was given", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s of %d fingerprints: %w", name, len(prints), err)
	}
	if len(answers) != len(prints) {
		return nil, fmt.Errorf("%s gave %d answers for %d fingerprints", name, len(answers), len(prints))
	}
	return answers, nil
}

// wantKnown checks that the filter claims every fingerprint in prints.
func wantKnown(ctx context.Context, filter bloomstore.Filter, prints []bloomstore.Fingerprint) error {
	known, err := contains(ctx, filter, prints)
	if i := slices.Index(known, false); err == nil && i >= 0 {
		return fmt.Errorf("Contains denies key %d of %d, %x, which was added", i, len(prints), prints[i])
	}
	return err
}

// wantFewClaims checks that the filter claims no more fingerprints in prints than its
// rate allows. None of them was added.
func wantFewClaims(ctx context.Context, filter bloomstore.Filter, prints []bloomstore.Fingerprint) error {
	known, err := contains(ctx, filter, prints)
	if err != nil {
		return err
	}
	falsely := 0
	for _, claimed := range known {
		if claimed {
			falsely++
		}
	}
	return checkFalse("claims", falsely, len(prints))
}

func emptyBatch(ctx context.Context, t *trial) error {
	filter := t.open()
	for _, batch := range [][]bloomstore.Fingerprint{nil, {}} {
		if _, err := add(ctx, filter, batch); err != nil {
			return err
		}
		if _, err := contains(ctx, filter, batch); err != nil {
			return err
		}
	}
	return nil
}

// answersIndexForIndex mixes known and new keys in one batch.
func answersIndexForIndex(ctx context.Context, t *trial) error {
	const n = 4100 // not symmetric: answers in reverse order are wrong
	filter, prints := t.open(), t.prints(n)
	var old []bloomstore.Fingerprint
	for i := 0; i < n; i += 3 {
		old = append(old, prints[i])
	}
	if _, err := add(ctx, filter, old); err != nil {
		return err
	}
	known, err := contains(ctx, filter, prints)
	if err != nil {
		return err
	}
	added, err := add(ctx, filter, prints)
	if err != nil {
		return err
	}
	falsely := 0
	for i := range prints {
		wasAdded := i%3 == 0
		switch {
		case wasAdded && (!known[i] || added[i]):
			return fmt.Errorf("key %d was added before: Contains says %t, AddIfAbsent %t; want true, false", i, known[i], added[i])
		case known[i] == added[i]:
			return fmt.Errorf("key %d: Contains and then AddIfAbsent both say %t", i, known[i])
		case !wasAdded && known[i]:
			falsely++
		}
	}
	if err := checkFalse("claims", falsely, n); err != nil {
		return err
	}
	return wantKnown(ctx, filter, prints)
}

func duplicatesInOneBatch(ctx context.Context, t *trial) error {
	filter := t.open()
	distinct := t.prints(64)
	var batch []bloomstore.Fingerprint
	for range 8 { // equal keys are side by side and far apart
		batch = append(batch, distinct...)
		batch = append(batch, distinct[0], distinct[0])
	}
	added, err := add(ctx, filter, batch)
	if err != nil {
		return err
	}
	offered := make(map[bloomstore.Fingerprint]bool)
	falsely := 0
	for i, fp := range batch {
		if added[i] && offered[fp] {
			return fmt.Errorf("a key is new a second time, at %d in one batch", i)
		}
		if !added[i] && !offered[fp] {
			falsely++
		}
		offered[fp] = true
	}
	return checkFalse("refusals", falsely, len(distinct))
}

func largeBatch(ctx context.Context, t *trial) error {
	filter, prints := t.open(), t.prints(50_000)
	added, err := add(ctx, filter, prints)
	if err != nil {
		return err
	}
	falsely := 0
	for _, is := range added {
		if !is {
			falsely++
		}
	}
	if err := checkFalse("refusals", falsely, len(prints)); err != nil {
		return err
	}
	return wantKnown(ctx, filter, prints)
}

// tellsSimilarKeysApart looks up, for each added key, the 128 keys that differ from it
// in one bit. Each bit is part of the identity.
func tellsSimilarKeysApart(ctx context.Context, t *trial) error {
	filter := t.open()
	base := t.prints(8)
	if _, err := add(ctx, filter, base); err != nil {
		return err
	}
	var similar []bloomstore.Fingerprint
	for _, fp := range base {
		for bit := range 8 * len(fp) {
			neighbour := fp
			neighbour[bit/8] ^= 1 << (bit % 8)
			similar = append(similar, neighbour)
		}
	}
	return wantFewClaims(ctx, filter, similar)
}

func cancelledContext(ctx context.Context, t *trial) error {
	filter, old, fresh := t.open(), t.prints(100), t.prints(100)
	if _, err := add(ctx, filter, old); err != nil {
		return err
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := add(cancelled, filter, fresh); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("AddIfAbsent with a cancelled context: error %v, want context.Canceled", err)
	}
	if _, err := contains(cancelled, filter, old); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("Contains with a cancelled context: error %v, want context.Canceled", err)
	}
	if _, err := add(ctx, filter, fresh); err != nil {
		return fmt.Errorf("after a cancelled call: %w", err)
	}
	return wantKnown(ctx, filter, append(old, fresh...))
}

// keepsNoReference reuses the argument of a call, and checks that the filter still has
// the keys of that call. It also checks that a call does not change the results of an
// earlier one.
func keepsNoReference(ctx context.Context, t *trial) error {
	filter, prints, others := t.open(), t.prints(1000), t.prints(1000)
	batch := slices.Clone(prints)
	first, err := add(ctx, filter, batch)
	if err != nil {
		return err
	}
	copy(batch, others)
	answered := slices.Clone(first)
	if _, err := add(ctx, filter, prints); err != nil {
		return err
	}
	if !slices.Equal(first, answered) {
		return errors.New("AddIfAbsent changed the answers of the call before")
	}
	if err := wantKnown(ctx, filter, prints); err != nil {
		return fmt.Errorf("after the caller reused its batch: %w", err)
	}
	return wantFewClaims(ctx, filter, others)
}
