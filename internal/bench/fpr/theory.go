package fpr

import (
	"math"
	"slices"

	"github.com/bloomfrontier/crawler/sizing"
)

// Theory is the predicted behaviour of a set. A set claims a key if it answers that it
// contains the key.
type Theory struct {
	FPR  Rate // rate at which new keys are claimed after all keys were offered
	Lost Rate // share of the offered keys that were claimed although they were new
	// Slack is the relative error of the formulas.
	Slack float64
}

// Rate is the distribution of a rate of events over all sets with the same structure. The
// rate of one set differs from the mean by chance, more so if the set is small.
type Rate struct {
	Mean      float64
	Variance  float64 // of the rates of sets
	Asymmetry float64 // third central moment of the rates of sets
}

// add adds the rate of an independent part, multiplied by weight. See
// sizing.RateSpread.
func (r *Rate) add(weight, mean, deviation, skewness float64) {
	sigma := weight * mean * deviation
	r.Mean += weight * mean
	r.Variance += sigma * sigma
	r.Asymmetry += skewness * sigma * sigma * sigma
}

// spread returns the standard deviation of the rates of sets, relative to their mean.
func (r Rate) spread() float64 {
	if r.Mean == 0 {
		return 0
	}
	return math.Sqrt(r.Variance) / r.Mean
}

// skewed reports whether the number of events in the given number of trials is
// distributed too asymmetrically to be judged by σ. This is the case for sets with
// small parts. With a skewness of 0.1, one figure in half a million exceeds 5σ (by the
// Cornish-Fisher expansion). With a skewness of 0.3, one in ten thousand does.
func (r Rate) skewed(trials uint64) bool {
	n := float64(trials)
	return n*n*n*r.Asymmetry > 0.1*math.Pow(n*r.Mean+n*n*r.Variance, 1.5)
}

// layer is the theory of one layer of a chain. The layer consists of equal parts with the
// given number of bits each.
type layer struct {
	room        float64 // number of offered keys after which the layer is full
	parts, bits uint64
	hashes      uint
	rate        func(held float64) float64 // false-positive rate after the given number of offered keys; this number is at least 1
}

// chain is the theory of a set that adds layers.
type chain struct {
	Case   // Capacity is that of the first layer
	layout func(p float64, keys uint64) layer
	layers []layer // layers that were computed so far
}

func (c *chain) layer(number int) layer {
	for number == len(c.layers) {
		plan := sizing.LayerAt(number, c.Capacity, c.FPR, c.Growth)
		keys := plan.Capacity
		if c.Growth {
			keys = plan.Offered()
		}
		c.layers = append(c.layers, c.layout(plan.FPR, keys))
	}
	return c.layers[number]
}

// add adds the rates of one chain, multiplied by weight, to a theory. The rates are the
// chain's false-positive rate after the given number of offered keys, and the share of
// these keys that were false positives when they were offered. A key is tested against
// all layers that exist when it is offered, and is added to the newest one.
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

// meanRate returns the mean of a layer's rate while the number of offered keys grows from
// 0 to the given number. It uses Simpson's rule. The rate is approximately a power of the
// number of keys. For a power, the rule with 64 intervals has a relative error of 1e-4.
func meanRate(l layer, keys float64) float64 {
	const intervals = 64
	sum := l.rate(keys) // the rate at 0 is 0
	for i := 1; i < intervals; i++ {
		weight := 2 + 2*float64(i%2)
		sum += weight * l.rate(keys*float64(i)/intervals)
	}
	return sum / (3 * intervals)
}

func memoryTheory(c Case, _ []uint64) Theory {
	whole := chain{Case: c, layout: func(p float64, keys uint64) layer {
		bits, k := sizing.ShardedBits(keys, p, sizing.DefaultShards)
		return layer{float64(keys), sizing.DefaultShards, bits, k, func(held float64) float64 {
			return sizing.ShardedFalsePositiveRate(uint64(math.Round(held)), sizing.DefaultShards, bits, k)
		}}
	}}
	t := Theory{Slack: 0.002}
	whole.add(&t, float64(c.Keys), 1)
	return t
}

// redisTheory is the theory of redisbits. loads are the numbers of keys of the partitions;
// nil means the same number in each. The slack is the error that
// sizing.ExactBlockedFalsePositiveRate documents.
func redisTheory(c Case, loads []uint64) Theory {
	each := float64(c.Capacity) / float64(c.Partitions)
	part := chain{Case: c, layout: func(p float64, keys uint64) layer {
		segments := sizing.RedisSegments(keys, p, sizing.DefaultBlockBits)
		bits := segments.BitsPerKey * float64(keys)
		return layer{float64(keys), max(uint64(bits)/sizing.DefaultBlockBits, 1), sizing.DefaultBlockBits, segments.Hashes, func(held float64) float64 {
			return sizing.ExactBlockedFalsePositiveRate(bits/held, sizing.DefaultBlockBits, segments.Hashes)
		}}
	}}
	part.Capacity = uint64(math.Ceil(each + 4*math.Sqrt(each))) // see redisbits.Config
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
