package redisbits

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/sizing"
)

func layoutOf(t testing.TB, params Params) *Layout {
	t.Helper()
	layout, err := NewLayout(params)
	if err != nil {
		t.Fatal(err)
	}
	return layout
}

// positions returns the first n positions of fp that a layer draws.
func positions(l *Layer, fp bloomstore.Fingerprint, n int) []uint {
	var drawn []uint
	for draws := l.draws(fp); len(drawn) < n; {
		drawn = append(drawn, draws.next())
	}
	return drawn
}

// TestDrawsGolden checks that the positions of the bits of a fingerprint do not change, because
// stored filters depend on them. Another program computed the values from
// docs/design/filter.md.
func TestDrawsGolden(t *testing.T) {
	const zero, counting = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\xef"
	for _, c := range []struct {
		print     string
		layer     int
		blockBits uint
		blocks    uint64
		block     uint64
		positions []uint
		partition int
	}{
		{zero, 0, 1024, 1 << 20, 295448, []uint{38, 363, 663, 247, 1022, 860, 236, 244}, 0},
		{zero, 1, 1024, 777777, 14587, []uint{365, 585, 876, 349, 785, 418, 176, 341}, 0},
		{zero, 3, 512, 1000, 897, []uint{131, 418, 243, 196, 39, 231, 62, 265}, 0},
		{counting, 0, 1024, 1 << 20, 946448, []uint{330, 344, 972, 10, 923, 844, 958, 857}, 198},
		{counting, 1, 1024, 777777, 201945, []uint{969, 4, 570, 454, 33, 615, 1002, 910}, 198},
		{counting, 3, 512, 1000, 623, []uint{487, 76, 229, 214, 446, 223, 394, 201}, 198},
	} {
		fp := bloomstore.Fingerprint([]byte(c.print))
		l := &Layer{Number: c.layer, Segments: 1, BlockBytes: int(c.blockBits / 8), blocks: c.blocks, drawBits: uint(bits.Len(c.blockBits - 1))}
		segment, offset := l.Locate(fp)
		if want := int64(64 + c.block*uint64(c.blockBits)/8); segment != 0 || offset != want {
			t.Errorf("layer %d: the block of %x is in segment %d at byte %d, want segment 0 at byte %d", c.layer, fp, segment, offset, want)
		}
		if got := positions(l, fp, 8); !slices.Equal(got, c.positions) {
			t.Errorf("layer %d: positions of %x are %v, want %v", c.layer, fp, got, c.positions)
		}
		if got := PartitionOf(fp, 256); got != c.partition {
			t.Errorf("partition of %x is %d, want %d", fp, got, c.partition)
		}
	}
}

// slowWord is a plain implementation of word.
func slowWord(fp bloomstore.Fingerprint, counter uint64) *big.Int {
	modulus := new(big.Int).Lsh(big.NewInt(1), 64)
	mix := func(z *big.Int) *big.Int {
		for _, step := range []struct {
			shift  uint
			factor string
		}{{30, "bf58476d1ce4e5b9"}, {27, "94d049bb133111eb"}} {
			factor, _ := new(big.Int).SetString(step.factor, 16)
			z = new(big.Int).Xor(z, new(big.Int).Rsh(z, step.shift))
			z.Mul(z, factor).Mod(z, modulus)
		}
		return new(big.Int).Xor(z, new(big.Int).Rsh(z, 31))
	}
	little := func(b []byte) *big.Int {
		b = slices.Clone(b)
		slices.Reverse(b)
		return new(big.Int).SetBytes(b)
	}
	golden, _ := new(big.Int).SetString("9e3779b97f4a7c15", 16)
	z := new(big.Int).Add(new(big.Int).SetUint64(counter), big.NewInt(1))
	z.Mul(z, golden).Mod(z, modulus)
	z = mix(z.Xor(z, little(fp[:8])))
	return mix(z.Add(z, little(fp[8:])).Mod(z, modulus))
}

