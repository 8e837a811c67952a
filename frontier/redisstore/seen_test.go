package redisstore

import (
	"flag"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
)

var seed = flag.Int64("seed", 0, "replay a random test; 0 takes a new seed")

// newRand returns a source of random numbers that -seed replays.
func newRand(t testing.TB) *rand.Rand {
	n := *seed
	if n == 0 {
		n = time.Now().UnixNano()
	}
	t.Logf("replay with -seed=%d", n)
	return rand.New(rand.NewPCG(uint64(n), 0))
}

func randomPrint(rng *rand.Rand) (fp bloomstore.Fingerprint) {
	for i := range fp {
		fp[i] = byte(rng.Uint32())
	}
	return fp
}

func TestSeenCache(t *testing.T) {
	rng, c := newRand(t), newSeenCache(1000)
	fp := randomPrint(rng)
	for _, odd := range []bloomstore.Fingerprint{fp, {}} { // a word that is 0 means that nothing is stored there
		if c.has(odd) {
			t.Errorf("an empty cache has %x", odd)
		}
		c.add(odd, c.generation())
		if !c.has(odd) {
			t.Errorf("the cache has no %x, which was just added", odd)
		}
	}
	before := c.generation()
	c.change(func() {})
	if c.has(fp) {
		t.Error("after change the cache still has the fingerprint")
	}
	c.add(fp, before)
	if c.has(fp) {
		t.Error("the cache has a fingerprint that was added with an earlier generation")
	}
	c.add(fp, c.generation())
	if !c.has(fp) {
		t.Error("after change the cache does not have a fingerprint that was added")
	}
	c.change(func() {
		c.add(fp, c.generation())
		if c.has(fp) {
			t.Error("during change the cache has a fingerprint")
		}
	})
	none := newSeenCache(0)
	none.add(fp, none.generation())
	none.change(func() {})
	if none.has(fp) {
		t.Error("a cache of size 0 has a fingerprint")
	}
}

// TestSeenCacheClaimsNothing looks up fingerprints that were never added. Many
// of them begin with the first half of an added one.
func TestSeenCacheClaimsNothing(t *testing.T) {
	rng, c := newRand(t), newSeenCache(1<<12)
	for range 1 << 14 {
		fp := randomPrint(rng)
		c.add(fp, c.generation())
		twin := randomPrint(rng)
		copy(twin[:8], fp[:8])
		if c.has(twin) || c.has(randomPrint(rng)) {
			t.Fatalf("the cache has a fingerprint that was not added")
		}
	}
}

// TestSeenCacheKeepsTheFrequent offers links that follow Zipf's law, as the links of pages
// do: most links are to a few URLs.
func TestSeenCacheKeepsTheFrequent(t *testing.T) {
	const links, urls = 400_000, 1 << 20
	rng := newRand(t)
	zipf := rand.NewZipf(rng, 1.1, 1, urls)
	c := newSeenCache(50_000)
	hits := 0
	for range links {
		fp := testHasher.Fingerprint(strconv.FormatUint(zipf.Uint64(), 10))
		if c.has(fp) {
			hits++
		} else {
			c.add(fp, c.generation())
		}
	}
	// This cache knows 80 % of the links, like a cache that drops the least recently used
	// entry. 79 % is 15 standard deviations less.
	if share := float64(hits) / links; share < 0.79 {
		t.Errorf("the cache knew %.3f of the links, want 0.79 or more", share)
	}
}

func TestSeenCacheRaces(t *testing.T) {
	rng, c := newRand(t), newSeenCache(64)
	prints := make([]bloomstore.Fingerprint, 256)
	for i := range prints {
		prints[i] = randomPrint(rng)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				for _, fp := range prints {
					if !c.has(fp) {
						c.add(fp, c.generation())
					}
				}
				c.change(func() {})
			}
		})
	}
	group.Wait()
	if stranger := randomPrint(rng); c.has(stranger) {
		t.Error("after the race the cache has a fingerprint that was not added")
	}
}

func BenchmarkSeenCache(b *testing.B) {
	rng, c := newRand(b), newSeenCache(1<<20)
	prints := make([]bloomstore.Fingerprint, 1<<20)
	for i := range prints {
		prints[i] = randomPrint(rng)
		c.add(prints[i], c.generation())
	}
	b.Run("has", func(b *testing.B) {
		i := 0
		for b.Loop() {
			c.has(prints[i&(1<<20-1)])
			i += 7919
		}
	})
}
