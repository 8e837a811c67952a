// Package sizing computes the sizes and error rates of Bloom filters, and estimates
// the memory and disk that queues and exact keys take.
//
// It owns formulas and their sources. It holds no bits (package bloomstore does), does
// no I/O, reads no clock and parses no user input. Every function is pure and safe
// for concurrent use. In all comments n is the number of distinct keys, p the
// false-positive rate, m the number of bits and k the number of hash functions.
package sizing

import (
	"fmt"
	"math"
)

// MaxHashes is the largest number of hash functions that this package considers.
const MaxHashes = 64

// OptimalBits returns the bits of the smallest filter that holds n keys at a
// false-positive rate of at most p, and its number of hash functions, an integer in
// 1..MaxHashes.
//
// It minimizes m = Bits(n, p, k) over k. The textbook formula -n·ln p / (ln 2)²
// assumes a k that is not an integer, and so misses p slightly. OptimalBits panics
// unless n > 0, 0 < p < 1 and m < 2⁶³.
func OptimalBits(n uint64, p float64) (m uint64, k uint) {
	k = argmin(1, MaxHashes, func(k uint) float64 { return BitsPerKey(p, k) })
	return Bits(n, p, k), k
}

// Bits returns the bits of a filter with k hash functions that holds n keys at a
// false-positive rate of at most p: m = ⌈-k·n / ln(1 - p^(1/k))⌉, which solves
// FalsePositiveRate for m. It panics unless n > 0, k > 0, 0 < p < 1 and m < 2⁶³.
func Bits(n uint64, p float64, k uint) uint64 {
	if n == 0 {
		panic("sizing: a filter for 0 keys")
	}
	m := math.Ceil(float64(n) * BitsPerKey(p, k))
	if m >= 1<<63 {
		panic(fmt.Sprintf("sizing: %d keys at p = %g need %g bits", n, p, m))
	}
	return uint64(m)
}

// BitsPerKey returns m/n of a large filter with k hash functions and a false-positive
// rate of p: -k / ln(1 - p^(1/k)). It panics unless k > 0 and 0 < p < 1.
func BitsPerKey(p float64, k uint) float64 {
	checkRate(p)
	checkHashes(k)
	return -float64(k) / math.Log1p(-math.Exp(math.Log(p)/float64(k)))
}

// InformationBound returns the lower bound of bits per key of any set that errs with
// probability p: log2(1/p) (Carter et al., STOC 1978). A Bloom filter needs at least
// 1.44 times as many. The bound is +Inf for p = 0, and 0 for p = 1.
func InformationBound(p float64) float64 { return math.Log2(1 / p) }

// FalsePositiveRate returns the probability, in [0, 1], that a filter of m bits and
// k hash functions with n distinct keys claims to contain a key that was never added.
//
// It is the classic (1 - e^(-kn/m))^k (Bloom, CACM 13(7), 1970), which is slightly too
// low for small m (Bose et al., IPL 108, 2008). FalsePositiveRate panics if m or
// k is 0.
func FalsePositiveRate(n, m uint64, k uint) float64 {
	checkBits(m)
	checkHashes(k)
	return math.Pow(-math.Expm1(-load(n, m, k)), float64(k))
}

// LostWhileFilling returns the share of n distinct keys that are false positives when
// they are added, one after the other, to a filter of m bits and k hash functions:
// (1/n)·Σ (1-e^(-ki/m))^k over i = 0..n-1, the number of keys added before.
//
// For n up to 512 it computes the sum. For a larger n it computes the integral that
// approximates the sum, with the first two Euler-Maclaurin corrections (to 1e-6).
// With fill y = 1-e^(-λ) and λ = kn/m the integral is
// (1/λ)·∫ y^k/(1-y) dy = (1/λ)·Σ_{j>k} y^j/j. The result is 0 for n = 0.
// LostWhileFilling panics if m or k is 0.
func LostWhileFilling(n, m uint64, k uint) float64 {
	checkBits(m)
	checkHashes(k)
	if n == 0 {
		return 0
	}
	const direct = 512
	if n <= direct {
		sum := 0.0
		for i := range n {
			sum += FalsePositiveRate(i, m, k)
		}
		return sum / float64(n)
	}
	lambda, last := load(n, m, k), FalsePositiveRate(n, m, k)
	slope := last * float64(k) * lambda / float64(n) / math.Expm1(lambda) // of the rate at n, per key
	return lostIntegral(lambda, k) - (last/2-slope/12)/float64(n)
}

// lostIntegral returns (1/λ)·∫₀^λ (1-e^(-u))^k du.
func lostIntegral(lambda float64, k uint) float64 {
	fill := -math.Expm1(-lambda)
	if fill > 0.9 { // with y = fill, Σ_{j>k} y^j/j converges slowly: subtract the first k terms from λ = Σ_{j>0} y^j/j
		sum, power := lambda, 1.0
		for j := 1; j <= int(k); j++ {
			power *= fill
			sum -= power / float64(j)
		}
		return sum / lambda
	}
	sum, power := 0.0, math.Pow(fill, float64(k))
	for j := float64(k) + 1; ; j++ {
		power *= fill
		term := power / j
		sum += term
		if term <= sum*1e-17 {
			return sum / lambda
		}
	}
}

// load returns λ = kn/m, the mean number of times that a bit was set.
func load(n, m uint64, k uint) float64 { return float64(k) * float64(n) / float64(m) }

// argmin returns the integer in lo..hi at which f is smallest, for an f that
// falls and then rises.
func argmin(lo, hi uint, f func(uint) float64) uint {
	best, least := lo, f(lo)
	for k := lo + 1; k <= hi; k++ {
		value := f(k)
		if value > least {
			break
		}
		best, least = k, value
	}
	return best
}

// search returns the smallest integer n with lo < n ≤ hi for which enough returns true. The
// caller knows that enough returns true for hi. If enough returns true for a number, it must
// return true for all larger ones.
func search(lo, hi uint64, enough func(uint64) bool) uint64 {
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; enough(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

func checkRate(p float64) {
	if !(p > 0 && p < 1) {
		panic(fmt.Sprintf("sizing: false-positive rate %g is not between 0 and 1", p))
	}
}

func checkBits(m uint64) {
	if m == 0 {
		panic("sizing: a filter of 0 bits")
	}
}

func checkHashes(k uint) {
	if k == 0 {
		panic("sizing: a filter of 0 hash functions")
	}
}