// TestLayerAgainstPlain compares Locate, Mask and Known with a plain implementation of
// docs/design/filter.md, which uses big integers and handles one bit at a time.
func TestLayerAgainstPlain(t *testing.T) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	for _, params := range []Params{
		{Capacity: 300_000, FPR: 1e-6}, {Capacity: 50, FPR: 1e-2, BlockBits: 512},
		{Capacity: 3_000_000_000, FPR: 1e-2, BlockBits: 4096}, {Capacity: 9, FPR: 1e-12, BlockBits: 256},
	} {
		for number := range 3 {
			l := layoutOf(t, params).Layer(number)
			perSegment := (l.SegmentBytes - 64) / int64(l.BlockBytes)
			total := new(big.Int).Mul(big.NewInt(int64(l.Segments)), big.NewInt(perSegment))
			for range 50 {
				fp := randomPrint(rng)
				counter := uint64(number) * 256
				block := new(big.Int).Mul(slowWord(fp, counter), total)
				at := block.Rsh(block, 64).Int64()
				segment, offset := l.Locate(fp)
				if int64(segment) != at/perSegment || offset != 64+at%perSegment*int64(l.BlockBytes) {
					t.Fatalf("%+v, layer %d: Locate(%x) = segment %d, byte %d; want block %d", params, number, fp, segment, offset, at)
				}
				want := make([]byte, l.BlockBytes)
				size := bits.Len(uint(l.BlockBytes*8 - 1))
				for i := range l.Hashes {
					perWord := 64 / size
					word := slowWord(fp, counter+1+uint64(i/perWord))
					position := word.Rsh(word, uint(i%perWord*size)).Uint64() % uint64(l.BlockBytes*8)
					want[position/8] |= 1 << (7 - position%8)
				}
				got := l.Mask(make([]byte, l.BlockBytes), fp)
				if !slices.Equal(got, want) {
					t.Fatalf("%+v, layer %d: the mask of %x is\n%x, want\n%x", params, number, fp, got, want)
				}
				if !l.Known(got, fp) {
					t.Fatalf("%+v, layer %d: %x is not known in its own mask", params, number, fp)
				}
				for i, b := range got {
					if b != 0 {
						got[i] &= b - 1 // clears one bit
						break
					}
				}
				if l.Known(got, fp) {
					t.Fatalf("%+v, layer %d: %x is known in its own mask without one bit", params, number, fp)
				}
			}
		}
	}
}

// TestLayersAreIndependent: a key's bits in one layer do not predict those in
// another.
func TestLayersAreIndependent(t *testing.T) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	layout := layoutOf(t, Params{Capacity: 1000})
	a, b := layout.Layer(0), layout.Layer(1)
	const trials, draws = 20_000, 6
	same := 0
	for range trials {
		fp := randomPrint(rng)
		x, y := positions(a, fp, draws), positions(b, fp, draws)
		for i := range x {
			if x[i] == y[i] {
				same++
			}
		}
	}
	mean := float64(trials*draws) / 1024
	if off := (float64(same) - mean) / math.Sqrt(mean); math.Abs(off) > 5 {
		t.Errorf("%d of %d positions are the same in two layers, %.1fσ from %.0f, want within 5σ", same, trials*draws, off, mean)
	}
}

