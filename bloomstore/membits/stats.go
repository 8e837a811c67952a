package membits

import (
	"math"

	"github.com/bloomfrontier/crawler/sizing"
)

// Stats describe a filter. Keys can be added while the Stats are collected.
type Stats struct {
	Keys     uint64       // keys added
	Capacity uint64       // keys that the layers so far are sized for
	Bytes    uint64       // memory of the bits
	FPR      float64      // probability that a key that was never added is claimed, computed from the fill
	Estimate float64      // number of keys of all layers, computed from the fill
	StdErr   float64      // standard error of Estimate
	Layers   []LayerStats // oldest first
}

// LayerStats describe one layer of a filter.
type LayerStats struct {
	Keys     uint64  // keys added
	Capacity uint64  // keys that the layer is sized for
	Bits     uint64  // of all its sub-filters
	Hashes   uint    // bits of one key
	Fill     float64 // share of the bits that is set
	FPR      float64 // probability that the layer claims a key that was never added, computed from the fill
	Estimate float64 // number of distinct keys offered, computed from the fill; +Inf if all bits of a sub-filter are set
	Target   float64 // FPR at Capacity

	Generation int64 // number of its generation in a Window
}

// Stats counts the set bits, which takes some milliseconds for 100 MB. It holds one lock at
// a time, while it counts one sub-filter.
func (f *Filter) Stats() Stats {
	chain := *f.chain.Load()
	var s Stats
	// absent[shard] is the logarithm of the probability that no layer claims a key of this
	// shard that was never added.
	variance, absent := 0.0, make([]float64, f.config.Shards)
	for _, l := range chain {
		of := LayerStats{Keys: l.keys.Load(), Capacity: l.capacity, Hashes: l.hashes, Target: l.fpr,
			Bits: l.shardBits * uint64(l.shardCount)}
		ones := uint64(0)
		for shard := range l.shards {
			set := f.ones(l, shard)
			ones += set
			claims := math.Pow(float64(set)/float64(l.shardBits), float64(l.hashes))
			of.FPR += claims / float64(l.shardCount)
			absent[shard] += math.Log1p(-claims)
			n, stderr := sizing.Cardinality(set, l.shardBits, l.hashes)
			of.Estimate += n
			variance += stderr * stderr
		}
		of.Fill = float64(ones) / float64(of.Bits)
		s.Estimate += of.Estimate
		s.Keys += of.Keys
		s.Capacity += of.Capacity
		s.Layers = append(s.Layers, of)
	}
	for _, log := range absent {
		s.FPR += -math.Expm1(log) / float64(len(absent))
	}
	s.StdErr, s.Bytes = math.Sqrt(variance), f.Bytes()
	return s
}

// Keys returns the number of keys added.
func (f *Filter) Keys() (n uint64) {
	for _, l := range *f.chain.Load() {
		n += l.keys.Load()
	}
	return n
}

// Bytes returns the memory of all layers.
func (f *Filter) Bytes() uint64 {
	bits := uint64(0)
	for _, l := range *f.chain.Load() {
		bits += l.shardBits * uint64(l.shardCount)
	}
	return bits / 8
}

// ones counts the set bits of one sub-filter.
func (f *Filter) ones(l *layer, shard int) uint64 {
	f.locks[shard].Lock()
	defer f.locks[shard].Unlock()
	return uint64(l.shards[shard].BitSet().Count())
}
