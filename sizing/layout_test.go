package sizing

import (
	"math"
	"runtime"
	"testing"
	"time"
)

func TestShardedBits(t *testing.T) {
	for _, n := range []uint64{1, 10, 1000, 1e5, 1e7, 1e9, 1e11} {
		for _, p := range []float64{0.5, 0.01, 1e-6, 1e-15} {
			for _, shards := range []uint64{1, 7, 64, 1024} {
				size, k := ShardedBits(n, p, shards)
				if size%64 != 0 {
					t.Errorf("ShardedBits(%d, %g, %d) = %d bits, want a multiple of 64", n, p, shards, size)
				}
				if rate := ShardedFalsePositiveRate(n, shards, size, k); rate > p {
					t.Errorf("ShardedBits(%d, %g, %d) = %d bits, k = %d; their rate is %g, want at most the given one", n, p, shards, size, k, rate)
				}
				if size > 64 && ShardedFalsePositiveRate(n, shards, size-64, k) <= p {
					t.Errorf("ShardedBits(%d, %g, %d) = %d bits, k = %d, but 64 bits less suffice", n, p, shards, size, k)
				}
				if plain, _ := OptimalBits(n, p); shards*size < plain {
					t.Errorf("%d shards have %d bits together, want at least the %d of a filter without shards", shards, shards*size, plain)
				}
			}
		}
	}
}

// TestPoissonMean: the result is accurate although poissonMean uses only every stride-th
// term.
func TestPoissonMean(t *testing.T) {
	for _, mean := range []float64{0.001, 1, 13.3, 100, 1000, 1e5, 1e8, 1e12} {
		near(t, "total", poissonMean(mean, func(float64) float64 { return 1 }), 1, 12)
		scale := 2 * mean
		got := poissonMean(mean, func(n float64) float64 { return min(n/scale, 1) })
		want := 0.5
		// With a small mean, N is often enough above scale to change the result: there
		// min(n/scale, 1) is 1, so the mean is below 0.5.
		if mean < 100 {
			continue
		}
		near(t, "mean", got, want, 9)
		square := poissonMean(mean, func(n float64) float64 { return min(n*n/scale/scale, 1) })
		near(t, "variance over mean", (square-got*got)*scale*scale/mean/10, 0.1, 3)
	}
}

func TestChainStaysBelowItsRate(t *testing.T) {
	for _, p := range []float64{0.1, 0.01, 1e-6} {
		c := Chain{Keys: 1000, FPR: p, Growth: true}
		for _, keys := range []uint64{1, 500, 1000, 1001, 3000, 3001, 100_000, 100_000_000} {
			fill := c.At(keys)
			if fill.FPR > p {
				t.Errorf("%d keys in %+v: false-positive rate %g, want at most that of the chain", keys, c, fill.FPR)
			}
			if fill.LostShare > p || fill.LostKeys < 0 {
				t.Errorf("%d keys in %+v: lost share %g, want at most the rate of the chain", keys, c, fill.LostShare)
			}
		}
	}
}

func TestChainAt(t *testing.T) {
	grows, fixed := Chain{1e6, 0.01, true}, Chain{1e6, 0.01, false}
	if got := grows.At(1e6); got.Layers != 1 {
		t.Errorf("full with 1 million keys: %d layers, want 1", got.Layers)
	}
	if got := grows.At(1e6 + 1); got.Layers != 2 {
		t.Errorf("with one key more: %d layers, want 2", got.Layers)
	}
	if got := grows.At(7e6); got.Layers != 3 {
		t.Errorf("full with 1 + 2 + 4 million keys: %d layers, want 3", got.Layers)
	}
	m, k := OptimalBits(1e6, 0.01)
	got := fixed.At(2e6)
	if got.Layers != 1 || got.Bits != m || math.Abs(got.FPR-FalsePositiveRate(2e6, m, k)) > 1e-12 ||
		math.Abs(got.LostShare-LostWhileFilling(2e6, m, k)) > 1e-12 {
		t.Errorf("without growth, with twice its keys: %+v, want 1 layer of %d bits", got, m)
	}
	if empty := grows.At(0); empty.FPR != 0 || empty.LostShare != 0 || empty.Layers != 1 {
		t.Errorf("empty: %+v, want 1 layer, no errors and no lost keys", empty)
	}
}

