package fpr

import (
	"math"

	"github.com/bloomfrontier/crawler/sizing"
)

// layer is what theory knows of one layer of a chain.
type layer struct {
	room float64                    // keys offered to it until it is full
	rate func(held float64) float64 // of false positives when so many were offered, more than none
}

// chain is a set that begins layer after layer.
type chain struct {
	growth bool
	layer  func(number int) layer
	layers []layer // computed so far
}

// at returns the rate at which a chain claims a new key once offered keys came,
// and how many of them it claimed when they did: each is in the layer that was
// the last one when it came, and met all that there were.
func (c *chain) at(offered float64) (rate, lost float64) {
	passes := 1.0 // the chance that a new key passes the layers before
	for number, rest := 0, offered; rest > 0; number++ {
		if number == len(c.layers) {
			c.layers = append(c.layers, c.layer(number))
		}
		l, held := c.layers[number], rest
		if c.growth {
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

// plan returns the part of p and the keys that a layer is laid out for, and how
// many are offered to it until it is full.
func (c Case) plan(capacity uint64, number int) (p float64, keys uint64) {
	plan := sizing.LayerAt(number, capacity, c.FPR, c.Growth)
	if c.Growth {
		return plan.FPR, plan.Offered()
	}
	return plan.FPR, plan.Capacity
}

// memoryTheory is that of membits.
func memoryTheory(c Case, _ []uint64) Theory {
	whole := chain{growth: c.Growth, layer: func(number int) layer {
		p, keys := c.plan(c.Capacity, number)
		bits, k := sizing.ShardedBits(keys, p, sizing.DefaultShards)
		return layer{float64(keys), func(held float64) float64 {
			return sizing.ShardedFalsePositiveRate(uint64(math.Round(held)), sizing.DefaultShards, bits, k)
		}}
	}}
	rate, lost := whole.at(float64(c.Keys))
	return Theory{FPR: rate, Lost: lost / float64(c.Keys), Slack: 0.002}
}

// redisTheory is that of redisbits, with so many keys in each partition. Its
// slack is what sizing.ExactBlockedFalsePositiveRate says of itself.
func redisTheory(c Case, loads []uint64) Theory {
	each := float64(c.Capacity) / float64(c.Partitions)
	capacity := uint64(math.Ceil(each + 4*math.Sqrt(each))) // see redisbits.Config
	part := chain{growth: c.Growth, layer: func(number int) layer {
		p, keys := c.plan(capacity, number)
		segments := sizing.RedisSegments(keys, p, sizing.DefaultBlockBits)
		bits := segments.BitsPerKey * float64(keys)
		return layer{float64(keys), func(held float64) float64 {
			return sizing.ExactBlockedFalsePositiveRate(bits/held, sizing.DefaultBlockBits, segments.Hashes)
		}}
	}}
	if loads == nil {
		rate, lost := part.at(float64(c.Keys) / float64(c.Partitions))
		return Theory{FPR: rate, Lost: lost * float64(c.Partitions) / float64(c.Keys), Slack: 0.01}
	}
	t := Theory{Slack: 0.01}
	total := 0.0
	for _, load := range loads {
		total += float64(load)
	}
	for _, load := range loads {
		rate, lost := part.at(float64(load))
		t.FPR += rate * float64(load) / total
		t.Lost += lost / total
	}
	return t
}
