package sizing

import (
	"math"
	"testing"
)

// TestSaturatedCounters compares SaturatedCounters with a simulation of a filter whose oldest
// key is deleted whenever a key is added.
func TestSaturatedCounters(t *testing.T) {
	rng := random(t)
	const n, m, k, additions = 400, 1000, 10, 200_000
	counters, keys, saturated := make([]int, m), make([][k]int, n), 0
	for i := range additions {
		key := &keys[i%n]
		for j := range key {
			if i >= n && counters[key[j]] > 0 {
				counters[key[j]]--
			}
		}
		for j := range key {
			key[j] = rng.IntN(m)
			if counters[key[j]]++; counters[key[j]] == saturatedCounter {
				saturated++ // this counter is cleared, so that others can be compared with the formula
				counters[key[j]] = 0
			}
		}
	}
	// Clearing removes 15 of the 4000 values in all counters at a time, and the first n additions
	// find a smaller load: so the formula is a little too high.
	want := SaturatedCounters(n, m, k, additions)
	t.Logf("%d saturated, the formula says %.1f", saturated, want)
	if got := float64(saturated); got > want+5*math.Sqrt(want) || got < want/2-5*math.Sqrt(want) {
		t.Errorf("%d counters saturated, want at most %.1f and more than half of that", saturated, want)
	}
}

func TestSaturatedCountersGolden(t *testing.T) {
	m, k := OptimalBits(1e9, 1e-6)
	near(t, "saturated of 10⁹ keys and 10¹² additions", SaturatedCounters(1e9, m, k, 1e12), 0.7, 1)
	if got := SaturatedCounters(0, 10, 3, 0); got != 0 {
		t.Errorf("an empty filter has %g saturated counters", got)
	}
	if got := SaturatedCounters(100, 10, 3, 100); got != 10 {
		t.Errorf("an overloaded filter of 10 counters has %g saturated ones, want 10", got)
	}
}

func TestSizeCounting(t *testing.T) {
	const n, p, shards = 1_000_000, 1e-4, 64
	shardBits, k := ShardedBits(n, p, shards)
	got := SizeCounting(n, p, shards)
	if got.Bytes != 4*shards*shardBits/8 || got.Hashes != k || got.FPR > p || got.FPR < 0.9*p {
		t.Errorf("SizeCounting = %+v, want 4 times %d bytes, %d hash functions and a rate of at most %g", got, shards*shardBits/8, k, p)
	}
}