// TestChainLosesTheSumOfItsRates: the number of keys that a chain loses is the sum of its
// false-positive rates at the times when the keys were offered.
func TestChainLosesTheSumOfItsRates(t *testing.T) {
	c := Chain{Keys: 100, FPR: 0.01, Growth: true}
	sum := 0.0
	for i := range uint64(1000) {
		sum += c.At(i).FPR
	}
	if got := c.At(1000).LostKeys; math.Abs(got/sum-1) > 1e-9 {
		t.Errorf("At(1000).LostKeys = %.12g, the sum of the rates is %.12g; want the same", got, sum)
	}
}

func TestLayerRates(t *testing.T) {
	sum := 0.0
	for i := range 40 {
		layer := LayerAt(i, 1000, 0.01, true)
		if want := uint64(1000) << i; layer.Capacity != want {
			t.Errorf("layer %d has capacity %d, want %d", i, layer.Capacity, want)
		}
		if FalsePositiveRate(layer.Capacity, layer.Bits, layer.Hashes) > layer.FPR*(1+1e-9) {
			t.Errorf("layer %d exceeds its rate when it is full: %+v", i, layer)
		}
		sum += layer.FPR
	}
	near(t, "the rates together", sum/0.01, 1, 9)
	if first := LayerAt(0, 1000, 0.01, false); first.FPR != 0.01 {
		t.Errorf("without growth the only layer has the rate %g, want 0.01", first.FPR)
	}
}

func TestSizeClass(t *testing.T) {
	for _, c := range []struct{ size, class uint64 }{
		{1, 16}, {16, 16}, {17, 32}, {128, 128}, {129, 160}, {160, 160}, {161, 192}, {257, 320},
		{40960, 40960}, {40961, 49152}, {163840, 163840}, {163841, 196608}, // seen in Redis 7.0.15
		{20<<20 + 1, 24 << 20}, {32 << 20, 32 << 20}, {32<<20 + 1, 40 << 20},
	} {
		if got := sizeClass(c.size); got != c.class {
			t.Errorf("sizeClass(%d) = %d, want %d", c.size, got, c.class)
		}
	}
}

func TestRedisSegments(t *testing.T) {
	for _, keys := range []uint64{1, 100, 40_000, 1_000_000, 10_000_000, 1_000_000_000} {
		for _, p := range []float64{0.01, 1e-6} {
			for _, block := range []int{512, 1024, 4096} {
				s := RedisSegments(keys, p, block)
				need, k := ExactBlockedBits(p, block)
				if s.FPR > p || s.BitsPerKey < need || s.Hashes != k {
					t.Errorf("%d keys, p = %g: %+v, want that rate and k, and at least %g bits per key", keys, p, s, need)
				}
				if s.Bytes > MaxSegmentBytes || (s.Bytes-SegmentHeaderBytes)%uint64(block/8) != 0 {
					t.Errorf("%d keys: segments of %d bytes, want whole blocks and at most MaxSegmentBytes", keys, s.Bytes)
				}
				if s.Allocated != sizeClass(s.Bytes+stringExtra)+segmentExtra {
					t.Errorf("%d keys: Allocated = %d bytes for segments of %d bytes, want their size class", keys, s.Allocated, s.Bytes)
				}
				// The allocator wastes little memory if there are enough blocks to divide.
				if waste := float64(8*uint64(s.Count)*s.Allocated) / float64(keys) / need; keys >= 40_000 && waste > 1.06 {
					t.Errorf("%d keys, p = %g, blocks of %d bits: %.3f times the necessary memory, want at most 1.06", keys, p, block, waste)
				}
			}
		}
	}
}

