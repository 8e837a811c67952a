package membits

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// full returns a filter of 36 MB with ten million keys at 1e-6, and a million of these
// keys.
func full(b *testing.B) (f *Filter, known []bloomstore.Fingerprint) {
	f, rng := open(b, Config{Growth: GrowthOff}), rand.New(rand.NewPCG(1, 0))
	for i := range 10_000_000 {
		fp := randomPrint(rng)
		f.Add(fp)
		if i%10 == 0 {
			known = append(known, fp)
		}
	}
	b.ResetTimer()
	return f, known
}

func unknownPrints() []bloomstore.Fingerprint {
	rng, prints := rand.New(rand.NewPCG(2, 0)), make([]bloomstore.Fingerprint, 1_000_000)
	for i := range prints {
		prints[i] = randomPrint(rng)
	}
	return prints
}

func BenchmarkHas(b *testing.B) {
	f, known := full(b)
	for _, keys := range []struct {
		name   string
		prints []bloomstore.Fingerprint
	}{{"known", known}, {"unknown", unknownPrints()}} {
		b.Run("n=10M/keys="+keys.name+"/callers=1", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				f.Has(keys.prints[i%len(keys.prints)])
			}
		})
		b.Run("n=10M/keys="+keys.name+"/callers=procs", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for i := rand.IntN(len(keys.prints)); pb.Next(); i++ {
					f.Has(keys.prints[i%len(keys.prints)])
				}
			})
		})
	}
}

// BenchmarkWays compares three ways to test one sub-filter of a filter of 36 MB. The first
// computes a position of a bit, tests it, and goes on to the next one, as layer.test does.
// The second computes all positions and passes them to the library's TestLocations. In the
// third the library computes its own positions, in sub-filters that it has filled.
func BenchmarkWays(b *testing.B) {
	f, known := full(b)
	l := (*f.chain.Load())[0]
	library := make([]*bloom.BloomFilter, l.shardCount)
	for i := range library {
		library[i] = bloom.New(uint(l.shardBits), l.hashes)
	}
	rng := rand.New(rand.NewPCG(1, 0)) // draws the same keys as full
	for range 10_000_000 {
		fp := randomPrint(rng)
		shard, _ := f.split(fp)
		library[shard].Add(fp[:])
	}
	for _, keys := range []struct {
		name   string
		prints []bloomstore.Fingerprint
	}{{"known", known}, {"unknown", unknownPrints()}} {
		for _, way := range []struct {
			name string
			test func(fp bloomstore.Fingerprint) bool
		}{
			{"draws", func(fp bloomstore.Fingerprint) bool {
				shard, draw := f.split(fp)
				return l.test(shard, draw)
			}},
			{"locations", func(fp bloomstore.Fingerprint) bool {
				var locations [64]uint64
				shard, draw := f.split(fp)
				for i := range l.hashes {
					locations[i] = uint64(draw.Next(l.shardBits))
				}
				return l.shards[shard].TestLocations(locations[:l.hashes])
			}},
			{"library", func(fp bloomstore.Fingerprint) bool {
				shard, _ := f.split(fp)
				return library[shard].Test(fp[:])
			}},
		} {
			b.Run(fmt.Sprintf("k=%d/keys=%s/way=%s", l.hashes, keys.name, way.name), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					way.test(keys.prints[i%len(keys.prints)])
				}
			})
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, growth := range []Growth{GrowthOn, GrowthOff} {
		b.Run(fmt.Sprintf("n=1M/growth=%t", growth == GrowthOn), func(b *testing.B) {
			f, rng := open(b, Config{Capacity: 1_000_000, Growth: growth}), rand.New(rand.NewPCG(1, 0))
			b.ReportAllocs()
			for b.Loop() {
				f.Add(randomPrint(rng))
			}
		})
	}
}

func BenchmarkFile(b *testing.B) {
	f, _ := full(b)
	var file bytes.Buffer
	if _, err := f.Snapshot([16]byte{}).WriteTo(&file); err != nil {
		b.Fatal(err)
	}
	b.Run("op=write/n=10M", func(b *testing.B) {
		b.SetBytes(int64(file.Len()))
		for b.Loop() {
			if _, err := f.Snapshot([16]byte{}).WriteTo(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("op=read/n=10M", func(b *testing.B) {
		b.SetBytes(int64(file.Len()))
		for b.Loop() {
			if _, err := Read(bytes.NewReader(file.Bytes()), Config{Growth: GrowthOff}, [16]byte{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("op=stats/n=10M", func(b *testing.B) {
		for b.Loop() {
			f.Stats()
		}
	})
}
