package sizing

import (
	"math"
	"testing"
)

// near fails the test if got differs from want by more than half a unit of the last
// decimal.
func near(t *testing.T, what string, got, want float64, decimals int) {
	t.Helper()
	if half := 0.5001 * math.Pow10(-decimals); math.Abs(got-want) > half {
		t.Errorf("%s is %.*f, want %.*f", what, decimals+2, got, decimals, want)
	}
}

func TestOptimalBits(t *testing.T) {
	for _, c := range []struct {
		p    float64
		bits float64
		k    uint
	}{{0.05, 6.247, 4}, {0.01, 9.593, 7}, {1e-3, 14.378, 10}, {1e-4, 19.173, 13}, {1e-6, 28.755, 20}} {
		const n = 1e9
		m, k := OptimalBits(n, c.p)
		near(t, "bits per key", float64(m)/n, c.bits, 3)
		if k != c.k {
			t.Errorf("p = %g: k = %d, want %d", c.p, k, c.k)
		}
	}
}

func TestLostWhileFilling(t *testing.T) {
	lost := func(p float64) float64 {
		m, k := OptimalBits(1e8, p)
		return LostWhileFilling(1e8, m, k)
	}
	near(t, "percent lost at p = 1 %", 100*lost(0.01), 0.1658, 4)
	near(t, "share of p lost at p = 1e-6", lost(1e-6)/1e-6, 0.066, 3)
}

func TestOverfilledRate(t *testing.T) {
	m, k := OptimalBits(1e6, 0.01)
	near(t, "percent at 1.5n", 100*FalsePositiveRate(15e5, m, k), 5.8, 1)
	near(t, "percent at 2n", 100*FalsePositiveRate(2e6, m, k), 15.7, 1)
}

// bosePower returns the mean of (X/m)^k, where X is the number of distinct values among
// the given number of uniform draws out of m values. It computes the distribution of X
// draw by draw: if x values were drawn before, a draw is one of them with probability x/m.
func bosePower(draws, m uint64, k uint) float64 {
	prob := make([]float64, m+1)
	prob[0] = 1
	size := float64(m)
	for range draws {
		for x := m; x > 0; x-- {
			prob[x] = prob[x]*(float64(x)/size) + prob[x-1]*(float64(m-x+1)/size)
		}
		prob[0] = 0
	}
	sum := 0.0
	for x, p := range prob {
		sum += p * math.Pow(float64(x)/size, float64(k))
	}
	return sum
}

func TestBosePower(t *testing.T) {
	near(t, "percent for n 10, m 96, k 7", 100*bosePower(70, 96, 7), 1.0888, 4)
	// One key sets one of four bits with probability 1/4, and two bits with probability
	// 3/4.
	if p, want := bosePower(2, 4, 2), 0.25/16+0.75/4; math.Abs(p-want) > 1e-15 {
		t.Errorf("bosePower(2, 4, 2) = %g, want %g", p, want)
	}
}

// TestOccupancyPower compares occupancyPower, an approximation, with bosePower, which is
// exact, for filters of some thousand bits.
func TestOccupancyPower(t *testing.T) {
	for _, p := range []float64{0.1, 0.01, 1e-6, 1e-12} {
		n := uint64(16000 / BitsPerKey(p, 1+uint(math.Log2(1/p))))
		m, k := OptimalBits(n, p)
		exact, approximate := bosePower(n*uint64(k), m, k), occupancyPower(float64(n)*float64(k), float64(m), k)
		if diff := math.Abs(approximate/exact - 1); diff > 1e-4 {
			t.Errorf("n = %d, m = %d, k = %d: exact value %g, occupancyPower = %g; relative difference %.1e, want at most 1e-4", n, m, k, exact, approximate, diff)
		}
	}
	if p := ShardedFalsePositiveRate(5, 1, 1, 3); p != 1 {
		t.Errorf("a filter of one bit has the false-positive rate %g, want 1", p)
	}
	if p := ShardedFalsePositiveRate(0, 1, 96, 7); p != 0 {
		t.Errorf("an empty filter has the false-positive rate %g, want 0", p)
	}
}

// blockedBefore returns the false-positive rate by the formula of Putze, Sanders and
// Singler. The formula ignores the variation of the number of bits that keys set in a block.
func blockedBefore(bitsPerKey float64, blockBits int, k uint) float64 {
	return poissonMean(float64(blockBits)/bitsPerKey, func(keys float64) float64 {
		return math.Pow(-math.Expm1(keys*float64(k)*math.Log1p(-1/float64(blockBits))), float64(k))
	})
}

