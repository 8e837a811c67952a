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
const shardExtra = 64 + 24 + 32 + 8

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

// goClasses are the sizes that Go 1.26 allocates small objects in, from where
// they are no longer all multiples of 16.
var goClasses = []uint64{
	256, 288, 320, 352, 384, 416, 448, 480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048,
	2304, 2688, 3072, 3200, 3456, 4096, 4864, 5376, 6144, 6528, 6784, 6912, 8192, 9472, 9728, 10240, 10880,
	12288, 13568, 14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264, 28672, 32768,
}

// goAllocation returns what Go allocates for an array of size bytes without
// pointers: a size class, or pages of 8 KiB.
func goAllocation(size uint64) uint64 {
	const page = 8192
	if size <= goClasses[0] {
		return goSizeClass(int(size))
	}
	if i, _ := slices.BinarySearch(goClasses, size); i < len(goClasses) {
		return goClasses[i]
	}
	return (size + page - 1) / page * page
}
