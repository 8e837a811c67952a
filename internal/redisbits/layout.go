package redisbits

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/sizing"
)

// layoutVersion is the version of everything that determines the position of a bit:
// the header, the draws and the sizes that follow from Params.
// docs/design/filter.md describes it.
const layoutVersion = 1

// HeaderBytes is the length of the header that every segment starts with.
const HeaderBytes = sizing.SegmentHeaderBytes

// Params configure one chain. The zero value is a chain for a million keys with a
// false-positive rate of 1e-6, which grows.
type Params struct {
	Capacity  uint64  // keys that the first layer holds; 0 means a million
	FPR       float64 // false-positive rate that is never exceeded (see Growth), in [1e-12, 1); 0 means 1e-6
	Growth    Growth  // what happens beyond Capacity
	BlockBits int     // of one block, a power of two from 256 to 65536; 0 means 1024
}

// Growth is what a chain does with more keys than its capacity.
type Growth = bloomstore.Growth

// The values of Growth; see bloomstore.
const (
	GrowthOn  = bloomstore.GrowthOn
	GrowthOff = bloomstore.GrowthOff
)

const (
	maxKeys      = 1 << 40 // of a layer, so that sizes do not overflow
	minFPR       = 1e-12
	minBlockBits = 256
	maxBlockBits = 1 << 16
)

// withDefaults returns p with zero fields filled in, or all its faults.
func (p Params) withDefaults() (Params, error) {
	p.Capacity = cmp.Or(p.Capacity, 1_000_000)
	p.FPR = cmp.Or(p.FPR, 1e-6)
	p.BlockBits = cmp.Or(p.BlockBits, sizing.DefaultBlockBits)
	var errs []error
	if p.Capacity > maxKeys {
		errs = append(errs, fmt.Errorf("Capacity is %d, want at most %d", p.Capacity, uint64(maxKeys)))
	}
	if !(p.FPR >= minFPR && p.FPR < 1) { // in this form, so that NaN is refused
		errs = append(errs, fmt.Errorf("FPR is %g, want one from %g to below 1", p.FPR, minFPR))
	}
	if p.Growth > GrowthOff {
		errs = append(errs, fmt.Errorf("Growth is %d, want GrowthOn or GrowthOff", p.Growth))
	}
	if p.BlockBits < minBlockBits || p.BlockBits > maxBlockBits || bits.OnesCount(uint(p.BlockBits)) != 1 {
		errs = append(errs, fmt.Errorf("BlockBits is %d, want a power of two from %d to %d", p.BlockBits, minBlockBits, maxBlockBits))
	}
	return p, errors.Join(errs...)
}

// Layout is the position of the bits of a chain with some Params. Chains of equal
// Params share one, which has no state except computed shapes. It is safe for
// concurrent use.
type Layout struct {
	params Params
	mu     sync.Mutex
	layers []*Layer // computed so far
}

// NewLayout returns the layout of chains with these params. The error names
// every fault of params.
func NewLayout(params Params) (*Layout, error) {
	params, err := params.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("redisbits: %w", err)
	}
	return &Layout{params: params}, nil
}

// Params returns the params of the layout, defaults filled in.
func (l *Layout) Params() Params { return l.params }

// Grows reports whether a chain may have a layer of that number, counting from 0.
// The last possible layer, far larger than any memory, takes all further keys.
func (l *Layout) Grows(number int) bool {
	return number == 0 || l.params.Growth == GrowthOn && l.params.Capacity <= maxKeys>>number
}

// Layer returns the shape of the layer of that number, for which Grows must be
// true. The first call for a number takes some milliseconds.
func (l *Layout) Layer(number int) *Layer {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.layers) <= number {
		l.layers = append(l.layers, newLayer(l.params, len(l.layers)))
	}
	return l.layers[number]
}

// aheadPerMiB is the number of keys of room in a layer at which each MiB of the
// next one is created ahead. Redis creates a MiB in a fraction of a millisecond, in
// which fewer keys are added.
const aheadPerMiB = 128

// Ahead reports whether a layer with this room for keys is so full that the next
// one should be created. It does so late, because the next layer takes memory, and
// a filter with as many keys as it is sized for needs none.
func (l *Layout) Ahead(number int, room uint64) bool {
	if room > l.Layer(number).Capacity/2 || !l.Grows(number+1) {
		return false
	}
	next := l.Layer(number + 1)
	return room <= uint64(next.Segments)*uint64(next.SegmentBytes)>>20*aheadPerMiB
}

// Layer is the shape of one layer of a chain: equal segments, each a Redis
// string of a header and blocks. All bits of a fingerprint lie in one block. Its
// methods are pure and safe for concurrent use.
type Layer struct {
	Number       int
	Capacity     uint64  // keys; a growing chain then begins the next layer
	FPR          float64 // when Capacity keys are in it
	Hashes       int     // bits of one fingerprint
	Segments     int     // Redis keys
	SegmentBytes int64   // length of each
	BlockBytes   int

	blocks   uint64 // of one segment
	drawBits uint   // of one position: log2 of the bits in a block
}

