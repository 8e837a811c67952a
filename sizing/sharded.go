package sizing

import (
	"fmt"
	"math"
)

// wordBits is the number of bits of a word. The size of a shard is a multiple of it,
// because a filter in memory consists of whole words.
const wordBits = 64

// ShardedBits returns the size of a shard, a multiple of 64 bits, and the number of hash
// functions of a filter of equal, independent shards. A hash chooses the shard of each
// key. With n keys in all shards together, the mean false-positive rate is at most p.
//
// Shards get different numbers of keys, so together they need slightly more than
// OptimalBits: see ShardedFalsePositiveRate. ShardedBits takes some milliseconds. It
// panics unless n > 0, 0 < p < 1, 0 < shards < 2³¹ and the whole filter is below 2⁶³ bits.
func ShardedBits(n uint64, p float64, shards uint64) (shardBits uint64, k uint) {
	checkShards(shards)
	m, guess := OptimalBits(n, p)
	least := func(k uint) uint64 { return shardBitsFor(n, p, shards, k, m/shards) }
	shardBits, k = least(guess), guess
	for _, step := range []int{-1, +1} { // the best k is near that of one whole filter
		for next := int(guess) + step; next >= 1 && next <= MaxHashes; next += step {
			bits := least(uint(next))
			if bits >= shardBits {
				break
			}
			shardBits, k = bits, uint(next)
		}
	}
	return shardBits, k
}

// shardBitsFor returns the fewest bits, a multiple of a word, that suffice with k hash
// functions. startBits is the number of bits at which the search starts.
func shardBitsFor(n uint64, p float64, shards uint64, k uint, startBits uint64) uint64 {
	enough := func(words uint64) bool {
		return ShardedFalsePositiveRate(n, shards, words*wordBits, k) <= p
	}
	hi := max(startBits/wordBits, 1)
	for !enough(hi) {
		hi += hi/8 + 1
	}
	return search(0, hi, enough) * wordBits
}

// ShardedFalsePositiveRate returns the mean false-positive rate of a filter of equal
// shards with shardBits bits and k hash functions each, when all shards together have n
// keys. A hash chooses the shard of each key. The number of keys in a shard is Poisson
// with mean n/shards, and the number of bits that they set varies because of collisions
// (Bose et al., "On the false-positive rate of Bloom filters", IPL 108, 2008).
// ShardedFalsePositiveRate panics if one of shards, shardBits and k is 0.
func ShardedFalsePositiveRate(n, shards, shardBits uint64, k uint) float64 {
	checkShards(shards)
	checkBits(shardBits)
	checkHashes(k)
	if n == 0 {
		return 0
	}
	if shards == 1 {
		return occupancyPower(float64(n)*float64(k), float64(shardBits), k)
	}
	return partsRate(float64(n)/float64(shards), float64(shardBits), k)
}

func checkShards(shards uint64) {
	if shards == 0 || shards > math.MaxInt32 {
		panic(fmt.Sprintf("sizing: a filter of %d shards", shards))
	}
}
