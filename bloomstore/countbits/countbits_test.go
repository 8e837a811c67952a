package countbits

import (
	"flag"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/bloomstore/internal/positions"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
	"github.com/bloomfrontier/crawler/sizing"
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
		"shards=64": {Capacity: bloomtest.Keys, FPR: bloomtest.MaxRate},
		"shards=2":  {Capacity: bloomtest.Keys, FPR: bloomtest.MaxRate, Shards: 2},
	} {
		t.Run(name, func(t *testing.T) {
			bloomtest.RunDeleter(t, func(t *testing.T) bloomtest.Deleter { return open(t, config) })
		})
	}
}

// TestRateBeforeAndAfterDeletion measures the rate of a full filter, and again after half of the
// keys were deleted. Both must be those of a filter that never had other keys.
func TestRateBeforeAndAfterDeletion(t *testing.T) {
	if raceEnabled {
		t.Skip("slow, and with one goroutine the race detector finds nothing")
	}
	targets := []struct {
		p         float64
		n, probes uint64
	}{{1e-2, 200_000, 2_000_000}, {1e-4, 50_000, 4_000_000}}
	if *proof {
		targets = append(targets, targets[0])
		targets[2].p, targets[2].n, targets[2].probes = 1e-6, 1_000_000, 300_000_000
	}
	for _, c := range targets {
		rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
		f := open(t, Config{Capacity: c.n, FPR: c.p, Shards: 16})
		var added []bloomstore.Fingerprint
		for uint64(len(added)) < c.n {
			prints := bloomrate.Random(rng, make([]bloomstore.Fingerprint, 1000))
			answers, err := f.AddIfAbsent(t.Context(), prints)
			if err != nil {
				t.Fatal(err)
			}
			for i, is := range answers {
				if is {
					added = append(added, prints[i])
				}
			}
		}
		measure := func(n uint64) {
			hits, err := bloomrate.Probe(t.Context(), f, bloomrate.RandomKeys(rng), c.probes)
			if err != nil {
				t.Fatal(err)
			}
			want := sizing.ShardedFalsePositiveRate(n, 16, f.layout.ShardCounters, f.layout.Hashes)
			spread := sizing.RateSpread(float64(n), 16, f.layout.ShardCounters, f.layout.Hashes)
			off := bloomrate.Deviation(hits, c.probes, want, spread)
			t.Logf("p = %g: with %d keys a rate of %.4g, %+.2fσ from %.4g", c.p, n, float64(hits)/float64(c.probes), off, want)
			if math.Abs(off) > 5 {
				t.Errorf("p = %g: with %d keys %d of %d probes are claimed, %+.1fσ from a rate of %.4g", c.p, n, hits, c.probes, off, want)
			}
			// The rate computed from the fill differs from the mean rate of all filters only by the
			// spread. At small rates the spread of a single shard is a few percent.
			if stats := f.Stats(); stats.Keys != n || math.Abs(stats.FPR/want-1) > 5*spread+0.01 {
				t.Errorf("p = %g: Stats = %+v, want %d keys and a rate of %.4g", c.p, stats, n, want)
			}
		}
		measure(uint64(len(added)))
		half := len(added) / 2
		deleted, err := f.Delete(t.Context(), added[:half])
		if err != nil {
			t.Fatal(err)
		}
		for i, is := range deleted {
			if !is {
				t.Fatalf("Delete of key %d, which was added: false", i)
			}
		}
		measure(uint64(len(added) - half))
	}
}

// TestSaturationLosesNoKey lets many keys share one counter, and then deletes most of them. The
// others are still claimed, because a saturated counter does not go down.
func TestSaturationLosesNoKey(t *testing.T) {
	c := newCounters(40)
	for n := uint64(1); n <= 20; n++ {
		c.increment(17)
		if got := c.get(17); got != min(n, 15) {
			t.Fatalf("after %d increments the counter is %d, want %d", n, got, min(n, 15))
		}
	}
	for range 19 { // one of the 20 keys stays
		c.decrement(17)
	}
	if got := c.get(17); got != 15 {
		t.Errorf("a saturated counter is %d after decrements, want 15", got)
	}
	if nonzero, full := c.count(); nonzero != 1 || full != 1 || c.get(16) != 0 || c.get(18) != 0 {
		t.Errorf("%d counters are above 0 and %d saturated; neighbours have %d and %d; want 1, 1, 0, 0", nonzero, full, c.get(16), c.get(18))
	}
	c.increment(3)
	for range 2 {
		c.decrement(3)
	}
	if got := c.get(3); got != 0 {
		t.Errorf("a counter of 1 is %d after two decrements, want 0", got)
	}
}

// TestSaturatedCounters compares the number of saturated counters with sizing.SaturatedCounters,
// in a filter with many more keys than it is sized for.
func TestSaturatedCounters(t *testing.T) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	f := open(t, Config{Capacity: 20_000, FPR: 1e-3, Shards: 1})
	const keys = 150_000 // a load of 5.2: most keys are claimed already, so AddIfAbsent would not add them
	for range keys {
		_, draws := positions.Split(bloomrate.Random(rng, make([]bloomstore.Fingerprint, 1))[0], f.choose)
		for range f.layout.Hashes {
			f.shards[0].counters.increment(draws.Next(f.layout.ShardCounters))
		}
	}
	// While the filter is filled, the load is smaller than the final one, at which the bound is
	// computed. So sum the bound over the fill.
	want := 0.0
	for n := uint64(1000); n <= keys; n += 1000 {
		want += sizing.SaturatedCounters(n-500, f.layout.ShardCounters, f.layout.Hashes, 1000)
	}
	stats := f.Stats()
	t.Logf("%d of %d counters are saturated, want %.1f", stats.Saturated, stats.Counters, want)
	if off := bloomrate.Deviation(stats.Saturated, stats.Counters, want/float64(stats.Counters), 0); math.Abs(off) > 5 {
		t.Errorf("%d counters are saturated, %+.1fσ from %.1f", stats.Saturated, off, want)
	}
	if final := sizing.SaturatedCounters(keys, f.layout.ShardCounters, f.layout.Hashes, keys); float64(stats.Saturated) > final {
		t.Errorf("%d counters are saturated, more than the bound %.1f", stats.Saturated, final)
	}
}

func TestConfigNamesAllFaults(t *testing.T) {
	_, err := New(Config{Capacity: 1 << 62, FPR: 1, Shards: 48})
	if err == nil {
		t.Fatal("New of a config with three faults: no error")
	}
	for _, want := range []string{"Capacity is 4611686018427387904", "FPR is 1,", "Shards is 48"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

// TestBytes: the filter takes the memory that sizing says, and four times that of a filter of bits.
func TestBytes(t *testing.T) {
	f := open(t, Config{Capacity: 100_000, FPR: 1e-6})
	words := 0
	for i := range f.shards {
		words += len(f.shards[i].counters.words)
	}
	shardBits, _ := sizing.ShardedBits(100_000, 1e-6, 64)
	if got := uint64(words) * 8; got != f.Stats().Bytes || got != 4*64*shardBits/8 {
		t.Errorf("the counters take %d bytes; Stats says %d, and 4 times the bits are %d", got, f.Stats().Bytes, 4*64*shardBits/8)
	}
}
