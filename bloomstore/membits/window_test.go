package membits

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
	"github.com/bloomfrontier/crawler/internal/suite"
	"github.com/bloomfrontier/crawler/sizing"
)

func openWindow(t testing.TB, config WindowConfig, now time.Time) *Window {
	t.Helper()
	w, err := NewWindow(config, now)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestWindowConformance: at one moment, a window is a filter like others.
func TestWindowConformance(t *testing.T) {
	for name, config := range map[string]WindowConfig{
		"generations=6": {Span: time.Hour, Capacity: 6 * bloomtest.Keys, FPR: bloomtest.MaxRate},
		"growth=often":  {Span: time.Hour, Capacity: 5000, FPR: bloomtest.MaxRate, Generations: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bloomtest.Run(t, func(t *testing.T) bloomstore.Filter {
				w := openWindow(t, config, time.Unix(1e9, 0))
				w.Advance(time.Unix(1e9, 0).Add(time.Minute * 59)) // two generations or more
				return w
			})
		})
	}
}

// TestWindowModel makes random calls at random times, and compares the answers with a map: no key
// is new within the span, and each key is forgotten when the documented time is over. By chance, a
// run has a false positive once in some thousand runs; it is then counted, and one is allowed.
func TestWindowModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	for _, g := range []int{1, 3, 6} {
		config := WindowConfig{Span: 60 * time.Second, Generations: g, Capacity: 2000, FPR: 1e-9, Shards: 4}
		clock := suite.NewClock()
		w := openWindow(t, config, clock.Now())
		addedAt := make(map[bloomstore.Fingerprint]time.Time)
		var keys []bloomstore.Fingerprint
		falsely, forgotten, starts := 0, 0, 0
		for range 40_000 {
			switch rng.IntN(50) {
			case 0: // mostly short steps; sometimes longer than all generations together
				step := time.Duration(rng.Int64N(int64(config.Span / 8)))
				if rng.IntN(50) == 0 {
					step *= 20
				}
				clock.Advance(step)
				if w.Advance(clock.Now()) {
					starts++
				}
			case 1:
				if w.Advance(clock.Now().Add(-time.Hour)) {
					t.Fatal("a time that is earlier has started a generation")
				}
			}
			fp := randomPrint(rng)
			if len(keys) > 0 && rng.IntN(2) == 0 {
				fp = keys[len(keys)-1-rng.IntN(min(len(keys), 3000))]
			}
			at, was := addedAt[fp]
			age := clock.Now().Sub(at)
			has := w.Has(fp)
			_, added := w.Add(fp)
			kept := sizing.Window{Keys: 1, FPR: 0.5, Generations: g}.Kept(config.Span)
			switch {
			case has == added:
				t.Fatalf("Has is %t, and then Add is %t", has, added)
			case was && age <= config.Span && added:
				t.Fatalf("%d generations: a key of age %v is new within %v", g, age, config.Span)
			case (!was || age > kept) && !added:
				falsely++
			case was && added:
				forgotten++
			}
			if added {
				addedAt[fp] = clock.Now() // a sighting alone does not refresh the time
			}
			keys = append(keys, fp)
		}
		if falsely > 1 || forgotten < 100 || starts < 40 {
			t.Errorf("%d generations: %d false claims, %d keys forgotten, %d generations started", g, falsely, forgotten, starts)
		}
		if n := len(w.Generations()); n > g+1 {
			t.Errorf("%d generations are kept, want at most %d", n, g+1)
		}
	}
}

