package sizing

import "math"

// CountingLayout is a counting Bloom filter in memory, whose counters have 4 bits.
type CountingLayout struct {
	Shards        uint64  `json:"shards"`
	ShardCounters uint64  `json:"shard_counters"`
	Hashes        uint    `json:"hashes"`
	Bytes         uint64  `json:"bytes"` // of all counters: 4 times those of a filter of bits
	FPR           float64 `json:"fpr"`   // with n keys
}

// SizeCounting returns the layout of a counting filter that has at most n keys at one time, with
// a mean false-positive rate of at most p. A counter takes the place of a bit, so the number of
// counters and the rate are those of ShardedBits. SizeCounting panics like ShardedBits.
func SizeCounting(n uint64, p float64, shards uint64) CountingLayout {
	counters, k := ShardedBits(n, p, shards)
	return CountingLayout{
		Shards: shards, ShardCounters: counters, Hashes: k,
		Bytes: shards * counters / 2,
		FPR:   ShardedFalsePositiveRate(n, shards, counters, k),
	}
}

// saturatedCounter is the highest value of a counter of 4 bits. A counter that has it is
// saturated, and keeps it for ever.
const saturatedCounter = 15

// SaturatedCounters returns an upper bound of the mean number of saturated counters in a counting
// filter of m counters with 4 bits and k hash functions. The filter never has more than n keys,
// but keys can be deleted and others added: the argument additions is the number of all that were
// ever added.
//
// The value of a counter is Poisson with mean λ = kn/m (Fan et al., "Summary Cache", IEEE/ACM
// Transactions on Networking 8(3), 2000). A counter saturates when it is incremented at the value
// 14, which happens with that probability at each of the k·additions increments. For an optimal
// filter λ is ln 2, and 10¹² additions with k = 20 saturate 0.7 counters. If λ is above 14, each
// counter is counted. SaturatedCounters panics if m or k is 0.
func SaturatedCounters(n, m uint64, k uint, additions uint64) float64 {
	checkBits(m)
	checkHashes(k)
	if n == 0 {
		return 0
	}
	lambda := load(n, m, k)
	if lambda >= saturatedCounter-1 {
		return float64(m)
	}
	factorial, _ := math.Lgamma(saturatedCounter)
	before := math.Exp((saturatedCounter-1)*math.Log(lambda) - lambda - factorial)
	return min(float64(m), float64(k)*float64(additions)*before)
}
