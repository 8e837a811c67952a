package sizing

import "math"

// ExactFalsePositiveRate returns what FalsePositiveRate approximates: the mean
// of (X/m)^k over the number X of bits that n keys really set (Bose et al., "On
// the false-positive rate of Bloom filters", IPL 108, 2008). Chance collisions
// make it larger than the classic formula, by about a third of k²/2m.
//
// Filters up to 16 Kbit are computed exactly, bit by bit (some milliseconds);
// larger ones by the mean and variance of X, to a relative 1e-4 or better. It
// panics if m or k is 0.
func ExactFalsePositiveRate(n, m uint64, k uint) float64 {
	checkBits(m)
	checkHashes(k)
	const smallBits, fewDraws = 1 << 14, 1 << 18
	if m <= smallBits && n <= fewDraws/uint64(k) {
		return bosePower(n*uint64(k), m, k)
	}
	return occupancyPower(float64(n)*float64(k), float64(m), k)
}

// bosePower returns the mean of (X/m)^k, X being the number of distinct values
// among draws uniform ones out of m. It follows the distribution of X draw by
// draw: a draw hits one of the x known values with probability x/m.
func bosePower(draws, m uint64, k uint) float64 {
	const negligible = 1e-45 // a mass that not even 2⁶⁴, the largest ratio of powers at a fill of half, makes count
	prob := make([]float64, m+2)
	prob[0] = 1
	lo, hi := uint64(0), uint64(0) // X is in lo..hi, but for a negligible mass
	size := float64(m)
	for range draws {
		hi = min(hi+1, m)
		for x := hi; x > lo; x-- {
			prob[x] = prob[x]*(float64(x)/size) + prob[x-1]*(float64(m-x+1)/size)
		}
		prob[lo] *= float64(lo) / size
		for lo < hi && prob[lo] < negligible {
			prob[lo] = 0
			lo++
		}
		for hi > lo && prob[hi] < negligible {
			prob[hi] = 0
			hi--
		}
	}
	sum := 0.0
	for x := lo; x <= hi; x++ {
		sum += prob[x] * math.Pow(float64(x)/size, float64(k))
	}
	return sum
}

// occupancyPower returns the mean of (X/m)^k to second order around the mean of
// X, the number of distinct values among draws uniform ones out of m:
// f(EX) + Var(X)·f″(EX)/2. Mean and variance of X are the classic ones of
// occupancy (Johnson and Kotz, "Urn Models", 1977), to leading order in 1/m.
func occupancyPower(draws, m float64, k uint) float64 {
	if draws == 0 {
		return 0
	}
	empty := draws * math.Log1p(-1/m) // log of the share of bits that stay 0
	if m == 1 {
		return 1
	}
	fill, zero, lambda := -math.Expm1(empty), math.Exp(empty), draws/m
	variance := zero * (1 - (1+lambda)*zero) / m // of the fill
	exponent := float64(k)
	second := exponent * (exponent - 1) / 2 * max(variance, 0) / (fill * fill)
	return min(math.Pow(fill, exponent)*(1+second), 1)
}
