package membits

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
)

var (
	_     = flag.Uint64("seed", 0, "replay random tests with this seed")
	proof = flag.Bool("proof", false, "run the tests at full size")
)

func open(t testing.TB, config Config) *Filter {
	t.Helper()
	f, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestConformance(t *testing.T) {
	for name, config := range map[string]Config{
		"growth=off":   {Capacity: bloomtest.Keys, FPR: bloomtest.MaxRate, Growth: GrowthOff},
		"growth=on":    {Capacity: bloomtest.Keys, FPR: bloomtest.MaxRate},
		"growth=often": {Capacity: 500, FPR: bloomtest.MaxRate}, // layers begin while callers race
		"shards=2":     {Capacity: bloomtest.Keys, FPR: bloomtest.MaxRate, Shards: 2},
	} {
		t.Run(name, func(t *testing.T) {
			bloomtest.Run(t, func(t *testing.T) bloomstore.Filter { return open(t, config) })
		})
	}
}

// TestFalsePositiveRate compares measured rates with the configured ones. At the rate 0.1
// the test would notice a hash too few, because the rate would then be 16 % higher.
func TestFalsePositiveRate(t *testing.T) {
	if raceEnabled {
		t.Skip("slow, and with one goroutine the race detector finds nothing")
	}
	type target struct {
		p         float64
		n, probes uint64
		// shards is small if there are few keys: a shard consists of whole words, so a
		// small shard gets more bits than it needs.
		shards int
	}
	targets := []target{{0.1, 200_000, 1_000_000, 16}, {1e-2, 200_000, 1_000_000, 16}, {1e-3, 100_000, 1_000_000, 16}, {1e-4, 50_000, 2_000_000, 16}}
	if *proof {
		targets = append(targets, target{1e-2, 1_000_000, 50_000_000, 64}, target{1e-6, 1_000_000, 150_000_000, 64})
	}
	for _, c := range targets {
		t.Run(fmt.Sprintf("p=%g/n=%d", c.p, c.n), func(t *testing.T) {
			bloomtest.FPR(t, func(n uint64, p float64) bloomstore.Filter {
				return open(t, Config{Capacity: n, FPR: p, Growth: GrowthOff, Shards: c.shards})
			}, c.p, c.n, c.probes)
		})
	}
}

// TestFalsePositiveRateOfGrownFilter measures a chain whose first four layers are full,
// so that it has 15 times as many keys as its capacity. These layers have 0.9, 0.05,
// 0.025 and 0.0125 of the chain's rate; all later layers together would have the last
// 0.0125.
//
// Some of the keys that are offered to a layer are false positives, and are not added. The
// layer must be sized for all offered keys: see sizing.Layer.Offered. At the rate 0.2, the
// test would notice a layer that is sized only for the added keys.
func TestFalsePositiveRateOfGrownFilter(t *testing.T) {
	if raceEnabled {
		t.Skip("slow, and with one goroutine the race detector finds nothing")
	}
	const growth = 15
	type target struct {
		p         float64
		n, probes uint64
	}
	targets := []target{{0.2, 300_000, 1_000_000}, {1e-2, 300_000, 1_000_000}, {1e-4, 60_000, 2_000_000}}
	if *proof {
		targets = append(targets, target{1e-2, 1_500_000, 20_000_000}, target{1e-6, 1_500_000, 150_000_000})
	}
	for _, c := range targets {
		t.Run(fmt.Sprintf("p=%g/n=%d", c.p, c.n), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
			f := open(t, Config{Capacity: c.n / growth, FPR: c.p, Shards: 4})
			for kept := uint64(0); kept < c.n; {
				if _, added := f.Add(randomPrint(rng)); added {
					kept++
				}
			}
			if stats := f.Stats(); len(stats.Layers) != 4 || stats.Layers[3].Keys != stats.Layers[3].Capacity {
				t.Fatalf("Stats = %+v, want 4 full layers", stats)
			}
			want := 1 - (1-0.9*c.p)*(1-0.05*c.p)*(1-0.025*c.p)*(1-0.0125*c.p)
			// The first layer has few of the keys, but nearly all of the false-positive
			// rate. So most of the random variation of the rate comes from the fill of
			// this layer.
			bloomtest.Probe(t, f, want, c.n/growth, c.probes)
		})
	}
}

