package membits

import (
	"sync/atomic"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/internal/positions"
	"github.com/bloomfrontier/crawler/sizing"
)

// shape is the size of a layer: a function of Config and the layer's number.
type shape struct {
	capacity   uint64 // keys
	fpr        float64
	shardCount int
	shardBits  uint64 // of one sub-filter, a multiple of 64
	hashes     uint
}

// shape returns the size of a layer. The argument must be 0, or f.grows must return true
// for it.
func (f *Filter) shape(number int) shape {
	growing := f.config.Growth == GrowthOn
	plan := sizing.LayerAt(number, f.config.Capacity, f.config.FPR, growing)
	keys := plan.Capacity
	if growing {
		keys = plan.Offered()
	}
	s := shape{capacity: plan.Capacity, fpr: plan.FPR, shardCount: f.config.Shards}
	s.shardBits, s.hashes = sizing.ShardedBits(keys, plan.FPR, uint64(f.config.Shards))
	return s
}

// bytes returns the size of one sub-filter.
func (s shape) bytes() int { return int(s.shardBits / 8) }

// layer is a set of equal sub-filters, one for each shard.
type layer struct {
	shape
	keys   atomic.Uint64
	shards []*bloom.BloomFilter // each guarded by its shard's lock
}

func newLayer(s shape) *layer {
	l := &layer{shape: s, shards: make([]*bloom.BloomFilter, s.shardCount)}
	for i := range l.shards {
		l.shards[i] = subFilter(make([]uint64, s.shardBits/64), s)
	}
	return l
}

// subFilter returns a filter of package bloom whose bits are in words. The caller
// allocates words, because bloom.New does not report a failed allocation: it returns a
// filter of length 0, for which every key is new.
func subFilter(words []uint64, s shape) *bloom.BloomFilter {
	return bloom.FromWithM(words, uint(s.shardBits), s.hashes)
}

// countKey counts one more key, unless the layer is full. It reports whether the key was
// counted.
func (l *layer) countKey() bool {
	for {
		keys := l.keys.Load()
		if keys >= l.capacity {
			return false
		}
		if l.keys.CompareAndSwap(keys, keys+1) {
			return true
		}
	}
}

// test reports whether all bits of a fingerprint are set. It stops at the first bit
// that is not set. For an absent key it tests two bits on average.
func (l *layer) test(shard int, draw positions.Draws) bool {
	set := l.shards[shard].BitSet()
	for range l.hashes {
		if !set.Test(draw.Next(l.shardBits)) {
			return false
		}
	}
	return true
}

// set sets all bits of a fingerprint.
func (l *layer) set(shard int, draw positions.Draws) {
	set := l.shards[shard].BitSet()
	for range l.hashes {
		set.Set(draw.Next(l.shardBits))
	}
}

// split returns the shard and the draws of fp.
func (f *Filter) split(fp bloomstore.Fingerprint) (shard int, draw positions.Draws) {
	return positions.Split(fp, f.choose)
}