// TestWindowRotatesBesideWriters: eight writers race to add the same keys while generations start.
// No key is new for two of them, and no key is lost.
func TestWindowRotatesBesideWriters(t *testing.T) {
	const writers, keys, steps = 8, 20_000, 6
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	prints := bloomrate.Random(rng, make([]bloomstore.Fingerprint, keys))
	start := time.Unix(1e9, 0)
	w := openWindow(t, WindowConfig{Span: steps * time.Second, Generations: steps, Capacity: keys, FPR: 1e-9, Shards: 2}, start)
	wins, done := make([]atomic.Int32, keys), make([]atomic.Int32, steps)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			order := rand.New(rand.NewPCG(uint64(i), 1)).Perm(keys)
			for n, key := range order {
				if _, added := w.Add(prints[key]); added {
					wins[key].Add(1)
				}
				if n%(keys/steps) == 0 { // the window of all steps is not over before the last of them
					step := min(n/(keys/steps), steps-1)
					done[step].Add(1)
					w.Advance(start.Add(time.Duration(step) * time.Second))
					for _, g := range w.Generations() {
						g.Filter.Stats() // reads the bits, with the locks
					}
				}
			}
		})
	}
	wg.Wait()
	for i := range wins {
		if n := wins[i].Load(); n != 1 {
			t.Fatalf("key %d was new for %d writers, want 1", i, n)
		}
	}
	var total uint64
	for _, g := range w.Generations() {
		total += g.Filter.Stats().Keys
	}
	if len(w.Generations()) != steps || total != keys {
		t.Errorf("%d generations have %d keys, want %d and %d", len(w.Generations()), total, steps, keys)
	}
}

// TestWindowRates measures the false-positive rate of windows whose generations are all full, and
// compares it with the theory.
func TestWindowRates(t *testing.T) {
	if raceEnabled {
		t.Skip("slow, and with one goroutine the race detector finds nothing")
	}
	targets := []struct {
		p      float64
		n      uint64
		probes uint64
	}{{1e-2, 300_000, 1_000_000}, {1e-4, 60_000, 4_000_000}}
	if *proof {
		targets = append(targets, targets[0])
		targets[2].p, targets[2].n, targets[2].probes = 1e-6, 600_000, 50_000_000
	}
	for _, c := range targets {
		for _, g := range []int{1, 3, 6} {
			rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
			config := WindowConfig{Span: time.Hour, Generations: g, Capacity: c.n, FPR: c.p, Shards: 16}
			w := openWindow(t, config, time.Unix(0, 0))
			one := config.Generation()
			for i := range g + 1 {
				if i > 0 {
					w.Advance(time.Unix(0, 0).Add(time.Duration(i) * time.Hour / time.Duration(g)))
				}
				for kept := uint64(0); kept < one.Capacity; {
					if _, added := w.Add(randomPrint(rng)); added {
						kept++
					}
				}
			}
			hits, err := bloomrate.Probe(t.Context(), w, bloomrate.RandomKeys(rng), c.probes)
			if err != nil {
				t.Fatal(err)
			}
			want := sizing.SizeWindow(sizing.Window{Keys: c.n, FPR: c.p, Generations: g}, 16).FPR
			first := (*w.Generations()[0].Filter.chain.Load())[0]
			spread := sizing.RateSpread(float64(one.Capacity), 16, first.shardBits, first.hashes) / math.Sqrt(float64(g+1))
			off, rate := bloomrate.Deviation(hits, c.probes, want, spread), float64(hits)/float64(c.probes)
			t.Logf("p = %g, %d generations: %d of %d probes are claimed, a rate of %.4g, %+.2fσ from %.4g", c.p, g, hits, c.probes, rate, off, want)
			// Added keys set more bits than the average key, so the rate may be higher by a few percent at p = 1e-2.
			if off > 5+0.06*math.Sqrt(want*float64(c.probes)) || off < -5 {
				t.Errorf("p = %g, %d generations: the rate is %.4g, %+.1fσ from %.4g", c.p, g, rate, off, want)
			}
			if over := bloomrate.Deviation(hits, c.probes, c.p, spread); over > 5 {
				t.Errorf("p = %g, %d generations: the rate is %.4g, %.1fσ above p", c.p, g, rate, over)
			}
		}
	}
}

