package testweb

import (
	"math"
	"math/bits"
)

// A purpose selects one of the random numbers of a page. Numbers for different purposes
// are independent. Adding a purpose does not change the numbers for the others.
type purpose uint64

const (
	forFate purpose = iota
	forSlots
	forStyle
	forText
	forLinks
	forSpelling
	forBase
	forChain
	forDeep
	forLatency
	forSlow
	forGzip
	forSize
	forLateness
)

const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). It is a
// bijection, and each output bit depends on every input bit.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// draw returns 64 random bits, which depend on the web's seed, the purpose and p.
func (w *Web) draw(why purpose, p page) uint64 {
	salt := mix(w.cfg.Seed + golden*uint64(why+1))
	return mix(salt ^ mix(uint64(p.host)<<32^uint64(p.index)))
}

// dice is a generator of random numbers: SplitMix64.
type dice struct{ state uint64 }

// roll returns the dice of p for one purpose.
func (w *Web) roll(why purpose, p page) dice { return dice{w.draw(why, p)} }

func (d *dice) next() uint64 {
	d.state += golden
	return mix(d.state)
}

// intn returns a random number in [0, n).
func (d *dice) intn(n int) int {
	hi, _ := bits.Mul64(d.next(), uint64(n))
	return int(hi)
}

// oneIn returns true with a probability of 1/n.
func (d *dice) oneIn(n int) bool { return d.intn(n) == 0 }

// unit returns a random number in [0, 1).
func (d *dice) unit() float64 { return float64(d.next()>>11) * 0x1p-53 }

// normal returns a random number whose distribution is nearly the standard normal
// distribution. The number is computed from the sum of four uniform numbers, so it is
// within ±3.5.
func (d *dice) normal() float64 {
	bits := d.next()
	sum := uint64(0)
	for range 4 {
		sum += bits & 0xffff
		bits >>= 16
	}
	return (float64(sum)/0x1p16 - 2) * math.Sqrt(3)
}

// gauss returns a random number with the standard normal distribution, tails included.
func (d *dice) gauss() float64 { return math.Sqrt2 * math.Erfinv(2*d.unit()-1) }