func TestSizeRedis(t *testing.T) {
	plan := RedisPlan{Keys: 10_000_000, FPR: 1e-6, Growth: true}
	layout := SizeRedis(plan)
	if each := 10_000_000.0 / 256; float64(layout.PartitionKeys) < each+4*math.Sqrt(each) {
		t.Errorf("partitions have a capacity of %d keys, want 4 standard deviations above the mean load", layout.PartitionKeys)
	}
	// The goal is 1.25 times the size of an ideal Bloom filter.
	if goal := 1.25 * 1.4427 * InformationBound(plan.FPR); layout.BitsPerURL > goal {
		t.Errorf("%.2f bits per URL, want at most %.2f", layout.BitsPerURL, goal)
	}
	near(t, "bytes of used_memory", float64(layout.Bytes), 256*(3*(57344+88)+200), 0)
	near(t, "AOF bytes per URL", layout.AOFPerURL, 249, -1)
	fixed := plan
	fixed.Growth = false
	if grows, fixed := layout, SizeRedis(fixed); fixed.FPR > plan.FPR || grows.FPR > 0.9*plan.FPR {
		t.Errorf("rates: %g without growth, %g with it; want at most %g, and 0.9 of it", fixed.FPR, grows.FPR, plan.FPR)
	}
}

func TestTimeToCrawl(t *testing.T) {
	plan := CrawlPlan{URLs: 1_000_000, Hosts: 1000, Delay: time.Second, Latency: 300 * time.Millisecond, HostsAtOnce: 64}
	got := TimeToCrawl(plan)
	if got.Even != 15625 || got.PagesPerSecond != 64 {
		t.Errorf("64 hosts at once: %g s at %g pages/s, want 15625 s at 64 pages/s", got.Even, got.PagesPerSecond)
	}
	plan.HostsAtOnce = 1e6 // more than the number of hosts
	if got := TimeToCrawl(plan); got.Even != 1000 || got.PagesPerSecond != 1000 {
		t.Errorf("all hosts at once: %g s at %g pages/s, want 1000 s at 1000 pages/s", got.Even, got.PagesPerSecond)
	}
	plan.Delay, plan.URLs = 1000*time.Hour, 1e15 // longer than a time.Duration can be
	if got := TimeToCrawl(plan); got.Even != 3.6e6*1e12 {
		t.Errorf("10¹⁵ URLs with 1000 hours between two requests take %g s, want 3.6e18", got.Even)
	}
}

// TestExactStores compares the results of ExactStores with sizes that were measured with
// Go 1.26.8, Redis 7.0.15 (jemalloc 5.3) and Postgres 15.
func TestExactStores(t *testing.T) {
	for _, c := range []struct {
		n, urlBytes int
		store       int
		bytes       float64
	}{
		{100_000, 80, 0, 115.0}, {1_000_000, 80, 0, 135.8}, {3_000_000, 80, 0, 117.3},
		{100_000, 80, 1, 23.6}, {1_000_000, 80, 1, 37.7}, {3_000_000, 80, 1, 25.2},
		{100_000, 80, 2, 138.5}, {1_000_000, 80, 2, 136.4}, {10_000_000, 80, 2, 148.1},
		{100_000, 80, 3, 63.5}, {1_000_000, 80, 3, 56.4}, {10_000_000, 80, 3, 68.1},
		{100_000, 80, 4, 97.2}, {10_000_000, 80, 4, 98.9},
	} {
		got := ExactStores(uint64(c.n), c.urlBytes)[c.store]
		if math.Abs(got.BytesPerKey/c.bytes-1) > 0.10 {
			t.Errorf("%s, %d keys: %.1f bytes per key, want the measured %.1f ± 10 %%", got.Name, c.n, got.BytesPerKey, c.bytes)
		}
	}
}

func TestSizeMemory(t *testing.T) {
	c := Chain{10_000_000, 1e-6, true}
	layout := SizeMemory(c, DefaultShards)
	if layout.FPR > 0.9*c.FPR || layout.Bytes != layout.Shards*layout.ShardBits/8 {
		t.Errorf("SizeMemory = %+v, want Bytes of all shards and at most 0.9 of the chain's rate", layout)
	}
	near(t, "bits per key", layout.BitsPerKey, 28.98, 2)
}

