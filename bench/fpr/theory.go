package fpr

import (
	"math"

	"github.com/bloomfrontier/crawler/sizing"
)

// Theory is what a set should do.
type Theory struct {
	FPR  float64 // that a new key is claimed when all keys were offered
	Lost float64 // share of the keys that were claimed when they came
	// Slack is how far off the formulas may be, relative to a rate.
	Slack float64
}

// layer is what theory knows of one layer of a chain.
type layer struct {
	room float64                    // keys offered to it until it is full
	rate func(held float64) float64 // of false positives when so many were offered, more than none
}

// chain is a set that begins layer after layer.
type chain struct {
	Case
	capacity uint64 // of the first layer
	layout   func(p float64, keys uint64) (rate func(held float64) float64)
	layers   []layer // computed so far
}

func (c *chain) layer(number int) layer {
	for number == len(c.layers) {
		plan := sizing.LayerAt(number, c.capacity, c.FPR, c.Growth)
		keys := plan.Capacity
		if c.Growth {
			keys = plan.Offered()
		}
		c.layers = append(c.layers, layer{float64(keys), c.layout(plan.FPR, keys)})
	}
	return c.layers[number]
}

// at returns the rate at which a chain claims a new key once offered keys came,
// and how many of them it claimed when they did: each is in the layer that was
// the last one when it came, and met all that there were.
func (c *chain) at(offered float64) (rate, lost float64) {
	passes := 1.0 // the chance that a new key passes the layers before
	for number, rest := 0, offered; rest > 0; number++ {
		l, held := c.layer(number), rest
		if c.Growth {
			held = min(rest, l.room)
		}
		lost += held * (1 - passes*(1-meanRate(l, held)))
		passes *= 1 - l.rate(held)
		rest -= held
	}
	return 1 - passes, lost
}

// meanRate returns the mean of a layer's rate while held keys come, by Simpson's
// rule: the rate is about a power of the number of keys, which 64 intervals
// follow to a relative 1e-4.
func meanRate(l layer, held float64) float64 {
	const intervals = 64
	sum := l.rate(held) // that at 0 is 0
	for i := 1; i < intervals; i++ {
		weight := 2 + 2*float64(i%2)
		sum += weight * l.rate(held*float64(i)/intervals)
	}
	return sum / (3 * intervals)
}

// memoryTheory is that of membits.
func memoryTheory(c Case, _ []uint64) Theory {
	whole := chain{Case: c, capacity: c.Capacity, layout: func(p float64, keys uint64) func(float64) float64 {
		bits, k := sizing.ShardedBits(keys, p, sizing.DefaultShards)
		return func(held float64) float64 {
			return sizing.ShardedFalsePositiveRate(uint64(math.Round(held)), sizing.DefaultShards, bits, k)
		}
	}}
	rate, lost := whole.at(float64(c.Keys))
	return Theory{FPR: rate, Lost: lost / float64(c.Keys), Slack: 0.002}
}

// redisTheory is that of redisbits, with so many keys in each partition, or the
// same number in all. Its slack is what sizing.ExactBlockedFalsePositiveRate says
// of itself.
func redisTheory(c Case, loads []uint64) Theory {
	each := float64(c.Capacity) / float64(c.Partitions)
	capacity := uint64(math.Ceil(each + 4*math.Sqrt(each))) // see redisbits.Config
	part := chain{Case: c, capacity: capacity, layout: func(p float64, keys uint64) func(float64) float64 {
		segments := sizing.RedisSegments(keys, p, sizing.DefaultBlockBits)
		bits := segments.BitsPerKey * float64(keys)
		return func(held float64) float64 {
			return sizing.ExactBlockedFalsePositiveRate(bits/held, sizing.DefaultBlockBits, segments.Hashes)
		}
	}}
	if loads == nil {
		loads = []uint64{c.Keys / uint64(c.Partitions)}
	}
	t, total := Theory{Slack: 0.01}, 0.0
	for _, load := range loads {
		rate, lost := part.at(float64(load))
		t.FPR += rate * float64(load)
		t.Lost += lost
		total += float64(load)
	}
	t.FPR, t.Lost = t.FPR/total, t.Lost/total
	return t
}
