package fpr

import (
	"math"
	"slices"

	"github.com/bloomfrontier/crawler/sizing"
)

// Theory is the predicted behaviour of a set.
type Theory struct {
	FPR  Rate // that a new key is claimed after all keys were offered
	Lost Rate // share of the keys that were claimed when they were offered
	// Slack is the relative error of the formulas.
	Slack float64
}

// Rate is the mean rate of events over all sets of one layout. The rates of single sets
// differ from the mean by chance, those of small sets by much.
type Rate struct {
	Mean      float64
	Variance  float64 // of the sets' rates
	Asymmetry float64 // their third central moment
}

// add adds an independent part with a weight: see sizing.RateSpread.
func (r *Rate) add(weight, mean, deviation, skewness float64) {
	sigma := weight * mean * deviation
	r.Mean += weight * mean
	r.Variance += sigma * sigma
	r.Asymmetry += skewness * sigma * sigma * sigma
}

// spread returns the standard deviation of the sets' rates, relative to their mean.
func (r Rate) spread() float64 {
	if r.Mean == 0 {
		return 0
	}
	return math.Sqrt(r.Variance) / r.Mean
}

// skewed reports whether the distribution of the sets' rates, together with the chance
// of so many trials, is too skewed to be judged by σ. Sets with small parts are. With a
// skewness of 0.1, 5σ are exceeded once in half a million figures (by the expansion of
// Cornish and Fisher); with 0.3, once in ten thousand.
func (r Rate) skewed(trials uint64) bool {
	n := float64(trials)
	return n*n*n*r.Asymmetry > 0.1*math.Pow(n*r.Mean+n*n*r.Variance, 1.5)
}

// layer is the theory of one layer of a chain.
type layer struct {
	room float64 // keys offered to it until it is full
	pieces
}

// pieces describes the structure of a layer: equal parts of so many bits.
type pieces struct {
	parts, bits uint64
	hashes      uint
	rate        func(held float64) float64 // false-positive rate after so many offered keys, at least one
}

// chain is a set that adds layers.
type chain struct {
	Case
	capacity uint64 // of the first layer
	layout   func(p float64, keys uint64) pieces
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

// add adds one chain with a weight to a theory: its false-positive rate after so many
// offered keys, and the share of these that were false positives when they were
// offered. A key is added to the layer that is the newest at that time, and is tested
// against all layers that exist then.
func (c *chain) add(t *Theory, offered, weight float64) {
	passes := 1.0 // probability that no earlier layer claims a new key
	for number, rest := 0, offered; rest > 0; number++ {
		l, held := c.layer(number), rest
		if c.Growth {
			held = min(rest, l.room)
		}
		rest -= held
		rate := l.rate(held)
		deviation, skewness := sizing.RateSpread(held, l.parts, l.bits, l.hashes)
		t.FPR.add(weight*passes, rate, deviation, skewness)
		t.Lost.add(weight*passes, (held*meanRate(l, held)+rest*rate)/offered, deviation, skewness)
		passes *= 1 - rate
	}
}

// meanRate returns the mean of a layer's rate while held keys are offered, by Simpson's
// rule. The rate is about a power of the number of keys, for which 64 intervals give a
// relative error of 1e-4.
func meanRate(l layer, held float64) float64 {
	const intervals = 64
	sum := l.rate(held) // that at 0 is 0
	for i := 1; i < intervals; i++ {
		weight := 2 + 2*float64(i%2)
		sum += weight * l.rate(held*float64(i)/intervals)
	}
	return sum / (3 * intervals)
}

// memoryTheory is the theory of membits.
func memoryTheory(c Case, _ []uint64) Theory {
	whole := chain{Case: c, capacity: c.Capacity, layout: func(p float64, keys uint64) pieces {
		bits, k := sizing.ShardedBits(keys, p, sizing.DefaultShards)
		return pieces{sizing.DefaultShards, bits, k, func(held float64) float64 {
			return sizing.ShardedFalsePositiveRate(uint64(math.Round(held)), sizing.DefaultShards, bits, k)
		}}
	}}
	t := Theory{Slack: 0.002}
	whole.add(&t, float64(c.Keys), 1)
	return t
}

// redisTheory is the theory of redisbits, with the given number of keys in each partition,
// or the same number in all. Its slack is the error that
// sizing.ExactBlockedFalsePositiveRate documents.
func redisTheory(c Case, loads []uint64) Theory {
	each := float64(c.Capacity) / float64(c.Partitions)
	capacity := uint64(math.Ceil(each + 4*math.Sqrt(each))) // see redisbits.Config
	part := chain{Case: c, capacity: capacity, layout: func(p float64, keys uint64) pieces {
		segments := sizing.RedisSegments(keys, p, sizing.DefaultBlockBits)
		bits := segments.BitsPerKey * float64(keys)
		return pieces{uint64(bits) / sizing.DefaultBlockBits, sizing.DefaultBlockBits, segments.Hashes, func(held float64) float64 {
			return sizing.ExactBlockedFalsePositiveRate(bits/held, sizing.DefaultBlockBits, segments.Hashes)
		}}
	}}
	if loads == nil {
		loads = slices.Repeat([]uint64{c.Keys / uint64(c.Partitions)}, c.Partitions)
	}
	t, total := Theory{Slack: 0.01}, 0.0
	for _, load := range loads {
		total += float64(load)
	}
	for _, load := range loads {
		part.add(&t, float64(load), float64(load)/total)
	}
	return t
}
