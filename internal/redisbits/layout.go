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

// layoutVersion is the version of the layout: of the header, the draws, and the sizes that
// are computed from Params. These determine the position of every bit.
// docs/design/filter.md describes the layout.
const layoutVersion = 1

// HeaderBytes is the length of the header that every segment starts with.
const HeaderBytes = sizing.SegmentHeaderBytes

// Params configure one chain. The zero value is a chain for a million keys with a
// false-positive rate of 1e-6, which grows.
type Params struct {
	Capacity  uint64  // keys that the first layer is sized for; 0 means a million
	FPR       float64 // false-positive rate that is not exceeded (see Growth), in [1e-12, 1); 0 means 1e-6
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

// Layout determines the positions of the bits of chains with the same Params, which share
// one Layout. It has no state except the shapes that it has computed. It is safe for
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

// Grows reports whether a chain can have a layer with this number, counting from 0. The
// last possible layer is far larger than any memory, and all further keys go into it.
func (l *Layout) Grows(number int) bool {
	return number == 0 || l.params.Growth == GrowthOn && l.params.Capacity <= maxKeys>>number
}

// Layer returns the shape of the layer with this number, for which l.Grows must return
// true. The first call for a number takes some milliseconds.
func (l *Layout) Layer(number int) *Layer {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.layers) <= number {
		l.layers = append(l.layers, newLayer(l.params, len(l.layers)))
	}
	return l.layers[number]
}

// Layer is the shape of one layer of a chain. A layer consists of equal segments, and each
// segment is a Redis string of a header and blocks. All bits of a fingerprint are in one
// block. The methods are pure and safe for concurrent use.
type Layer struct {
	Number       int
	Capacity     uint64  // keys after which a growing chain begins the next layer
	FPR          float64 // false-positive rate at Capacity keys
	Hashes       int     // bits of one fingerprint
	Segments     int     // number of segments, which are Redis keys
	SegmentBytes int64   // length of each segment
	BlockBytes   int

	blocks   uint64 // number of blocks of one segment
	drawBits uint   // bits of one position: log2 of the bits in a block
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

// Bits returns the number of bits in all blocks of the layer.
func (l *Layer) Bits() uint64 { return uint64(l.Segments) * l.blocks * uint64(l.BlockBytes) * 8 }

// Locate returns the number of the segment with the block of fp, and the offset of the block
// in that segment.
func (l *Layer) Locate(fp bloomstore.Fingerprint) (segment int, offset int64) {
	block, _ := bits.Mul64(l.expand(fp).word(0), uint64(l.Segments)*l.blocks)
	return int(block / l.blocks), HeaderBytes + int64(block%l.blocks)*int64(l.BlockBytes)
}

// Mask sets the bits of fp in block and returns block. If block was read from the segment,
// the result is the block to store. Bits are numbered as in Redis: bit 0 is the highest bit
// of byte 0.
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

// PartitionOf returns the partition of fp in a Filter with this number of partitions.
func PartitionOf(fp bloomstore.Fingerprint, partitions int) int {
	partition, _ := bits.Mul64(expansion{fp, ^uint64(0)}.word(0), uint64(partitions))
	return int(partition)
}

// expansion computes any number of words from a fingerprint. Each word is a hash of the
// fingerprint and a counter. Each use has its own counters, so that partition, block and
// positions are independent of each other, even in different layers. The sample
// (Fingerprint.Sampled) uses another hash. Fingerprints depend on a secret key, so a site
// cannot choose positions.
type expansion struct {
	fp   bloomstore.Fingerprint
	base uint64 // counter of word 0
}

// wordsPerLayer is the number of counters that are reserved for a layer: one for the block,
// and the others for words of positions.
const wordsPerLayer = 1 << 8

func (l *Layer) expand(fp bloomstore.Fingerprint) expansion {
	return expansion{fp, uint64(l.Number) * wordsPerLayer}
}

// word returns word i. It applies the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA
// 2014) twice: to the first half of the fingerprint and the counter, and then to the result
// and the second half.
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
// expansion, lowest bits first. The positions are independent. With a shortcut within the
// block, such as start + i·step, a rate of 1e-6 would become 17 to 90 times as high.
type draws struct {
	expansion
	size uint   // bits of one draw
	at   uint64 // number of the current word
	rest uint64 // the unused bits of the current word
	left uint   // number of draws in the field rest
}

func (l *Layer) draws(fp bloomstore.Fingerprint) draws {
	return draws{expansion: l.expand(fp), size: l.drawBits}
}

// next returns the next position, from 0 to below the number of bits in a block.
func (d *draws) next() uint {
	if d.left == 0 {
		d.at++ // word 0 chooses the block
		d.rest, d.left = d.word(d.at), 64/d.size
	}
	position := uint(d.rest) & (1<<d.size - 1)
	d.rest >>= d.size
	d.left--
	return position
}
