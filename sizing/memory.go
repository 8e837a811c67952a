package sizing

import "slices"

// MemoryLayout is the first layer of a filter in memory.
type MemoryLayout struct {
	Shards     uint64  `json:"shards"`
	ShardBits  uint64  `json:"shard_bits"`
	Hashes     uint    `json:"hashes"`
	Bytes      uint64  `json:"bytes"`     // length of the bit array
	Allocated  uint64  `json:"allocated"` // by Go, for the bits
	BitsPerKey float64 `json:"bits_per_key"`
	FPR        float64 `json:"fpr"` // when full
}

// DefaultShards is the default number of shards in a filter in memory. Shards are
// independent filters, each with a lock.
const DefaultShards = 64

// shardExtra is the memory of a shard in addition to its bits: lock, headers, pointers.
const shardExtra = 128

// SizeMemory returns the first layer of the filter in memory that c describes. It
// panics like ShardedBits.
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
