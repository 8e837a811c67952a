package countbits

import (
	"math"
	"math/bits"

	"github.com/bloomfrontier/crawler/sizing"
)

const (
	counterBits = 4
	perWord     = 64 / counterBits
	saturated   = 1<<counterBits - 1 // the highest value, which a counter keeps for ever
)

// counters is an array of 4-bit counters.
type counters struct {
	len   uint64
	words []uint64
}

func newCounters(n uint64) counters {
	return counters{n, make([]uint64, (n+perWord-1)/perWord)}
}

func (c *counters) get(i uint) uint64 {
	return c.words[i/perWord] >> (i % perWord * counterBits) & saturated
}

// increment adds 1 to a counter, unless it is saturated.
func (c *counters) increment(i uint) {
	if c.get(i) < saturated {
		c.words[i/perWord] += 1 << (i % perWord * counterBits)
	}
}

// decrement subtracts 1 from a counter, unless it is saturated. It leaves a counter of 0 as it is:
// this happens if a key is deleted that was never added, and has two equal positions.
func (c *counters) decrement(i uint) {
	if n := c.get(i); n > 0 && n < saturated {
		c.words[i/perWord] -= 1 << (i % perWord * counterBits)
	}
}

// count returns how many counters are above 0, and how many are saturated.
func (c *counters) count() (nonzero, full uint64) {
	const lowest = 0x1111111111111111 // the lowest bit of each counter
	for _, w := range c.words {
		nonzero += uint64(bits.OnesCount64((w | w>>1 | w>>2 | w>>3) & lowest))
		full += uint64(bits.OnesCount64(w & (w >> 1) & (w >> 2) & (w >> 3) & lowest))
	}
	return nonzero, full
}

// claimRate returns the probability that a shard with this number of counters above 0 claims a key
// that was never added.
func claimRate(nonzero uint64, layout sizing.CountingLayout) float64 {
	return math.Pow(float64(nonzero)/float64(layout.ShardCounters), float64(layout.Hashes))
}