// TestSplitGolden checks that the bits of a key do not change, because stored filters
// depend on them. Another program computed the values from docs/design/filter.md.
func TestSplitGolden(t *testing.T) {
	for _, c := range []struct {
		print  string
		shards int
		bits   uint64
		shard  int
		want   []uint
	}{
		{"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 64, 1 << 20, 0, []uint{354593, 900387, 124213, 752199, 748534, 857968}},
		{"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\xef", 64, 4_503_616, 59, []uint{2354901, 1871562, 1626980, 2099862, 1064814, 705488}},
		{"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\xef", 1, 4_503_616, 0, []uint{368034, 2214432, 3731739, 3417366, 3595867, 4215157}},
	} {
		f := open(t, Config{Capacity: 1000, Shards: c.shards})
		shard, draw := f.split(bloomstore.Fingerprint([]byte(c.print)))
		var got []uint
		for range c.want {
			got = append(got, draw.Next(c.bits))
		}
		if shard != c.shard || !slices.Equal(got, c.want) {
			t.Errorf("split(%x) in %d shards of %d bits = %d, %v; want %d, %v", c.print, c.shards, c.bits, shard, got, c.shard, c.want)
		}
	}
}

func TestConfigNamesAllFaults(t *testing.T) {
	_, err := New(Config{Capacity: 1 << 62, FPR: 1, Growth: 2, Shards: 48})
	if err == nil {
		t.Fatal("New of a config with four faults: no error")
	}
	for _, want := range []string{"Capacity is 4611686018427387904", "FPR is 1,", "Growth is 2", "Shards is 48"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	for _, config := range []Config{{FPR: math.NaN()}, {FPR: -1}, {FPR: 1e-13}, {Shards: -64}, {Shards: 512}} {
		if _, err := New(config); err == nil {
			t.Errorf("New(%+v): no error", config)
		}
	}
}

func TestZeroConfig(t *testing.T) {
	stats := open(t, Config{}).Stats()
	if stats.Capacity != 10_000_000 || stats.Layers[0].Target != 0.9e-6 || len(stats.Layers) != 1 {
		t.Errorf("the zero Config makes %+v, want capacity 10000000 and a first layer at 9e-07", stats)
	}
	if perKey := float64(stats.Bytes) * 8 / 1e7; perKey < 28.7 || perKey > 29.2 {
		t.Errorf("%.2f bits per key, want 28.7 to 29.2", perKey)
	}
}

// TestSmallestFilters adds keys to filters with a capacity of at most three keys.
func TestSmallestFilters(t *testing.T) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	for _, config := range []Config{{Capacity: 1}, {Capacity: 1, Shards: 256, FPR: 0.99}, {Capacity: 3, Shards: 1, FPR: minFPR}} {
		f := open(t, config)
		for range 1000 {
			fp := randomPrint(rng)
			f.Add(fp)
			if !f.Has(fp) {
				t.Fatalf("%+v: Has of key %x, which was added: false", config, fp)
			}
		}
	}
}

// TestGrowthIsExact: a layer gets exactly as many new keys as its capacity. Add returns the
// number of the layer to which it added a key, and for a known key the number of its layer.
func TestGrowthIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	f := open(t, Config{Capacity: 100, FPR: 1e-9})
	for i := range 100 + 200 + 400 + 1 {
		want := 3
		switch {
		case i < 100:
			want = 0
		case i < 300:
			want = 1
		case i < 700:
			want = 2
		}
		fp := randomPrint(rng)
		if number, added := f.Add(fp); number != want || !added {
			t.Fatalf("Add of key %d: layer %d, added %t; want %d, true", i, number, added, want)
		}
		if number, added := f.Add(fp); number != want || added {
			t.Fatalf("Add of key %d again: layer %d, added %t; want %d, false", i, number, added, want)
		}
	}
	stats := f.Stats()
	for i, want := range []uint64{100, 200, 400, 1} {
		if stats.Layers[i].Keys != want {
			t.Errorf("layer %d counts %d keys, want %d", i, stats.Layers[i].Keys, want)
		}
	}
}

