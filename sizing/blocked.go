package sizing

import (
	"fmt"
	"math"
)

// BlockedFalsePositiveRate returns the false-positive rate of a filter whose
// keys each keep all their k bits in one block of blockBits, chosen by hash, at
// bitsPerKey bits for each key stored.
//
// Blocks are loaded unevenly, and the crowded ones err more:
// Σ_i Poisson(i; B/c)·(1-(1-1/B)^(ik))^k (Putze, Sanders, Singler, "Cache-,
// Hash-, and Space-Efficient Bloom Filters", JEA 14, 2009). It takes some
// microseconds. It panics unless bitsPerKey > 0, blockBits > 1 and k > 0.
func BlockedFalsePositiveRate(bitsPerKey float64, blockBits int, k uint) float64 {
	checkBlock(bitsPerKey, blockBits)
	checkHashes(k)
	stays := math.Log1p(-1 / float64(blockBits)) // log of the chance that one draw leaves a bit alone
	hashes := float64(k)
	return poissonMean(float64(blockBits)/bitsPerKey, func(keys float64) float64 {
		return math.Pow(-math.Expm1(keys*hashes*stays), hashes)
	})
}

// BlockedBits returns the fewest bits per key with which a filter of blocks of
// blockBits keeps a false-positive rate of at most p, and the integer number of
// hash functions in 1..MaxHashes that does it. It panics unless 0 < p < 1 and
// blockBits > 1.
func BlockedBits(p float64, blockBits int) (bitsPerKey float64, k uint) {
	return blockedBits(p, blockBits, MaxHashes)
}

func blockedBits(p float64, blockBits int, maxHashes uint) (bitsPerKey float64, k uint) {
	k = argmin(1, maxHashes, func(k uint) float64 { return BlockedBitsPerKey(p, blockBits, k) })
	return BlockedBitsPerKey(p, blockBits, k), k
}

// BlockedBitsPerKey returns the fewest bits per key with which k hash functions
// in blocks of blockBits keep a false-positive rate of at most p, to a relative
// 1e-9. It panics unless 0 < p < 1, blockBits > 1 and k > 0.
func BlockedBitsPerKey(p float64, blockBits int, k uint) float64 {
	lo := BitsPerKey(p, k) // an unblocked filter needs less
	hi := lo
	for BlockedFalsePositiveRate(hi, blockBits, k) > p {
		lo, hi = hi, 2*hi
	}
	for hi-lo > hi*1e-9 {
		if mid := (lo + hi) / 2; BlockedFalsePositiveRate(mid, blockBits, k) > p {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

func checkBlock(bitsPerKey float64, blockBits int) {
	if !(bitsPerKey > 0) || blockBits < 2 {
		panic(fmt.Sprintf("sizing: %g bits per key in blocks of %d bits", bitsPerKey, blockBits))
	}
}
