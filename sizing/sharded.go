package sizing

import (
	"fmt"
	"math"
)

// wordBits is what the size of a shard is a multiple of: filters in memory are
// made of whole words.
const wordBits = 64

// ShardedBits returns the size of each of shards equal, independent filters, of
// which a hash chooses one for each key, such that n keys in all are kept at a
// mean false-positive rate of at most p; and the number of hash functions.
// shardBits is a multiple of 64.
//
// Shards get unequal loads, so they need slightly more than a shards-th of
// OptimalBits: see ShardedFalsePositiveRate. It takes some milliseconds. It
// panics unless n > 0, 0 < p < 1, shards > 0 and the whole is below 2⁶³ bits.
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

// shardBitsFor returns the fewest bits, a multiple of a word, that suffice with
// k hash functions; about is where to look first.
func shardBitsFor(n uint64, p float64, shards uint64, k uint, about uint64) uint64 {
	enough := func(words uint64) bool {
		return ShardedFalsePositiveRate(n, shards, words*wordBits, k) <= p
	}
	hi := max(about/wordBits, 1)
	for !enough(hi) {
		hi += hi/8 + 1
	}
	lo := uint64(0) // does not suffice
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; enough(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi * wordBits
}

// ShardedFalsePositiveRate returns the mean false-positive rate of shards equal
// filters of shardBits and k hash functions, of which a hash chooses one for
// each key, once n keys are in them: the number of keys in one is Poisson with
// mean n/shards, and chance collisions make the bits they set vary (Bose et al.,
// "On the false-positive rate of Bloom filters", IPL 108, 2008). It panics if one
// of shards, shardBits and k is 0.
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
	return poissonMean(float64(n)/float64(shards), func(keys float64) float64 {
		return occupancyPower(keys*float64(k), float64(shardBits), k)
	})
}

func checkShards(shards uint64) {
	if shards == 0 || shards > math.MaxInt32 {
		panic(fmt.Sprintf("sizing: a filter of %d shards", shards))
	}
}
