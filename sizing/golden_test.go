package sizing

import (
	"fmt"
	"math"
	"testing"
)

// near reports a value that differs from want by more than half a unit of the
// last decimal that is given for it.
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

func TestClassicBits(t *testing.T) {
	for _, c := range []struct {
		n uint64
		p float64
		m uint64
		k uint
	}{{4e7, 1e-6, 1_150_207_006, 20}, {1e9, 0.01, 9_585_058_378, 7}} {
		if m, k := ClassicBits(c.n, c.p); m != c.m || k != c.k {
			t.Errorf("ClassicBits(%d, %g) = %d, %d, want %d, %d", c.n, c.p, m, k, c.m, c.k)
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

func TestOverfill(t *testing.T) {
	m, k := OptimalBits(1e6, 0.01)
	near(t, "percent at 1.5n", 100*FalsePositiveRate(15e5, m, k), 5.8, 1)
	near(t, "percent at 2n", 100*FalsePositiveRate(2e6, m, k), 15.7, 1)
}

func TestExactFalsePositiveRate(t *testing.T) {
	near(t, "percent for n 10, m 96, k 7", 100*ExactFalsePositiveRate(10, 96, 7), 1.0888, 4)
	if p := ExactFalsePositiveRate(5, 1, 3); p != 1 {
		t.Errorf("a filter of one bit errs with %g, want 1", p)
	}
	if p := ExactFalsePositiveRate(0, 96, 7); p != 0 {
		t.Errorf("an empty filter errs with %g, want 0", p)
	}
	if p := ExactFalsePositiveRate(1, 2, 1); p != 0.5 {
		t.Errorf("one key, two bits, one hash: %g, want 1/2", p)
	}
	// One key sets one of four bits with chance 1/4 and two with 3/4.
	if p, want := ExactFalsePositiveRate(1, 4, 2), 0.25/16+0.75/4; math.Abs(p-want) > 1e-15 {
		t.Errorf("one key, four bits, two hashes: %g, want %g", p, want)
	}
}

// The two ways to the exact rate meet where one takes over from the other.
func TestExactFalsePositiveRateIsSmooth(t *testing.T) {
	for _, p := range []float64{0.1, 0.01, 1e-6, 1e-12} {
		n := uint64(16000 / BitsPerKey(p, 1+uint(math.Log2(1/p))))
		m, k := OptimalBits(n, p)
		exact, approximate := bosePower(n*uint64(k), m, k), occupancyPower(float64(n)*float64(k), float64(m), k)
		if diff := math.Abs(approximate/exact - 1); diff > 1e-4 {
			t.Errorf("n = %d, m = %d, k = %d: %g and %g differ by %.1e", n, m, k, exact, approximate, diff)
		}
	}
}

func TestBlockedFalsePositiveRate(t *testing.T) {
	const large = 1_000_000_000
	for _, c := range []struct{ bits, ratio float64 }{{10, 1.17}, {14.4, 1.55}} { // both with their best k
		blocked, plain := 1.0, 1.0
		for k := uint(1); k <= MaxHashes; k++ {
			blocked = min(blocked, BlockedFalsePositiveRate(c.bits, 512, k))
			plain = min(plain, FalsePositiveRate(large, uint64(c.bits*large), k))
		}
		// 1.545 at 14.4 bits: two decimals of it depend on the fourth
		if ratio := blocked / plain; math.Abs(ratio-c.ratio) > 0.006 {
			t.Errorf("%g bits per key: blocked/plain is %.4f, want %.2f", c.bits, ratio, c.ratio)
		}
	}
}

func TestBlockedBits(t *testing.T) {
	for _, c := range []struct {
		p        float64
		block    int
		bits     float64
		decimals int
	}{
		{0.01, 512, 9.90, 2}, {1e-3, 512, 15.49, 2}, {1e-6, 512, 38.5, 1},
		{0.01, 4096, 9.63, 2}, {1e-3, 4096, 14.52, 2}, {1e-6, 4096, 30.0, 1},
		{1e-6, 1024, 33.6, 1},
	} {
		bits, k := BlockedBits(c.p, c.block)
		near(t, "bits per key", bits, c.bits, c.decimals)
		if p := BlockedFalsePositiveRate(bits, c.block, k); p > c.p {
			t.Errorf("BlockedBits(%g, %d) = %g, %d, which holds only %g", c.p, c.block, bits, k, p)
		}
		exact, k := ExactBlockedBits(c.p, c.block)
		if p := ExactBlockedFalsePositiveRate(exact, c.block, k); p > c.p || exact <= bits || exact > 1.01*bits {
			t.Errorf("ExactBlockedBits(%g, %d) = %g, %d, which holds %g; BlockedBits is %g", c.p, c.block, exact, k, p, bits)
		}
	}
}

// The approximation inside a block against the distribution itself.
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
			t.Errorf("%g bits per key, k = %d: %g, want %g", c.bits, c.k, got, want)
		}
	}
}

// A rate is a sum of a thousand terms at most, whatever the block: far below a
// millisecond (BenchmarkBlockedFalsePositiveRate).
func TestPoissonMeanIsShort(t *testing.T) {
	for _, mean := range []float64{0.01, 10, 1000, 1e5, 1e8, 1e12} {
		terms := 0
		poissonMean(mean, func(n float64) float64 { terms++; return n / (n + 1e20) })
		if terms > 1000 {
			t.Errorf("mean %g: %d terms", mean, terms)
		}
	}
}

func BenchmarkBlockedFalsePositiveRate(b *testing.B) {
	for _, block := range []int{512, 4096, 1 << 20} {
		b.Run(fmt.Sprintf("block=%d", block), func(b *testing.B) {
			for b.Loop() {
				BlockedFalsePositiveRate(28.8, block, 20)
			}
		})
	}
}

func TestCardinality(t *testing.T) {
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

func TestInterval(t *testing.T) {
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
		t.Errorf("the interval of no success begins at %g, want 0", lo)
	}
}
