package sizing

import (
	"math"
	"testing"
	"time"
)

func TestRecommendedGenerations(t *testing.T) {
	for p, want := range map[float64]int{0.01: 3, 1e-6: 6} {
		if got := RecommendedGenerations(p); got != want {
			t.Errorf("RecommendedGenerations(%g) = %d, want %d", p, got, want)
		}
	}
}

// TestSizeWindow computes the bits and rates of windows again, from the sizes of plain filters.
func TestSizeWindow(t *testing.T) {
	const n = 60_000_000
	for _, p := range []float64{1e-2, 1e-4, 1e-6} {
		for _, g := range []int{1, 3, 6} {
			got := SizeWindow(Window{Keys: n, FPR: p, Generations: g}, 64)
			m, _ := OptimalBits(uint64(n/g), 0.9*p/float64(g+1))
			plain := float64(m) * float64(g+1) / n
			if got.Asked != g+1 || got.BitsPerKey < plain || got.BitsPerKey > 1.02*plain || got.Bytes != uint64(math.Round(got.BitsPerKey*n/8)) {
				t.Errorf("p = %g, %d generations: %+v, want %.2f to %.2f bits per key", p, g, got, plain, 1.02*plain)
			}
			// The first layer of a generation may use 0.9 of its rate.
			if got.FPR > p || got.FPR < 0.85*p {
				t.Errorf("p = %g, %d generations: the rate is %g", p, g, got.FPR)
			}
		}
	}
}

func TestWindowKept(t *testing.T) {
	w := Window{Keys: 10, FPR: 0.01, Generations: 3}
	if got := w.Kept(24 * time.Hour); got != 32*time.Hour {
		t.Errorf("a window of 24 h in 3 generations keeps keys for %v, want 32 h", got)
	}
	if got := w.Generation(); got.Keys != 4 || got.FPR != 0.0025 || !got.Growth {
		t.Errorf("the generation of %+v is %+v", w, got)
	}
}

// TestSimulatedWindow fills windows of real size with random keys, and compares the rate of all
// generations together with the one that was asked for.
func TestSimulatedWindow(t *testing.T) {
	rng := random(t)
	for _, g := range []int{1, 3, 6} {
		const n, p, probes = 120_000, 0.01, 1_000_000
		w := Window{Keys: n, FPR: p, Generations: g}
		first := LayerAt(0, w.Generation().Keys, w.Generation().FPR, true)
		passes := 1.0
		var generations []bitmap
		for range w.Asked() {
			b := newBitmap(rng, first.Bits)
			for range first.Capacity {
				b.add(0, first.Bits, first.Hashes)
			}
			generations = append(generations, b)
			passes *= 1 - FalsePositiveRate(first.Capacity, first.Bits, first.Hashes)
		}
		hits := 0
		for range probes {
			for _, b := range generations {
				if b.claims(0, first.Bits, first.Hashes) {
					hits++
					break
				}
			}
		}
		spread := RateSpread(float64(first.Capacity), 1, first.Bits, first.Hashes) / math.Sqrt(float64(w.Asked()))
		within(t, "false positives of a window", hits, probes, 1-passes, spread)
		if 1-passes > p {
			t.Errorf("%d generations: the rate is %g, above %g", g, 1-passes, p)
		}
	}
}
