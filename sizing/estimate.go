package sizing

import (
	"fmt"
	"math"
)

// Cardinality estimates the number of distinct keys in a filter of m bits and k hash
// functions. set is the number of bits that are set. Cardinality also returns the
// standard error of the estimate. The estimate is n = -(m/k)·ln(1 - set/m) (Swamidass
// and Baldi, J. Chem. Inf. Model. 47, 2007). The error follows from the variance of
// occupancy: √(m·(e^λ-1-λ))/k with λ = kn/m. The estimate and its error are +Inf for a
// full filter. Cardinality panics if m or k is 0 or set > m.
func Cardinality(set, m uint64, k uint) (n, stderr float64) {
	checkBits(m)
	checkHashes(k)
	if set > m {
		panic(fmt.Sprintf("sizing: %d bits of %d are set", set, m))
	}
	size, hashes := float64(m), float64(k)
	lambda := -math.Log1p(-float64(set) / size)
	if math.IsInf(lambda, 1) {
		return lambda, lambda
	}
	return size / hashes * lambda, math.Sqrt(size*(math.Expm1(lambda)-lambda)) / hashes
}

// Interval returns the 95 % confidence interval of the probability of an event. The
// arguments say how often the event happened, and in how many trials. The result is
// Wilson's score interval (JASA 22, 1927), which also holds for rare events and for 0
// successes. For 0 trials it is 0..1. Interval panics if successes > trials.
func Interval(successes, trials uint64) (lo, hi float64) {
	if successes > trials {
		panic(fmt.Sprintf("sizing: %d successes in %d trials", successes, trials))
	}
	if trials == 0 {
		return 0, 1
	}
	const z = 1.959963984540054 // the 97.5 % quantile of the normal distribution
	n, rate := float64(trials), float64(successes)/float64(trials)
	scale := 1 / (1 + z*z/n)
	centre := scale * (rate + z*z/(2*n))
	reach := scale * z * math.Sqrt(rate*(1-rate)/n+z*z/(4*n*n))
	lo, hi = max(centre-reach, 0), min(centre+reach, 1)
	if successes == 0 {
		lo = 0 // the formula has a rounding error
	}
	if successes == trials {
		hi = 1
	}
	return lo, hi
}