// TestRedisQueue compares the results of RedisQueue with sizes that "crawler bench memory"
// measured with Redis 7.0.15.
func TestRedisQueue(t *testing.T) {
	for _, c := range []struct {
		queued, hosts uint64
		bytes         float64
	}{
		{100_000, 10, 66.4}, {100_000, 1000, 77.4}, {100_000, 100_000, 415.5},
		{1_000_000, 10, 65.1}, {1_000_000, 1000, 65.5}, {1_000_000, 100_000, 110.5},
		{10_000_000, 10, 64.96}, {10_000_000, 1000, 64.99}, {10_000_000, 100_000, 75.09},
	} {
		got := float64(RedisQueue(c.queued, c.hosts, 80)) / float64(c.queued)
		if math.Abs(got/c.bytes-1) > 0.10 {
			t.Errorf("%d URLs on %d hosts: %.1f bytes each, want the measured %.1f ± 10 %%", c.queued, c.hosts, got, c.bytes)
		}
	}
	if few, many := RedisQueue(10, 10, 80), RedisQueue(10, 1000, 80); few != many {
		t.Errorf("RedisQueue of 10 URLs: %d bytes with 1000 hosts, want the %d with 10 hosts", many, few)
	}
	if got := RedisQueue(0, 10, 80); got != 0 {
		t.Errorf("RedisQueue of no URLs = %d bytes, want 0", got)
	}
}

// TestPostgresKeySizes compares the results of PostgresFinished and PostgresWaiting with sizes
// that "crawler bench memory" measured with Postgres 15.
func TestPostgresKeySizes(t *testing.T) {
	for _, c := range []struct {
		keys              uint64
		finished, waiting float64
	}{
		{100_000, 97.2, 321.6}, {100_000, 97.2, 374.2}, {300_000, 99.9, 328.9}, // in the second run the vacuum freed no pages
		{1_000_000, 97.3, 294.7}, {10_000_000, 98.9, 283.1},
	} {
		got := float64(PostgresFinished(c.keys)) / float64(c.keys)
		if math.Abs(got/c.finished-1) > 0.10 {
			t.Errorf("%d finished keys: %.1f bytes each, want the measured %.1f ± 10 %%", c.keys, got, c.finished)
		}
		least, most := PostgresWaiting(c.keys, 80)
		if low, high := float64(least)/float64(c.keys), float64(most)/float64(c.keys); c.waiting < 0.9*low || c.waiting > 1.1*high {
			t.Errorf("%d waiting keys: %.1f to %.1f bytes each, want a range around the measured %.1f", c.keys, low, high, c.waiting)
		}
	}
}

// TestLocalQueue compares the results of LocalQueue with sizes that "crawler bench memory"
// measured with pebble 2.1.
func TestLocalQueue(t *testing.T) {
	for _, c := range []struct {
		queued uint64
		exact  bool
		bytes  float64
	}{
		{100_000, false, 211.8}, {300_000, false, 229.3}, {1_000_000, false, 144.1},
		{10_000_000, false, 70.81}, {10_000_000, true, 91.48},
		{100_000, true, 289.6}, {300_000, true, 263},
	} {
		low, high := LocalQueue(c.queued, 80, c.exact)
		if least, most := float64(low)/float64(c.queued), float64(high)/float64(c.queued); c.bytes < 0.9*least || c.bytes > 1.1*most {
			t.Errorf("%d URLs (exact: %t): %.1f to %.1f bytes each, want a range around the measured %.1f", c.queued, c.exact, least, most, c.bytes)
		}
	}
}

// TestGoAllocation: goAllocation returns the capacity of a slice that append creates for
// the same size.
func TestGoAllocation(t *testing.T) {
	for size := 1; size < 100_000; size += 1 + size/50 {
		if got, want := goAllocation(uint64(size)), cap(append([]byte(nil), make([]byte, size)...)); got != uint64(want) {
			t.Errorf("goAllocation(%d) = %d, but append of %s allocates %d", size, got, runtime.Version(), want)
		}
	}
}
