package bloomtest

import (
	"context"
	"encoding/binary"
	"math/bits"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/sizing"
)

// textbook is a plain filter: shards of bits, and a function that chooses
// positions. It is not safe for concurrent use.
type textbook struct {
	bits          [][]uint64
	m             uint64 // bits of a shard
	hashes, tests uint   // bits set for a key, and bits tested
	position      func(fp bloomstore.Fingerprint, i uint, m uint64) uint64
}

func newTextbook(n uint64, p float64, shards uint64) *textbook {
	f := &textbook{bits: make([][]uint64, shards), position: independent}
	f.m, f.hashes = sizing.ShardedBits(n, p, shards)
	f.tests = f.hashes
	for i := range f.bits {
		f.bits[i] = make([]uint64, f.m/64)
	}
	return f
}

func (f *textbook) AddIfAbsent(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	added, err := f.Contains(ctx, prints)
	for i, fp := range prints {
		added[i] = !added[i] // duplicates do not occur here
		shard := f.shard(fp)
		for h := range f.hashes {
			at := f.position(fp, h, f.m)
			shard[at/64] |= 1 << (at % 64)
		}
	}
	return added, err
}

func (f *textbook) Contains(_ context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	known := make([]bool, len(prints))
	for i, fp := range prints {
		shard := f.shard(fp)
		known[i] = true
		for h := range f.tests {
			if at := f.position(fp, h, f.m); shard[at/64]>>(at%64)&1 == 0 {
				known[i] = false
				break
			}
		}
	}
	return known, nil
}

func (f *textbook) shard(fp bloomstore.Fingerprint) []uint64 {
	shard, _ := bits.Mul64(binary.BigEndian.Uint64(fp[8:])*0x9e3779b97f4a7c15, uint64(len(f.bits)))
	return f.bits[shard]
}

// independent draws the i-th position from a hash of fingerprint and i.
func independent(fp bloomstore.Fingerprint, i uint, m uint64) uint64 {
	x := binary.LittleEndian.Uint64(fp[:]) + uint64(i)*(binary.LittleEndian.Uint64(fp[8:])|1)
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	at, _ := bits.Mul64(x^x>>32, m)
	return at
}

// progression returns start + i·step, as many implementations of Bloom filters do. The
// fingerprint determines start and step.
func progression(fp bloomstore.Fingerprint, i uint, m uint64) uint64 {
	return (binary.LittleEndian.Uint64(fp[:])%m + uint64(i)*(binary.LittleEndian.Uint64(fp[8:])%m)) % m
}

// neighbours draws a position only if i is even. For an odd i it returns the bit after the
// position for i-1.
func neighbours(fp bloomstore.Fingerprint, i uint, m uint64) uint64 {
	return (independent(fp, i/2, m) + uint64(i%2)) % m
}

// TestFPRTellsGoodFromBad measures correct filters, and filters with a fault that affects
// only the rate. Near the optimal number of hashes, the rate hardly depends on this number:
// at p = 1e-2, the rate is only 1.8 % higher with one hash too few. So the test measures a
// filter with one hash too few at p = 0.1, where the rate is 16 % higher.
func TestFPRTellsGoodFromBad(t *testing.T) {
	if raceEnabled {
		t.Skip("slow, and with one goroutine the race detector finds nothing")
	}
	for _, c := range []struct {
		name   string
		p      float64
		n      uint64
		probes uint64
		shards uint64
		change func(*textbook)
		sound  bool
	}{
		{"sound at 0.1", 0.1, 100_000, 1_000_000, 1, func(*textbook) {}, true},
		{"sound at 1e-2", 1e-2, 100_000, 1_000_000, 1, func(*textbook) {}, true},
		{"sound at 1e-4", 1e-4, 20_000, 1_000_000, 1, func(*textbook) {}, true},
		{"sound at 1e-4 in small shards", 1e-4, 20_000, 1_000_000, 512, func(*textbook) {}, true},
		{"one hash too few", 0.1, 100_000, 1_000_000, 1, func(f *textbook) { f.hashes--; f.tests-- }, false},
		{"tests one bit too few", 1e-2, 100_000, 100_000, 1, func(f *textbook) { f.tests-- }, false},
		{"tests one bit too few", 1e-4, 20_000, 1_000_000, 1, func(f *textbook) { f.tests-- }, false},
		{"a tenth of the bits missing", 1e-2, 100_000, 100_000, 1, func(f *textbook) { f.m -= f.m / 10 }, false},
		{"a tenth of the bits too many", 1e-2, 100_000, 100_000, 1, func(f *textbook) { f.m += f.m / 10; f.bits[0] = append(f.bits[0], f.bits[0]...) }, false},
		{"progressions in small shards", 1e-4, 20_000, 1_000_000, 512, func(f *textbook) { f.position = progression }, false},
		{"neighbouring positions", 1e-2, 100_000, 100_000, 1, func(f *textbook) { f.position = neighbours }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			filter := newTextbook(c.n, c.p, c.shards)
			c.change(filter)
			trial := newTrial(t, filter)
			if err := trial.fill(c.n); err != nil {
				t.Fatal(err)
			}
			err := trial.probe(c.p, c.n, c.probes)
			if sound := err == nil; sound != c.sound {
				t.Errorf("probe: error %v, want no error: %t", err, c.sound)
			}
		})
	}
}
