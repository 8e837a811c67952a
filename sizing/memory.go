package sizing

// MemoryLayout is the first layer of a filter in memory.
type MemoryLayout struct {
	Shards     uint64  `json:"shards"`
	ShardBits  uint64  `json:"shard_bits"`
	Hashes     uint    `json:"hashes"`
	Bytes      uint64  `json:"bytes"`
	BitsPerKey float64 `json:"bits_per_key"`
	FPR        float64 `json:"fpr"` // when full
}

// DefaultShards is how many independent filters, each under its own lock, a
// filter in memory is made of.
const DefaultShards = 64

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
		BitsPerKey: float64(shards*shardBits) / float64(c.Keys),
		FPR:        ShardedFalsePositiveRate(c.Keys, shards, shardBits, k),
	}
}
