// Package positions computes where the filters in memory keep the bits or counters of a
// fingerprint (docs/design/filter.md). It holds no bits.
package positions

import (
	"encoding/binary"
	"math/bits"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// Split returns the shard and the draws of fp in a filter of 2^choose shards, with choose from
// 0 to 63. The highest bits of the second half of fp choose the shard, and the draws are made
// from all other bits.
func Split(fp bloomstore.Fingerprint, choose uint) (shard int, draws Draws) {
	last := binary.LittleEndian.Uint64(fp[8:])
	return int(last >> (64 - choose)), Draws{
		state: binary.LittleEndian.Uint64(fp[:8]),
		step:  last<<choose | 1, // odd: the states do not repeat
	}
}

// Draws is the pseudorandom sequence of a fingerprint, from which its positions are
// computed. It is SplitMix64 with a start and a step made from the fingerprint
// (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA
// 2014). Fingerprints depend on a secret key, so a site cannot choose positions.
//
// The positions of bits-and-blooms/bloom (bloom.Locations) are arithmetic progressions, whose
// regularity raises the false-positive rate of small sub-filters.
type Draws struct{ state, step uint64 }

// Next returns the next number of the sequence, in [0, n).
func (d *Draws) Next(n uint64) uint {
	d.state += d.step
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	position, _ := bits.Mul64(z^z>>31, n)
	return uint(position)
}