func TestWindowConfigFaults(t *testing.T) {
	for want, config := range map[string]WindowConfig{
		"Span is 0s, want 6s":           {},
		"Span is 2s, want 3s":           {Span: 2 * time.Second, Generations: 3},
		"Generations is 64, want 1 to":  {Span: time.Hour, Generations: 64},
		"FPR is 1e-10, want one from":   {Span: time.Hour, FPR: 1e-10},
		"Capacity is 10995116277760":    {Span: time.Hour, Capacity: 10 << 40, Generations: 1},
		"Shards is 3, want a power of ": {Span: time.Hour, Shards: 3},
	} {
		if _, err := NewWindow(config, time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewWindow(%+v): %v, want %q", config, err, want)
		}
	}
}

// TestWindowOfOneHash: a window whose keys have one bit each does not lose them.
func TestWindowOfOneHash(t *testing.T) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	w := openWindow(t, WindowConfig{Span: time.Hour, Generations: 1, Capacity: 1000, FPR: 0.99}, time.Unix(0, 0))
	for range 500 {
		fp := randomPrint(rng)
		if _, added := w.Add(fp); added && !w.Has(fp) {
			t.Fatal("a key that was added is not claimed")
		}
	}
}

// TestRestoreWindow: a window made of the generations of another one, in another order, continues it.
func TestRestoreWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	config := WindowConfig{Span: time.Hour, Generations: 2, Capacity: 100, FPR: 1e-6, Shards: 2}
	start := time.Unix(0, 0)
	w := openWindow(t, config, start)
	var prints []bloomstore.Fingerprint
	for i := range 3 {
		w.Advance(start.Add(time.Duration(i) * 30 * time.Minute))
		fp := randomPrint(rng)
		w.Add(fp)
		prints = append(prints, fp)
	}
	generations := w.Generations()
	slices.Reverse(generations)
	again, err := RestoreWindow(config, generations)
	if err != nil {
		t.Fatal(err)
	}
	again.Advance(start.Add(90 * time.Minute)) // drops the first generation
	for i, fp := range prints {
		if got, want := again.Has(fp), i > 0; got != want {
			t.Errorf("key %d is known: %t, want %t", i, got, want)
		}
	}
	other := open(t, Config{Capacity: 7})
	for what, generations := range map[string][]Generation{
		"no generations": nil, "two generations": {generations[0], generations[0]}, "other parameters": {{Filter: other}},
	} {
		if _, err := RestoreWindow(config, generations); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// BenchmarkWindowHas looks up the links of pages: 9 of 10 are known, and the filter has ten million
// keys. One generation is a plain filter.
func BenchmarkWindowHas(b *testing.B) {
	const n = 10_000_000
	fill := func(add func(bloomstore.Fingerprint), turn func(int)) (prints []bloomstore.Fingerprint) {
		rng := rand.New(rand.NewPCG(1, 0))
		for i := range n {
			if i%(n/7+1) == 0 {
				turn(i / (n/7 + 1))
			}
			fp := randomPrint(rng)
			add(fp)
			if i%10 == 0 {
				prints = append(prints, fp)
			}
		}
		for i := range prints {
			if i%10 == 0 {
				prints[i] = randomPrint(rng)
			}
		}
		rng.Shuffle(len(prints), func(i, j int) { prints[i], prints[j] = prints[j], prints[i] })
		return prints
	}
	f := open(b, Config{Capacity: n})
	w := openWindow(b, WindowConfig{Span: 6 * time.Hour, Generations: 6, Capacity: n}, time.Unix(0, 0))
	for _, c := range []struct {
		name   string
		has    func(bloomstore.Fingerprint) bool
		prints []bloomstore.Fingerprint
	}{
		{"plain", f.Has, fill(func(fp bloomstore.Fingerprint) { f.Add(fp) }, func(int) {})},
		{"6", w.Has, fill(func(fp bloomstore.Fingerprint) { w.Add(fp) }, func(i int) {
			w.Advance(time.Unix(0, 0).Add(time.Duration(i) * time.Hour))
		})},
	} {
		for _, keys := range []struct {
			name   string
			prints []bloomstore.Fingerprint
		}{{"links", c.prints}, {"unknown", unknownPrints()}} {
			b.Run(fmt.Sprintf("generations=%s/keys=%s", c.name, keys.name), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					c.has(keys.prints[i%len(keys.prints)])
				}
			})
		}
	}
}
