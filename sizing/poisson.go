package sizing

import "math"

// poissonMean returns the mean of f(N) for a Poisson N with the given mean. f must be
// in [0, 1] and must not decrease.
//
// It sums terms outwards from the most likely N until the remaining terms are
// negligible. If the distribution is wide, it uses only every stride-th N, eight of them
// in each standard deviation. The trapezoidal rule is exact to full precision for
// such a bell curve, and the sum has some hundred terms.
func poissonMean(mean float64, f func(n float64) float64) float64 {
	const negligible = 1e-17
	sigma := math.Sqrt(mean)
	stride := max(1, math.Floor(sigma/8))
	mode := math.Floor(mean)
	sum, weights := f(mode), 1.0

	weight := 1.0 // relative to that of the mode
	for n := mode + stride; ; n += stride {
		weight = poissonRatio(mean, mode, n)
		sum += weight * f(n)
		weights += weight
		if rest := weight * (1 + mean/(n-mean)); rest < negligible*sum || n > 1e18 { // geometric bound, f <= 1
			break
		}
	}
	for n := mode - stride; n >= 0; n -= stride {
		weight = poissonRatio(mean, mode, n)
		sum += weight * f(n)
		weights += weight
		if weight < negligible { // and f is no larger than at the mode
			break
		}
	}
	return sum / weights
}

// poissonRatio returns Poisson(n)/Poisson(mode) for one mean, in log space:
// mean^(n-mode)·mode!/n!.
func poissonRatio(mean, mode, n float64) float64 {
	if n < 1e5 && mode < 1e5 {
		a, _ := math.Lgamma(mode + 1)
		b, _ := math.Lgamma(n + 1)
		return math.Exp((n-mode)*math.Log(mean) + a - b)
	}
	return math.Exp(stirling(mean, n) - stirling(mean, mode))
}

// stirling returns the logarithm of Poisson(n; mean), without a constant, by Stirling's
// series for a large n. For such n, differences of lgamma would lose all digits.
func stirling(mean, n float64) float64 {
	d := n - mean
	return d - (n+0.5)*math.Log1p(d/mean) - 1/(12*n)
}