// TestRateOfLayers measures the rate of layers without a server. Their blocks are in memory,
// and are filled to capacity as a chain fills them.
func TestRateOfLayers(t *testing.T) {
	if raceEnabled {
		t.Skip("slow, and with one goroutine the race detector finds nothing")
	}
	type target struct {
		params   Params
		layer, n int // number of the layer, and number of probes
	}
	targets := []target{
		{Params{Capacity: 50_000, FPR: 1e-2}, 0, 2_000_000},
		{Params{Capacity: 5_000, FPR: 1e-2}, 3, 8_000_000},
		{Params{Capacity: 50_000, FPR: 1e-4, BlockBits: 512}, 0, 4_000_000},
	}
	if *proof {
		targets = append(targets,
			target{Params{Capacity: 1_000_000, FPR: 1e-6}, 0, 200_000_000},
			target{Params{Capacity: 1_000_000, FPR: 1e-6, BlockBits: 4096}, 0, 200_000_000})
	}
	for _, c := range targets {
		t.Run(fmt.Sprintf("p=%g/B=%d/layer=%d", c.params.FPR, c.params.BlockBits, c.layer), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
			l := layoutOf(t, c.params).Layer(c.layer)
			stored := make([][]byte, l.Segments)
			for i := range stored {
				stored[i] = make([]byte, l.SegmentBytes)
			}
			block := func(fp bloomstore.Fingerprint) []byte {
				segment, at := l.Locate(fp)
				return stored[segment][at : at+int64(l.BlockBytes)]
			}
			for kept := uint64(0); kept < l.Capacity; {
				fp := randomPrint(rng)
				if b := block(fp); !l.Known(b, fp) {
					l.Mask(b, fp)
					kept++
				}
			}
			hits := 0
			for range c.n {
				if fp := randomPrint(rng); l.Known(block(fp), fp) {
					hits++
				}
			}
			// The layer has somewhat more bits than it needs. So the expected rate is
			// that of the formula for its actual size and for the number of keys that
			// were offered.
			offered := sizing.LayerAt(c.layer, c.params.Capacity, c.params.FPR, true).Offered()
			want := sizing.ExactBlockedFalsePositiveRate(float64(l.Bits())/float64(offered), l.BlockBytes*8, uint(l.Hashes))
			mean := want * float64(c.n)
			// The formula is accurate to 1 %, and the fill of one filter varies
			// by less.
			sigma := math.Sqrt(mean + math.Pow(0.01*mean, 2))
			if off := (float64(hits) - mean) / sigma; math.Abs(off) > 5 {
				t.Errorf("%d of %d probes are claimed, %.1fσ from %.0f, want within 5σ", hits, c.n, off, mean)
			}
			if want > l.FPR {
				t.Errorf("layer %d has the false-positive rate %g, want at most %g", c.layer, want, l.FPR)
			}
		})
	}
}

// TestLayersAreSizedForOfferedKeys: a full layer does not exceed its rate. A layer counts only the
// keys that it did not claim, so more keys were offered to it than it counts. A fault would show
// at a high rate and at sizes to which the allocator adds no bits. So the test uses such rates
// and sizes.
func TestLayersAreSizedForOfferedKeys(t *testing.T) {
	for capacity := uint64(10_000); capacity < 10_400; capacity += 10 {
		l := newLayer(Params{Capacity: capacity, FPR: 0.5, BlockBits: minBlockBits}, 0)
		offered := sizing.LayerAt(0, capacity, 0.5, true).Offered()
		if rate := sizing.ExactBlockedFalsePositiveRate(float64(l.Bits())/float64(offered), minBlockBits, uint(l.Hashes)); rate > l.FPR {
			t.Fatalf("a full layer for %d keys has the false-positive rate %g, want at most %g", capacity, rate, l.FPR)
		}
	}
}

