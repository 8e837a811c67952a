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
// Hash-, and Space-Efficient Bloom Filters", JEA 14, 2009). That is the figure
// of the literature; it is low by 1 % to 8 %, see ExactBlockedFalsePositiveRate.
// It takes some microseconds. It panics unless bitsPerKey > 0, blockBits > 1
// and k > 0.
func BlockedFalsePositiveRate(bitsPerKey float64, blockBits int, k uint) float64 {
	checkBlock(bitsPerKey, blockBits)
	checkHashes(k)
	stays := math.Log1p(-1 / float64(blockBits)) // log of the chance that one draw leaves a bit alone
	hashes := float64(k)
	return poissonMean(float64(blockBits)/bitsPerKey, func(keys float64) float64 {
		return math.Pow(-math.Expm1(keys*hashes*stays), hashes)
	})
}

// ExactBlockedFalsePositiveRate returns what BlockedFalsePositiveRate
// approximates, to a relative 1 % of the difference and 0.5 % of the whole: in a
// small block the number of bits that a given number of keys sets varies too
// (see ExactFalsePositiveRate), which makes 1.2 % at p = 1 % and 7 % at 1e-6 for
// blocks of 512 bits. It panics as BlockedFalsePositiveRate does.
func ExactBlockedFalsePositiveRate(bitsPerKey float64, blockBits int, k uint) float64 {
	checkBlock(bitsPerKey, blockBits)
	checkHashes(k)
	return poissonMean(float64(blockBits)/bitsPerKey, func(keys float64) float64 {
		return occupancyPower(keys*float64(k), float64(blockBits), k)
	})
}

// BlockedBits returns the fewest bits per key with which a filter of blocks of
// blockBits has a BlockedFalsePositiveRate of at most p, and the integer number
// of hash functions in 1..MaxHashes that does it. It panics unless 0 < p < 1
// and blockBits > 1.
func BlockedBits(p float64, blockBits int) (bitsPerKey float64, k uint) {
	return bestBlockedBits(p, blockBits, BlockedFalsePositiveRate)
}

// ExactBlockedBits is BlockedBits for ExactBlockedFalsePositiveRate: the size
// to build, where BlockedBits is the one to quote.
func ExactBlockedBits(p float64, blockBits int) (bitsPerKey float64, k uint) {
	return bestBlockedBits(p, blockBits, ExactBlockedFalsePositiveRate)
}

// blockedRate is the false-positive rate of a blocked filter, by one formula or
// the other.
type blockedRate func(bitsPerKey float64, blockBits int, k uint) float64

func bestBlockedBits(p float64, blockBits int, rate blockedRate) (bitsPerKey float64, k uint) {
	bits := func(k uint) float64 { return blockedBitsPerKey(p, blockBits, k, rate) }
	k = argmin(1, MaxHashes, bits)
	return bits(k), k
}

// blockedBitsPerKey returns the fewest bits per key with which k hash functions
// keep rate at or below p, to a relative 1e-9.
func blockedBitsPerKey(p float64, blockBits int, k uint, rate blockedRate) float64 {
	lo := BitsPerKey(p, k) // an unblocked filter needs less
	hi := lo
	for rate(hi, blockBits, k) > p {
		lo, hi = hi, 2*hi
	}
	for hi-lo > hi*1e-9 {
		if mid := (lo + hi) / 2; rate(mid, blockBits, k) > p {
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
