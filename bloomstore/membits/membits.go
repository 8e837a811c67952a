// Package membits keeps a bloomstore.Filter in memory.
//
// It owns the layout of the bits (sub-filters, each with its own lock, in layers
// that are added as keys come), the file that a filter is saved to
// (docs/design/filter.md) and what can be said of a filter from its fill. It
// opens no files and keeps no journal: that is the store's part (package
// localstore). The bits are those of bits-and-blooms/bloom, the sizes come from
// package sizing.
package membits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// Config describes a Filter. Its zero value is a filter for ten million keys at
// one error in a million that grows when more come.
type Config struct {
	Capacity uint64  // keys that the first layer holds; 0 means 10 million
	FPR      float64 // false-positive rate never passed (see Growth), in [1e-12, 1); 0 means 1e-6
	Growth   Growth  // what happens beyond Capacity
	Shards   int     // sub-filters with a lock of their own, a power of two up to 256; 0 means 64
}

// Growth says what a filter does with more keys than its capacity.
type Growth uint8

const (
	// GrowthOn adds layers, each twice the size of the one before. The first
	// gets 0.9 of the false-positive rate and the others share the rest, so the
	// rate holds however many keys come.
	GrowthOn Growth = iota
	// GrowthOff keeps one layer, which gets the whole rate. Beyond Capacity the
	// rate rises above FPR; Stats tells how far.
	GrowthOff
)

const (
	maxShards = 256
	maxKeys   = 1 << 40 // of a layer: four terabytes at 1e-6; sizes stay far from overflow
	minFPR    = 1e-12
)

// withDefaults returns c with zero fields filled in, or all its faults.
func (c Config) withDefaults() (Config, error) {
	c.Capacity = cmp.Or(c.Capacity, 10_000_000)
	c.FPR = cmp.Or(c.FPR, 1e-6)
	c.Shards = cmp.Or(c.Shards, 64)
	var errs []error
	if c.Capacity > maxKeys {
		errs = append(errs, fmt.Errorf("Capacity is %d, want at most %d", c.Capacity, uint64(maxKeys)))
	}
	if !(c.FPR >= minFPR && c.FPR < 1) { // so put that NaN is refused
		errs = append(errs, fmt.Errorf("FPR is %g, want one from %g to below 1", c.FPR, minFPR))
	}
	if c.Growth > GrowthOff {
		errs = append(errs, fmt.Errorf("Growth is %d, want GrowthOn or GrowthOff", c.Growth))
	}
	if c.Shards < 1 || c.Shards > maxShards || bits.OnesCount(uint(c.Shards)) != 1 {
		errs = append(errs, fmt.Errorf("Shards is %d, want a power of two from 1 to %d", c.Shards, maxShards))
	}
	return c, errors.Join(errs...)
}

// Filter is a bloomstore.Filter in memory. It is safe for concurrent use.
//
// A fingerprint belongs to one shard: in every layer the sub-filter of that
// number, all guarded by one lock. A test of all layers and the setting of bits
// in the newest are thus one step, and of racers on one fingerprint one wins.
type Filter struct {
	config Config
	choose uint                     // bits of a fingerprint that choose its shard: log2 of Shards
	locks  []paddedMutex            // one per shard
	chain  atomic.Pointer[[]*layer] // oldest first; replaced, never changed
	extend sync.Mutex               // serialises the replacing
}

var _ bloomstore.Filter = (*Filter)(nil)

// paddedMutex has a cache line to itself, so that shards do not slow each other.
type paddedMutex struct {
	sync.Mutex
	_ [56]byte
}

// New returns an empty filter. The error names every fault of config.
func New(config Config) (*Filter, error) {
	f, err := newChainless(config)
	if err != nil {
		return nil, err
	}
	f.chain.Store(&[]*layer{newLayer(f.shape(0))})
	return f, nil
}

func newChainless(config Config) (*Filter, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("membits: %w", err)
	}
	return &Filter{
		config: config,
		choose: uint(bits.TrailingZeros(uint(config.Shards))),
		locks:  make([]paddedMutex, config.Shards),
	}, nil
}

// AddIfAbsent records prints; see bloomstore.Filter. It returns an error only
// when ctx is over before it begins, and has then recorded nothing.
func (f *Filter) AddIfAbsent(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("add %d fingerprints: %w", len(prints), err)
	}
	added := make([]bool, len(prints))
	for i := range prints {
		_, added[i] = f.Add(prints[i])
	}
	return added, nil
}

