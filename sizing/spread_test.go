package sizing

import (
	"math"
	"testing"
)

// TestSimulatedSpread: the rates of filters of one size vary as RateSpread predicts, for
// filters with one part and with many parts, and with few and with many keys.
func TestSimulatedSpread(t *testing.T) {
	rng := random(t)
	for _, c := range []struct {
		n, parts uint64
		p        float64
	}{{2000, 1, 0.01}, {2500, 64, 0.01}, {2500, 64, 1e-3}, {10_000, 64, 0.01}} {
		size, k := ShardedBits(c.n, c.p, c.parts)
		const filters = 300
		var sum, squares float64
		for range filters {
			filter := newBitmap(rng, c.parts*size)
			for range c.n {
				filter.add(rng.Uint64N(c.parts)*size, size, k)
			}
			rate := 0.0 // the exact rate: the mean of fill^k over all parts
			for part := range c.parts {
				rate += math.Pow(float64(filter.count(part*size, size))/float64(size), float64(k)) / float64(c.parts)
			}
			sum, squares = sum+rate, squares+rate*rate
		}
		mean := sum / filters
		got := math.Sqrt(squares/filters-mean*mean) / mean
		want := RateSpread(float64(c.n), c.parts, size, k)
		// The relative error of a standard deviation that is computed from this number of
		// filters is about 1/√(2·filters). It is larger for small parts, whose rates are not
		// distributed symmetrically.
		if off := math.Abs(got/want - 1); off > 5*(1+3*want)/math.Sqrt(2*filters) {
			t.Errorf("%d keys in %d parts, p = %g: relative standard deviation of the rates %.4f, want %.4f", c.n, c.parts, c.p, got, want)
		}
	}
}
