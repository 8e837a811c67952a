package sizing

import "math"

// poissonMean returns the mean of f(N) for N Poisson with the given mean, where
// f is in [0, 1] and does not fall.
//
// Terms are summed outwards from the most likely N until what is left cannot
// count. Where the distribution is wide only every stride-th N is visited: its
// weights are smooth on the scale of their standard deviation, so that an even
// sampling eight times as fine gives the mean to full precision (the
// trapezoidal rule on a bell curve), and the work stays at some hundred terms.
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

// stirling returns the logarithm of Poisson(n; mean), but for a constant, by
// Stirling's series for a large n: the differences of large logarithms that
// lgamma would leave have no digits there.
func stirling(mean, n float64) float64 {
	d := n - mean
	return d - (n+0.5)*math.Log1p(d/mean) - 1/(12*n)
}
