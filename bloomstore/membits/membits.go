// Package membits keeps a bloomstore.Filter in memory.
//
// It owns the layout of the bits (layers of sub-filters, and a lock for each shard), the format
// of the file that a filter is saved to (docs/design/filter.md), and the statistics computed
// from the number of set bits. It opens no files and writes no journal: package localstore
// does. The bits are kept by bits-and-blooms/bloom, and the sizes come from package sizing.
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
	"github.com/bloomfrontier/crawler/bloomstore/internal/positions"
)

// Config describes a Filter. The zero value describes a growing filter for ten
// million keys at a false-positive rate of 1e-6.
type Config struct {
	Capacity uint64  // keys that the first layer is sized for; 0 means 10 million
	FPR      float64 // highest false-positive rate (see Growth), in [1e-12, 1); 0 means 1e-6
	Growth   Growth  // what happens beyond Capacity
	Shards   int     // shards, each with a lock: a power of two up to 256; 0 means 64
}

// Growth is what a filter does with more keys than its capacity.
type Growth = bloomstore.Growth

// The values of Growth; see bloomstore.
const (
	GrowthOn  = bloomstore.GrowthOn
	GrowthOff = bloomstore.GrowthOff
)

const (
	maxShards = 256
	// maxKeys is the maximum capacity of a layer. With this limit, no computed size
	// overflows. At the rate 1e-6, a layer of this capacity takes 4 TB.
	maxKeys = 1 << 40
	minFPR  = 1e-12
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
	if !(c.FPR >= minFPR && c.FPR < 1) { // NaN is refused, too
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
// A fingerprint belongs to one shard, which has one sub-filter in every layer and
// one lock for all these sub-filters. While it holds that lock, Add tests all layers and sets
// the bits in the newest. So only one of several concurrent callers adds a fingerprint.
type Filter struct {
	config Config
	choose uint                     // bits of a fingerprint that choose its shard: log2 of Shards
	locks  []paddedMutex            // one per shard
	chain  atomic.Pointer[[]*layer] // oldest first; the slice is replaced, never changed
	extend sync.Mutex               // held while chain is replaced
}

var _ bloomstore.Filter = (*Filter)(nil)

// paddedMutex fills a cache line, so that the locks of shards do not share one.
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

// AddIfAbsent implements bloomstore.Filter. It returns an error only if ctx has
// ended before the call, and then adds nothing.
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

// Contains implements bloomstore.Filter. It returns an error only if ctx has ended
// before the call.
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

// Has reports whether the filter claims to contain fp.
func (f *Filter) Has(fp bloomstore.Fingerprint) bool {
	shard, draw := f.split(fp)
	lock := &f.locks[shard]
	lock.Lock()
	_, has := claimingLayer(*f.chain.Load(), shard, draw)
	lock.Unlock()
	return has
}

// Claims reports for each layer, oldest first, whether it claims to contain fp.
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

// Add adds fp unless the filter claims to contain it. It returns the number of a layer:
// the one to which fp was added or, if added is false, one that claims fp.
//
// If only one goroutine adds keys, Restore can make an equal filter from a journal of
// these results. Add allocates memory only when it starts a new layer.
func (f *Filter) Add(fp bloomstore.Fingerprint) (number int, added bool) {
	shard, draw := f.split(fp)
	lock := &f.locks[shard]
	lock.Lock()
	defer lock.Unlock()
	if number, has := claimingLayer(*f.chain.Load(), shard, draw); has {
		return number, false
	}
	number = f.countKey()
	(*f.chain.Load())[number].set(shard, draw)
	return number, true
}

// Restore adds prints to the layer with this number. It repeats calls of Add that a
// journal recorded. Restore counts each of the prints as one more key, even if all its bits
// are set already. If the layer is the next one, Restore starts it. For an even higher
// number, Restore returns an ErrFilterLost, because a journal that is read in order starts
// layers in order.
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

// claimingLayer returns the number of the newest layer that claims to contain the
// fingerprint of draw. It tests the newest layer first, because its capacity is
// larger than that of all others together. The caller must hold the shard's lock,
// and must have loaded the chain while it held that lock.
func claimingLayer(chain []*layer, shard int, draw positions.Draws) (number int, has bool) {
	for number = len(chain) - 1; number >= 0; number-- {
		if chain[number].test(shard, draw) {
			return number, true
		}
	}
	return 0, false
}

// countKey counts one more key in the newest layer, and returns the number of that
// layer. If the newest layer is full, countKey starts another one first.
func (f *Filter) countKey() int {
	for {
		chain := *f.chain.Load()
		newest := len(chain) - 1
		next := newest + 1
		if !f.grows(next) {
			chain[newest].keys.Add(1)
			return newest
		}
		if chain[newest].countKey() {
			return newest
		}
		f.beginLayer(next)
	}
}

// grows reports whether the chain can have a layer with this number. The last possible
// layer is larger than any memory, and gets all further keys.
func (f *Filter) grows(number int) bool {
	return f.config.Growth == GrowthOn && f.config.Capacity <= maxKeys>>number
}

// beginLayer appends the layer with this number, unless another caller has done so.
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
