package sizing

import "math"

// RateSpread returns how much the false-positive rates of filters of one size differ by
// chance: their standard deviation relative to their mean. Each filter has n keys, 0 or
// more, and consists of parts (shards or blocks) with partBits bits and k hash functions
// each. A hash chooses the part of each key. RateSpread panics if parts, partBits or k is 0.
//
// The rate of a part depends on its number of keys N, which has a Poisson distribution,
// and on collisions of their bits. Because the whole filter has exactly n keys, one
// more key in one part is one fewer in the others. This reduces the variance of a
// part's rate f(N) by Cov(f(N), N)²/Var N (Holst, "Asymptotic normality and efficiency
// for certain goodness-of-fit tests", Biometrika 59, 1972).
func RateSpread(n float64, parts, partBits uint64, k uint) float64 {
	checkShards(parts)
	checkBits(partBits)
	checkHashes(k)
	if n == 0 {
		return 0
	}
	keys := n / float64(parts)
	power := func(exponent uint, extraKeys float64) float64 { // mean of fill^exponent of a part with extraKeys additional keys
		fill := func(keys float64) float64 {
			return occupancyPower((keys+extraKeys)*float64(k), float64(partBits), exponent)
		}
		if parts == 1 {
			return fill(keys)
		}
		return poissonMean(keys, fill)
	}
	mean := power(k, 0)
	variance := power(2*k, 0) - mean*mean
	if parts > 1 {
		perKey := power(k, 1) - mean // Cov(f(N), N)/Var N of a Poisson N, by Stein and Chen
		variance -= keys * perKey * perKey
	}
	return math.Sqrt(max(variance, 0)) / mean / math.Sqrt(float64(parts))
}
