package sizing

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
)

// The layout of a filter in Redis, and its limits.
const (
	DefaultBlockBits   = 1024     // bits of a block; one block has all bits of a key in a layer
	DefaultPartitions  = 256      // number of hash tags that hosts are spread over
	MaxSegmentBytes    = 32 << 20 // bytes of one Redis key; creating a larger one would stall the server
	SegmentHeaderBytes = 64       // magic, version, parameters and id, at the start of every segment
)

// The memory of a string in Redis in addition to its bytes, measured with Redis 7.0.15
// and jemalloc 5.3. The size of segments depends on the first two constants, so they are
// part of the format of filters.
const (
	stringExtra  = 10  // string header and final zero, in the same allocation as the bytes
	segmentExtra = 88  // object, key name, dictionary entry and its slot
	recordBytes  = 200 // metadata of a partition, a small hash
)

// Segments is one layer of one partition: Count Redis keys of Bytes bytes each.
type Segments struct {
	Count      int     `json:"count"`
	Bytes      uint64  `json:"bytes"`      // of one key's value, with the header
	Allocated  uint64  `json:"allocated"`  // part of used_memory that one key takes
	Hashes     uint    `json:"hashes"`     // k
	BlockBits  int     `json:"block_bits"` // B
	BitsPerKey float64 `json:"bits_per_key"`
	FPR        float64 `json:"fpr"` // when full
}

// RedisSegments returns the layout of one layer of one partition. The layer is sized for
// the given number of keys, at a false-positive rate of at most p. Segments fill the size
// classes of jemalloc, and their number is chosen to waste the least memory. RedisSegments
// panics unless keys > 0, 0 < p < 1 and blockBits is a multiple of 32 up to 1 Mbit.
func RedisSegments(keys uint64, p float64, blockBits int) Segments {
	if keys == 0 || blockBits < 32 || blockBits > 1<<20 || blockBits%32 != 0 {
		panic(fmt.Sprintf("sizing: segments for %d keys in blocks of %d bits", keys, blockBits))
	}
	bitsPerKey, k := ExactBlockedBits(p, blockBits)
	blockBytes := float64(blockBits) / 8
	blocks := math.Ceil(float64(keys) * bitsPerKey / float64(blockBits))
	perSegment := math.Floor((MaxSegmentBytes - stringExtra - SegmentHeaderBytes) / blockBytes)

	best, least := Segments{}, math.Inf(1)
	fewest := math.Ceil(blocks / perSegment)
	for count := fewest; count < fewest+16 && count <= blocks; count++ {
		size := sizeClass(SegmentHeaderBytes + stringExtra + uint64(math.Ceil(blocks/count)*blockBytes))
		if cost := count * float64(size+segmentExtra); cost < least {
			least = cost
			room := uint64(float64(size-stringExtra-SegmentHeaderBytes) / blockBytes)
			best = Segments{Count: int(count), Bytes: SegmentHeaderBytes + room*uint64(blockBytes), Allocated: size + segmentExtra}
		}
	}
	best.Hashes, best.BlockBits = k, blockBits
	best.BitsPerKey = float64(best.filterBits()) / float64(keys)
	best.FPR = ExactBlockedFalsePositiveRate(best.BitsPerKey, blockBits, k)
	return best
}

// filterBits returns the number of bits in all blocks.
func (s Segments) filterBits() uint64 {
	return uint64(s.Count) * 8 * (s.Bytes - SegmentHeaderBytes)
}

// sizeClass returns how many bytes jemalloc allocates for size bytes. Up to 128 bytes this
// is a multiple of 16. Above that, there are four classes for each power of two.
func sizeClass(size uint64) uint64 {
	step := uint64(16)
	if size > 128 {
		step = 1 << (bits.Len64(size-1) - 3)
	}
	return (size + step - 1) / step * step
}

// RedisPlan describes a filter in Redis, for SizeRedis.
type RedisPlan struct {
	Keys       uint64 // capacity
	FPR        float64
	Growth     bool // the filter may get further layers; SizeRedis reports the first
	BlockBits  int  // 0 means DefaultBlockBits
	Partitions int  // 0 means DefaultPartitions
}

// RedisLayout is the layout of a filter in Redis, and the memory that it takes when each
// partition has the same number of keys.
type RedisLayout struct {
	Partitions    int      `json:"partitions"`
	PartitionKeys uint64   `json:"partition_keys"` // capacity of the first layer of each partition
	Segments      Segments `json:"segments"`       // of the first layer of each partition
	AOFPerURL     float64  `json:"aof_bytes_per_url"`
	Bytes         uint64   `json:"bytes"` // of used_memory, with the metadata of the partitions
	BitsPerURL    float64  `json:"bits_per_url"`
	FPR           float64  `json:"fpr"` // with as many keys as the capacity
}

// SizeRedis returns the layout of a filter over the partitions of a crawl. Each
// partition is sized for its mean number of keys plus four standard deviations, so that
// hardly any partition grows by chance alone. For a hundred thousand keys or more, the bytes
// are within 10 % of used_memory of Redis 7.0.15. A partition with large hosts has more keys
// than others, grows, and takes more. SizeRedis panics unless Keys > 0 and 0 < FPR < 1.
func SizeRedis(plan RedisPlan) RedisLayout {
	partitions, blockBits := cmp.Or(plan.Partitions, DefaultPartitions), cmp.Or(plan.BlockBits, DefaultBlockBits)
	if partitions < 1 {
		panic(fmt.Sprintf("sizing: %d partitions", partitions))
	}
	each := float64(plan.Keys) / float64(partitions)
	first := LayerAt(0, uint64(math.Ceil(each+4*math.Sqrt(each))), plan.FPR, plan.Growth)
	keys := first.Capacity
	if plan.Growth {
		keys = first.Offered()
	}
	segments := RedisSegments(keys, first.FPR, blockBits)
	size := uint64(partitions) * (uint64(segments.Count)*segments.Allocated + recordBytes)
	return RedisLayout{
		Partitions: partitions, PartitionKeys: first.Capacity, Segments: segments, AOFPerURL: AOFPerURL(blockBits),
		Bytes: size, BitsPerURL: 8 * float64(size) / float64(plan.Keys),
		FPR: ExactBlockedFalsePositiveRate(float64(segments.filterBits())/each, blockBits, segments.Hashes),
	}
}

// AOFPerURL returns how many bytes are written to the append-only file when one URL is
// added, for its block and its queue entry. The measured numbers were 184 for blocks of
// 512 bits, and 249 for blocks of 1024 bits.
func AOFPerURL(blockBits int) float64 { return 120 + float64(blockBits)/8 }