// TestBlocksAreSpreadEvenly: keys are spread evenly over blocks, segments and partitions.
func TestBlocksAreSpreadEvenly(t *testing.T) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	l := layoutOf(t, Params{Capacity: 20_000_000}).Layer(0)
	if l.Segments < 3 {
		t.Fatalf("the layer has %d segments, but the test needs at least 3", l.Segments)
	}
	const trials = 300_000
	segments, halves, partitions := make([]int, l.Segments), make([]int, 2), make([]int, 100)
	for range trials {
		fp := randomPrint(rng)
		segment, offset := l.Locate(fp)
		if offset < 64 || offset+int64(l.BlockBytes) > l.SegmentBytes || (offset-64)%int64(l.BlockBytes) != 0 {
			t.Fatalf("the block of %x is at byte %d of a segment of %d bytes, want a whole block after the header", fp, offset, l.SegmentBytes)
		}
		segments[segment]++
		halves[2*(offset-64)/(l.SegmentBytes-64)]++
		partitions[PartitionOf(fp, len(partitions))]++
	}
	for what, counts := range map[string][]int{"segments": segments, "halves of a segment": halves, "partitions": partitions} {
		mean := float64(trials) / float64(len(counts))
		for i, n := range counts {
			// One of 100 counts exceeds 5σ by chance once in 15,000 runs, and 6σ once in some million.
			if off := (float64(n) - mean) / math.Sqrt(mean); math.Abs(off) > 6 {
				t.Errorf("%s: the one with number %d has %d keys, %.1fσ from %.0f, want within 6σ", what, i, n, off, mean)
			}
		}
	}
}

// TestSizesAreThoseOfSizing: the layout has the sizes that package sizing computes.
func TestSizesAreThoseOfSizing(t *testing.T) {
	for _, c := range []struct {
		keys       uint64
		p          float64
		growth     bool
		partitions int
	}{{10_000_000, 1e-6, true, 256}, {10_000_000, 1e-2, true, 256}, {100_000_000, 1e-6, false, 64}, {1000, 1e-3, true, 16}} {
		growth := GrowthOff
		if c.growth {
			growth = GrowthOn
		}
		config := Config{Capacity: c.keys, FPR: c.p, Growth: growth, Partitions: c.partitions}
		want := sizing.SizeRedis(sizing.RedisPlan{Keys: c.keys, FPR: c.p, Growth: c.growth, Partitions: c.partitions})
		if got := config.Params().Capacity; got != want.PartitionKeys {
			t.Errorf("%+v: the chains have a capacity of %d keys, want %d", config, got, want.PartitionKeys)
		}
		l := layoutOf(t, config.Params()).Layer(0)
		if l.Segments != want.Segments.Count || uint64(l.SegmentBytes) != want.Segments.Bytes || l.Hashes != int(want.Segments.Hashes) {
			t.Errorf("%+v: layer 0 is %+v, want the sizes of %+v", config, l, want.Segments)
		}
		if l.SegmentBytes > sizing.MaxSegmentBytes || (l.SegmentBytes-HeaderBytes)%int64(l.BlockBytes) != 0 {
			t.Errorf("%+v: segments of %d bytes, want whole blocks and at most MaxSegmentBytes", config, l.SegmentBytes)
		}
	}
}

func TestParamsNameAllFaults(t *testing.T) {
	_, err := NewLayout(Params{Capacity: 1 << 62, FPR: 1, Growth: 2, BlockBits: 768})
	if err == nil {
		t.Fatal("NewLayout of params with four faults: no error")
	}
	for _, want := range []string{"Capacity is 4611686018427387904", "FPR is 1,", "Growth is 2", "BlockBits is 768"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	for _, params := range []Params{{FPR: math.NaN()}, {FPR: -1}, {FPR: 1e-13}, {BlockBits: -1024}, {BlockBits: 128}, {BlockBits: 1 << 17}} {
		if _, err := NewLayout(params); err == nil {
			t.Errorf("NewLayout(%+v): no error", params)
		}
	}
}

// TestGrowthEnds: a chain gets no layer whose size would overflow integers.
func TestGrowthEnds(t *testing.T) {
	l := layoutOf(t, Params{Capacity: maxKeys / 8})
	if !l.Grows(3) || l.Grows(4) {
		t.Errorf("layers of %d·2ⁱ keys: Grows(3) = %t, Grows(4) = %t; want true, false", maxKeys/8, l.Grows(3), l.Grows(4))
	}
	if off := layoutOf(t, Params{Growth: GrowthOff}); !off.Grows(0) || off.Grows(1) {
		t.Error("without growth: want Grows(0) = true and Grows(1) = false")
	}
}