// TestBlockedAgainstThePaper checks the published ratios of the rate of a blocked
// filter to that of an unblocked one. It also checks how far our rate is above the
// formula of the paper.
func TestBlockedAgainstThePaper(t *testing.T) {
	const large = 1_000_000_000
	for _, c := range []struct{ bits, ratio, above float64 }{{10, 1.17, 1.013}, {14.4, 1.55, 1.025}} { // each with its best k
		before, blocked, plain := 1.0, 1.0, 1.0
		for k := uint(1); k <= MaxHashes; k++ {
			before = min(before, blockedBefore(c.bits, 512, k))
			blocked = min(blocked, ExactBlockedFalsePositiveRate(c.bits, 512, k))
			plain = min(plain, FalsePositiveRate(large, uint64(c.bits*large), k))
		}
		// The ratio at 14.4 bits is 1.545, so its rounding to two decimals depends on
		// the fourth decimal.
		if ratio := before / plain; math.Abs(ratio-c.ratio) > 0.006 {
			t.Errorf("%g bits per key: blocked/plain is %.4f, want %.2f", c.bits, ratio, c.ratio)
		}
		if above := blocked / before; above <= 1 || above > c.above {
			t.Errorf("%g bits per key: the rate is %.4f times that of the paper's formula, want 1 to %g times", c.bits, above, c.above)
		}
	}
}

func TestExactBlockedBits(t *testing.T) {
	for _, c := range []struct {
		p     float64
		block int
		paper float64 // bits per key with the paper's formula
	}{
		{0.01, 512, 9.90}, {1e-3, 512, 15.49}, {1e-6, 512, 38.5}, {0.01, 4096, 9.63}, {1e-3, 4096, 14.52}, {1e-6, 4096, 30.0}, {1e-6, 1024, 33.6},
	} {
		bits, k := ExactBlockedBits(c.p, c.block)
		if p := ExactBlockedFalsePositiveRate(bits, c.block, k); p > c.p || bits < 0.999*c.paper || bits > 1.01*c.paper {
			t.Errorf("ExactBlockedBits(%g, %d) = %g bits, k = %d, with a rate of %g; want %g bits, or up to 1 %% more", c.p, c.block, bits, k, p, c.paper)
		}
	}
}

// TestExactBlockedFalsePositiveRate checks the function, which approximates the rate of a block
// with a given number of keys. The test computes the rates of blocks exactly, with bosePower.
func TestExactBlockedFalsePositiveRate(t *testing.T) {
	for _, c := range []struct {
		bits float64
		k    uint
	}{{9.9, 6}, {38.5, 16}, {10, 20}} {
		const block = 512
		want := poissonMean(block/c.bits, func(keys float64) float64 {
			return bosePower(uint64(keys)*uint64(c.k), block, c.k)
		})
		if got := ExactBlockedFalsePositiveRate(c.bits, block, c.k); math.Abs(got/want-1) > 0.005 {
			t.Errorf("%g bits per key, k = %d: rate %g, want %g", c.bits, c.k, got, want)
		}
	}
}

// TestPoissonMeanIsShort: poissonMean computes at most a thousand terms for any mean, so
// it takes far less than a millisecond.
func TestPoissonMeanIsShort(t *testing.T) {
	for _, mean := range []float64{0.01, 10, 1000, 1e5, 1e8, 1e12} {
		terms := 0
		poissonMean(mean, func(n float64) float64 { terms++; return n / (n + 1e20) })
		if terms > 1000 {
			t.Errorf("poissonMean(%g) computed %d terms, want at most 1000", mean, terms)
		}
	}
}

func TestCardinalityGolden(t *testing.T) {
	const n = 1_000_000
	m, k := OptimalBits(n, 0.01)
	set := uint64(math.Round(float64(m) * -math.Expm1(-load(n, m, k))))
	got, stderr := Cardinality(set, m, k)
	near(t, "keys", got, n, -1)
	near(t, "standard error in percent", 100*stderr/n, 0.026, 3)

	if n, stderr := Cardinality(0, m, k); n != 0 || stderr != 0 {
		t.Errorf("an empty filter has %g ± %g keys, want 0", n, stderr)
	}
	if n, stderr := Cardinality(m, m, k); !math.IsInf(n, 1) || !math.IsInf(stderr, 1) {
		t.Errorf("a full filter has %g ± %g keys, want +Inf", n, stderr)
	}
}

func TestIntervalGolden(t *testing.T) {
	for _, c := range []struct {
		successes, trials uint64
		lo, hi            float64
	}{
		{0, 0, 0, 1},
		{0, 10, 0, 0.2775}, // Newcombe, Statistics in Medicine 17, 1998: Wilson's intervals
		{1, 29, 0.0061, 0.1718},
		{15, 148, 0.0624, 0.1605},
		{81, 263, 0.2553, 0.3662},
		{10, 10, 0.7225, 1},
	} {
		lo, hi := Interval(c.successes, c.trials)
		near(t, "lower end", lo, c.lo, 4)
		near(t, "upper end", hi, c.hi, 4)
	}
	if lo, _ := Interval(0, 1e12); lo != 0 {
		t.Errorf("Interval(0, 1e12) begins at %g, want 0", lo)
	}
}
