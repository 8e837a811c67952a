package sizing

import "slices"

// MemoryLayout is the first layer of a filter in memory.
type MemoryLayout struct {
	Shards     uint64  `json:"shards"`
	ShardBits  uint64  `json:"shard_bits"`
	Hashes     uint    `json:"hashes"`
	Bytes      uint64  `json:"bytes"`     // of bits
	Allocated  uint64  `json:"allocated"` // what the process takes for them
	BitsPerKey float64 `json:"bits_per_key"`
	FPR        float64 `json:"fpr"` // when full
}

// DefaultShards is how many independent filters, each under its own lock, a
// filter in memory is made of.
const DefaultShards = 64

// shardExtra is what a sub-filter takes beside its bits: lock, headers, pointers.
const shardExtra = 128

// SizeMemory returns the first layer of a filter in memory that is made for
// c.Keys keys. It panics as ShardedBits does.
func SizeMemory(c Chain, shards uint64) MemoryLayout {
	first := LayerAt(0, c.Keys, c.FPR, c.Growth)
	keys := first.Capacity
	if c.Growth {
		keys = first.Offered()
	}
	shardBits, k := ShardedBits(keys, first.FPR, shards)
	return MemoryLayout{
		Shards: shards, ShardBits: shardBits, Hashes: k,
		Bytes:      shards * shardBits / 8,
		Allocated:  shards * (goAllocation(shardBits/8) + shardExtra),
		BitsPerKey: float64(shards*shardBits) / float64(c.Keys),
		FPR:        ShardedFalsePositiveRate(c.Keys, shards, shardBits, k),
	}
}

// goAllocation returns what Go allocates for an array of size bytes without
// pointers: one of its size classes, or pages of 8 KiB.
func goAllocation(size uint64) uint64 {
	const page, largestClass = 8192, 32 << 10
	if size <= largestClass {
		return uint64(cap(slices.Grow([]byte(nil), int(size))))
	}
	return (size + page - 1) / page * page
}
