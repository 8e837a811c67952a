package sizing

import (
	"fmt"
	"math"
	"time"
)

// Window describes a filter that remembers keys for some time: a window.
//
// The time is divided into parts of window/Generations. Each part has a filter of its own, a
// generation, to which the keys of that part are added. A key is looked up in the newest
// generation and in the Generations before it, Asked() in all; older ones are dropped. So a key
// that was added is never new within the window, and is forgotten after at most
// window·(1 + 1/Generations). Such a filter is the group Bloom filter for jumping windows of Zhang
// and Guan, "Detecting Click Fraud in Pay-Per-Click Streams of Online Advertising Networks", ICDCS
// 2008, with one generation more, so that the window does not jump.
type Window struct {
	Keys        uint64  // new keys in the time of one window
	FPR         float64 // highest rate of all generations together
	Generations int     // generations of one window, 1 or more
}

// MaxGenerations is the largest number of generations that this package considers.
const MaxGenerations = 63

// Asked returns the number of generations in which each key is looked up.
func (w Window) Asked() int {
	if w.Generations < 1 || w.Generations > MaxGenerations {
		panic(fmt.Sprintf("sizing: a window of %d generations", w.Generations))
	}
	return w.Generations + 1
}

// Generation returns the filter of one generation. It grows, and it gets an equal part of the
// rate: a new key is falsely claimed with probability 1 - (1 - FPR/Asked)^Asked, below FPR.
func (w Window) Generation() Chain {
	g := uint64(w.Asked() - 1)
	return Chain{Keys: max((w.Keys+g-1)/g, 1), FPR: w.FPR / float64(w.Asked()), Growth: true}
}

// Kept returns how long a key is remembered at most, if the window is span.
func (w Window) Kept(span time.Duration) time.Duration {
	return span + span/time.Duration(w.Asked()-1)
}

// WindowLayout is the memory of a Window when all of its generations are full.
type WindowLayout struct {
	Generations int     `json:"generations"`
	Asked       int     `json:"asked"` // generations in which each key is looked up
	Bytes       uint64  `json:"bytes"` // of all bits
	BitsPerKey  float64 `json:"bits_per_key"`
	FPR         float64 `json:"fpr"` // of all generations together, when all of them are full
}

// SizeWindow returns the memory of a window whose generations are filters in memory with this
// number of shards. It panics like ShardedBits and Window.Asked.
func SizeWindow(w Window, shards uint64) WindowLayout {
	asked := w.Asked()
	one := SizeMemory(w.Generation(), shards)
	return WindowLayout{
		Generations: w.Generations, Asked: asked,
		Bytes:      uint64(asked) * one.Bytes,
		BitsPerKey: float64(uint64(asked)*one.Bytes*8) / float64(w.Keys),
		FPR:        -math.Expm1(float64(asked) * math.Log1p(-one.FPR)),
	}
}

// tolerance is the share of memory that RecommendedGenerations gives up for fewer generations.
const tolerance = 0.05

// RecommendedGenerations returns the fewest generations whose filters take at most 5 % more bits
// than those of the best number, at the rate p.
//
// With g generations, the bits for a key are BitsPerKey(p/(g+1))·(g+1)/g. They first fall with g,
// because a dropped generation is smaller. Later they rise, because each generation gets a smaller
// part of p. Near its minimum this function is flat, while each generation costs a look-up. The
// result is 3 at p = 1 % and 6 at p = 1e-6. RecommendedGenerations panics unless 0 < p < 1.
func RecommendedGenerations(p float64) int {
	least := math.Inf(1)
	bits := make([]float64, MaxGenerations+1)
	for g := 1; g <= MaxGenerations; g++ {
		rate := p / float64(g+1)
		k := argmin(1, MaxHashes, func(k uint) float64 { return BitsPerKey(rate, k) })
		bits[g] = BitsPerKey(rate, k) * float64(g+1) / float64(g)
		least = min(least, bits[g])
	}
	g := 1
	for bits[g] > (1+tolerance)*least {
		g++
	}
	return g
}