func newLayer(p Params, number int) *Layer {
	growing := p.Growth == GrowthOn
	plan := sizing.LayerAt(number, p.Capacity, p.FPR, growing)
	keys := plan.Capacity
	if growing {
		keys = plan.Offered()
	}
	s := sizing.RedisSegments(keys, plan.FPR, p.BlockBits)
	l := &Layer{
		Number: number, Capacity: plan.Capacity, FPR: plan.FPR, Hashes: int(s.Hashes),
		Segments: s.Count, SegmentBytes: int64(s.Bytes), BlockBytes: p.BlockBits / 8,
		drawBits: uint(bits.TrailingZeros(uint(p.BlockBits))),
	}
	l.blocks = uint64(l.SegmentBytes-HeaderBytes) / uint64(l.BlockBytes)
	return l
}

// Bits returns the size of the layer.
func (l *Layer) Bits() uint64 { return uint64(l.Segments) * l.blocks * uint64(l.BlockBytes) * 8 }

// Locate returns the segment that holds fp and where in it fp's block begins.
func (l *Layer) Locate(fp bloomstore.Fingerprint) (segment int, offset int64) {
	block, _ := bits.Mul64(l.expand(fp).word(0), uint64(l.Segments)*l.blocks)
	return int(block / l.blocks), HeaderBytes + int64(block%l.blocks)*int64(l.BlockBytes)
}

// Mask sets the bits of fp in block and returns it. With a block of zeros that
// is the mask of fp, with a block as stored the block to store. Bits are
// numbered as Redis does: bit 0 is the highest of byte 0.
func (l *Layer) Mask(block []byte, fp bloomstore.Fingerprint) []byte {
	for draws, n := l.draws(fp), l.Hashes; n > 0; n-- {
		bit := draws.next()
		block[bit>>3] |= 0x80 >> (bit & 7)
	}
	return block
}

// Known reports whether block has all bits of fp.
func (l *Layer) Known(block []byte, fp bloomstore.Fingerprint) bool {
	for draws, n := l.draws(fp), l.Hashes; n > 0; n-- {
		bit := draws.next()
		if block[bit>>3]&(0x80>>(bit&7)) == 0 {
			return false
		}
	}
	return true
}

// PartitionOf returns the partition of fp by default.
func PartitionOf(fp bloomstore.Fingerprint, partitions int) int {
	partition, _ := bits.Mul64(expansion{fp, ^uint64(0)}.word(0), uint64(partitions))
	return int(partition)
}

// expansion computes any number of words from a fingerprint: a hash of the
// fingerprint and a counter. Every use has its own counters, so that partition,
// place and positions are independent, also those of different layers. The sample
// (Fingerprint.Sampled) is another hash. Fingerprints are keyed, so positions
// cannot be chosen from outside.
type expansion struct {
	fp   bloomstore.Fingerprint
	base uint64 // counter of word 0
}

// wordsPerLayer is the number of counters that a layer has to itself: one for
// the place and one for each word of positions.
const wordsPerLayer = 1 << 8

func (l *Layer) expand(fp bloomstore.Fingerprint) expansion {
	return expansion{fp, uint64(l.Number) * wordsPerLayer}
}

// word returns word i: two rounds of SplitMix64's finalizer (Steele, Lea, Flood,
// OOPSLA 2014), the first over one half of the fingerprint and the counter, the
// second over that and the other half.
func (e expansion) word(i uint64) uint64 {
	const golden = 0x9e3779b97f4a7c15
	a := binary.LittleEndian.Uint64(e.fp[:8])
	b := binary.LittleEndian.Uint64(e.fp[8:])
	return mix(mix(a^(e.base+i+1)*golden) + b)
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// draws are the positions of a fingerprint in its block: parts of the words of its
// expansion, lowest bits first. They are independent, because shortcuts such as
// start + i·step exceed a rate of 1e-6 by a factor of 17 to 90 within a block.
type draws struct {
	expansion
	size uint   // bits of one draw
	at   uint64 // words taken
	rest uint64 // what is left of the last one
	left uint   // draws in it
}

func (l *Layer) draws(fp bloomstore.Fingerprint) draws {
	return draws{expansion: l.expand(fp), size: l.drawBits}
}

// next returns a position from 0 to below the number of bits in a block.
func (d *draws) next() uint {
	if d.left == 0 {
		d.at++ // word 0 is the place
		d.rest, d.left = d.word(d.at), 64/d.size
	}
	position := uint(d.rest) & (1<<d.size - 1)
	d.rest >>= d.size
	d.left--
	return position
}