// TestRacersGrowOneChain: if many callers find a layer full, one of them begins
// the next, and no layer exceeds its capacity.
func TestRacersGrowOneChain(t *testing.T) {
	seed := bloomtest.Seed(t)
	f := open(t, Config{Capacity: 1})
	var wg sync.WaitGroup
	for i := range uint64(16) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, i))
			for range 500 {
				f.Add(randomPrint(rng))
			}
		})
	}
	wg.Wait()
	layers := f.Stats().Layers
	if len(layers) != 13 {
		t.Errorf("%d layers for 8000 keys, want 13", len(layers))
	}
	for i, l := range layers {
		if l.Capacity != 1<<i || i < len(layers)-1 && l.Keys != l.Capacity {
			t.Errorf("layer %d of %d has %d keys and capacity %d, want it full with %d", i, len(layers), l.Keys, l.Capacity, 1<<i)
		}
	}
}

func TestGrowthOffKeepsOneLayer(t *testing.T) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	f := open(t, Config{Capacity: 1000, FPR: 1e-3, Growth: GrowthOff})
	kept := 0
	for range 3000 {
		if _, added := f.Add(randomPrint(rng)); added {
			kept++
		}
	}
	stats := f.Stats()
	if len(stats.Layers) != 1 || stats.Keys != uint64(kept) || stats.FPR < 0.01 {
		t.Errorf("after three times its capacity: %+v; want 1 layer, %d keys and an FPR above 0.01", stats, kept)
	}
}

// TestStatsOfFill compares the statistics that Stats computes from the set bits with the
// number of added keys, and with the share of random keys that the filter claims.
func TestStatsOfFill(t *testing.T) {
	if raceEnabled {
		t.Skip("slow, and with one goroutine the race detector finds nothing")
	}
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	f := open(t, Config{Capacity: 20_000, FPR: 1e-2})
	kept := 0
	for range 50_000 {
		if _, added := f.Add(randomPrint(rng)); added {
			kept++
		}
	}
	stats := f.Stats()
	if stats.Keys != uint64(kept) || stats.Capacity != 60_000 || len(stats.Layers) != 2 {
		t.Errorf("%d keys, capacity %d, %d layers; want %d keys, capacity 60000, 2 layers", stats.Keys, stats.Capacity, len(stats.Layers), kept)
	}
	if off := (stats.Estimate - float64(kept)) / stats.StdErr; math.Abs(off) > 5 {
		t.Errorf("estimate %.0f ± %.0f of %d keys, %.1fσ off, want within 5σ", stats.Estimate, stats.StdErr, kept, off)
	}
	const probes = 2_000_000
	hits := 0.0
	for range probes {
		if f.Has(randomPrint(rng)) {
			hits++
		}
	}
	if off := (hits - stats.FPR*probes) / math.Sqrt(stats.FPR*probes); math.Abs(off) > 5 {
		t.Errorf("FPR %.5f from the fill, %.5f measured, %.1fσ off, want within 5σ", stats.FPR, hits/probes, off)
	}
	union := 1 - (1-stats.Layers[0].FPR)*(1-stats.Layers[1].FPR)
	if math.Abs(stats.FPR/union-1) > 0.01 {
		t.Errorf("FPR %g, want that of its layers together, %g", stats.FPR, union)
	}
}

func TestNoAllocations(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	f := open(t, Config{Capacity: 10_000})
	if n := testing.AllocsPerRun(1000, func() { f.Add(randomPrint(rng)); f.Has(randomPrint(rng)) }); n != 0 {
		t.Errorf("Add and Has allocate %v times, want 0", n)
	}
}

func randomPrint(rng *rand.Rand) (fp bloomstore.Fingerprint) {
	binary.LittleEndian.PutUint64(fp[:8], rng.Uint64())
	binary.LittleEndian.PutUint64(fp[8:], rng.Uint64())
	return fp
}

// saved returns the file of f.
func saved(t testing.TB, f *Filter, tag [16]byte) []byte {
	t.Helper()
	var file bytes.Buffer
	snapshot := f.Snapshot(tag)
	if n, err := snapshot.WriteTo(&file); err != nil || n != int64(file.Len()) || n != snapshot.Bytes() {
		t.Fatalf("WriteTo = %d, %v, and %d bytes were written; want %d as Bytes returns", n, err, file.Len(), snapshot.Bytes())
	}
	return file.Bytes()
}