// Contains reports which of prints the filter claims to know; see
// bloomstore.Filter. It returns an error only when ctx is over before it begins.
func (f *Filter) Contains(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("look up %d fingerprints: %w", len(prints), err)
	}
	known := make([]bool, len(prints))
	for i := range prints {
		known[i] = f.Has(prints[i])
	}
	return known, nil
}

// Has reports whether the filter claims to know fp.
func (f *Filter) Has(fp bloomstore.Fingerprint) bool {
	shard, draw := f.split(fp)
	lock := &f.locks[shard]
	lock.Lock()
	_, known := claimant(*f.chain.Load(), shard, draw)
	lock.Unlock()
	return known
}

// Claims reports, layer for layer, oldest first, which claim to know fp.
func (f *Filter) Claims(fp bloomstore.Fingerprint) []bool {
	shard, draw := f.split(fp)
	lock := &f.locks[shard]
	lock.Lock()
	defer lock.Unlock()
	chain := *f.chain.Load()
	claims := make([]bool, len(chain))
	for number, l := range chain {
		claims[number] = l.test(shard, draw)
	}
	return claims
}

// Add records fp unless the filter claims to know it. It returns the number of
// the layer that fp was added to or, with added false, of the layer that claims
// it. What one goroutine adds alone goes to the same layers every time, so a
// journal of its answers and Restore make the same filter again.
//
// It does not allocate, but for the call that begins a new layer.
func (f *Filter) Add(fp bloomstore.Fingerprint) (number int, added bool) {
	shard, draw := f.split(fp)
	lock := &f.locks[shard]
	lock.Lock()
	defer lock.Unlock()
	if number, known := claimant(*f.chain.Load(), shard, draw); known {
		return number, false
	}
	number = f.takePlace()
	(*f.chain.Load())[number].set(shard, draw)
	return number, true
}

// Restore repeats what a journal says of Add: that it added prints to the layer
// of that number. It sets their bits, which may be set already, and counts each
// of prints once. It begins the layer if it is the next one; a journal read in
// order names no other, so any other is an ErrFilterLost.
func (f *Filter) Restore(number int, prints []bloomstore.Fingerprint) error {
	chain := *f.chain.Load()
	if number < 0 || number > len(chain) || number == len(chain) && !f.grows(number) {
		return fmt.Errorf("restore %d fingerprints to layer %d of a filter of %d layers that fit %d keys: %w",
			len(prints), number, len(chain), f.config.Capacity, bloomstore.ErrFilterLost)
	}
	if number == len(chain) {
		f.beginLayer(number)
		chain = *f.chain.Load()
	}
	into := chain[number]
	for i := range prints {
		shard, draw := f.split(prints[i])
		f.locks[shard].Lock()
		into.set(shard, draw)
		f.locks[shard].Unlock()
	}
	into.keys.Add(uint64(len(prints)))
	return nil
}

// claimant returns the number of the newest layer that claims the fingerprint of
// draw. The newest first: it holds more keys than all others together. The
// caller holds the shard's lock, and loaded the chain since it does.
func claimant(chain []*layer, shard int, draw draws) (number int, known bool) {
	for number = len(chain) - 1; number >= 0; number-- {
		if chain[number].test(shard, draw) {
			return number, true
		}
	}
	return 0, false
}

// takePlace counts one more key in the newest layer, beginning another if that
// is full, and returns its number.
func (f *Filter) takePlace() int {
	for {
		chain := *f.chain.Load()
		newest := len(chain) - 1
		next := newest + 1
		if !f.grows(next) {
			chain[newest].keys.Add(1)
			return newest
		}
		if chain[newest].takePlace() {
			return newest
		}
		f.beginLayer(next)
	}
}

// grows reports whether the chain may have a layer of that number. Far beyond
// any memory it ends, and the last layer takes what comes.
func (f *Filter) grows(number int) bool {
	return f.config.Growth == GrowthOn && f.config.Capacity <= maxKeys>>number
}

// beginLayer appends the layer of that number, unless another caller has done so.
func (f *Filter) beginLayer(number int) {
	f.extend.Lock()
	defer f.extend.Unlock()
	chain := *f.chain.Load()
	if len(chain) > number {
		return
	}
	longer := append(chain[:len(chain):len(chain)], newLayer(f.shape(number)))
	f.chain.Store(&longer)
}
