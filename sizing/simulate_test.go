package sizing

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "replay a random test; 0: a new one")

// random returns a generator of random numbers, and logs the seed with which a run can be
// repeated.
func random(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("replay with -seed=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// bitmap is a Bloom filter with ideal hash functions: it draws positions at
// random, which suffices to test rates.
type bitmap struct {
	rng  *rand.Rand
	bits []uint64
}

func newBitmap(rng *rand.Rand, m uint64) bitmap { return bitmap{rng, make([]uint64, (m+63)/64)} }

// add draws k positions out of [lo, lo+m) and reports whether at least one was not set.
func (b bitmap) add(lo, m uint64, k uint) (added bool) {
	for range k {
		i := lo + b.rng.Uint64N(m)
		added = added || b.bits[i/64]&(1<<(i%64)) == 0
		b.bits[i/64] |= 1 << (i % 64)
	}
	return added
}

// claims draws a key that was not added and reports whether all its bits are set.
func (b bitmap) claims(lo, m uint64, k uint) bool {
	for range k {
		if i := lo + b.rng.Uint64N(m); b.bits[i/64]&(1<<(i%64)) == 0 {
			return false
		}
	}
	return true
}

func (b bitmap) count(lo, m uint64) (set uint64) {
	for i := lo; i < lo+m; i++ {
		set += b.bits[i/64] >> (i % 64) & 1
	}
	return set
}

// within fails the test if count differs from rate·trials by more than five standard
// deviations, which happens by chance once in 1.7 million runs. spread adds to the
// variance if the rate itself varies from filter to filter.
func within(t *testing.T, what string, count, trials int, rate, spread float64) {
	t.Helper()
	want := rate * float64(trials)
	five := 5 * math.Sqrt(want*(1-rate)+spread*spread*want*want)
	if math.Abs(float64(count)-want) > five {
		t.Errorf("%s: %d in %d trials, want %.1f ± %.1f", what, count, trials, want, five)
	}
}

func TestSimulatedRates(t *testing.T) {
	rng := random(t)
	for _, p := range []float64{0.05, 0.01, 1e-3, 1e-4} {
		n := uint64(200_000)
		m, k := OptimalBits(n, p)
		filter, lost := newBitmap(rng, m), 0
		for i := range 2 * n {
			if !filter.add(0, m, k) && i < n {
				lost++
			}
			if held := i + 1; held != n && held != n*3/2 && held != 2*n {
				continue
			}
			probes := int(min(1000/p, 2e6))
			hits := 0
			for range probes {
				if filter.claims(0, m, k) {
					hits++
				}
			}
			within(t, "false positives", hits, probes, FalsePositiveRate(i+1, m, k), RateSpread(float64(i+1), 1, m, k))

			set := filter.count(0, m)
			estimate, stderr := Cardinality(set, m, k)
			if diff := math.Abs(estimate - float64(i+1)); diff > 5*stderr {
				t.Errorf("p = %g: Cardinality of %d set bits of %d = %.0f keys, want %d ± 5·%.0f", p, set, m, estimate, i+1, stderr)
			}
		}
		within(t, "lost while filling", lost, int(n), LostWhileFilling(n, m, k), RateSpread(float64(n), 1, m, k))
	}
}

// TestSimulatedStandardError: the standard error that Cardinality returns agrees with the
// errors of its estimates for many filters.
func TestSimulatedStandardError(t *testing.T) {
	rng := random(t)
	const n, rounds = 2000, 400
	m, k := OptimalBits(n, 0.01)
	sum, predicted := 0.0, 0.0
	for range rounds {
		filter := newBitmap(rng, m)
		for range n {
			filter.add(0, m, k)
		}
		estimate, stderr := Cardinality(filter.count(0, m), m, k)
		sum += (estimate - n) * (estimate - n)
		predicted += stderr * stderr
	}
	// A variance that is computed from this number of rounds has a relative standard
	// error of √(2/rounds).
	if ratio, five := sum/predicted, 5*math.Sqrt(2.0/rounds); math.Abs(ratio-1) > five {
		t.Errorf("mean square error divided by the square of the standard error = %.3f, want 1 ± %.3f", ratio, five)
	}
}

// TestSimulatedSmallFilter: the rate of a simulated small filter is that of
// ShardedFalsePositiveRate. The classic formula, FalsePositiveRate, is too low for it.
func TestSimulatedSmallFilter(t *testing.T) {
	rng := random(t)
	const n, m, k, rounds = 10, 96, 7, 1_000_000
	hits := 0
	for range rounds {
		filter := newBitmap(rng, m)
		for range n {
			filter.add(0, m, k)
		}
		if filter.claims(0, m, k) {
			hits++
		}
	}
	within(t, "false positives", hits, rounds, ShardedFalsePositiveRate(n, 1, m, k), 0)
}

func TestSimulatedBlocks(t *testing.T) {
	rng := random(t)
	for _, c := range []struct {
		p     float64
		block uint64
	}{{0.01, 512}, {1e-3, 512}, {1e-4, 512}, {0.01, 4096}, {1e-3, 4096}} {
		const n = 400_000
		bits, k := ExactBlockedBits(c.p, int(c.block))
		blocks := uint64(math.Round(n * bits / float64(c.block)))
		filter := newBitmap(rng, blocks*c.block)
		for range n {
			filter.add(rng.Uint64N(blocks)*c.block, c.block, k)
		}
		probes, hits := 2_000_000, 0
		for range probes {
			if filter.claims(rng.Uint64N(blocks)*c.block, c.block, k) {
				hits++
			}
		}
		rate := ExactBlockedFalsePositiveRate(float64(blocks*c.block)/n, int(c.block), k)
		within(t, "false positives", hits, probes, rate, RateSpread(n, blocks, c.block, k))
	}
}

// TestSimulatedShards simulates few keys in many shards, where the unequal loads of the
// shards have the largest effect.
func TestSimulatedShards(t *testing.T) {
	rng := random(t)
	const n, p, shards, rounds = 1000, 0.01, 64, 400
	size, k := ShardedBits(n, p, shards)
	hits, probes := 0, 0
	for range rounds {
		filter := newBitmap(rng, shards*size)
		for range n {
			filter.add(rng.Uint64N(shards)*size, size, k)
		}
		for range 5000 {
			probes++
			if filter.claims(rng.Uint64N(shards)*size, size, k) {
				hits++
			}
		}
	}
	within(t, "false positives", hits, probes, ShardedFalsePositiveRate(n, shards, size, k),
		RateSpread(n, shards, size, k)/math.Sqrt(rounds))
}
