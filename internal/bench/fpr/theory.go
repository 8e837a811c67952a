package fpr

import (
	"math"

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
	Mean     float64
	Variance float64 // of the rates of sets
}

// add adds the rate of an independent part. See sizing.RateSpread.
func (r *Rate) add(mean, spread float64) {
	r.Mean += mean
	r.Variance += math.Pow(mean*spread, 2)
}

// spread returns the standard deviation of the rates of sets, relative to their mean.
func (r Rate) spread() float64 {
	if r.Mean == 0 {
		return 0
	}
	return math.Sqrt(r.Variance) / r.Mean
}

// uneven reports whether the number of events in the given number of trials is
// distributed too asymmetrically to be judged by σ. This is the case for sets with small
// parts, whose rates have about a log-normal distribution, with a skewness of three times
// its spread. With a skewness of 0.1, one figure in half a million exceeds 5σ (by the
// Cornish-Fisher expansion). With a skewness of 0.3, one in ten thousand does.
func (r Rate) uneven(trials uint64) bool {
	mean := float64(trials) * r.Mean
	variance := float64(trials) * float64(trials) * r.Variance
	return 3*r.spread()*math.Pow(variance/(mean+variance), 1.5) > 0.1
}

// layer is the theory of one layer of a set. The layer consists of equal parts with the
// given number of bits each.
type layer struct {
	room        float64 // number of offered keys after which the layer is full
	parts, bits uint64
	hashes      uint
	rate        func(held float64) float64 // false-positive rate after the given number of offered keys; this number is at least 1
}

// chain is the theory of a set that adds layers. All partitions of a set have the same
// layers and the same number of keys.
type chain struct {
	Case   // Capacity is that of the first layer
	layout func(p float64, keys uint64) layer
}

func (c *chain) layer(number int) layer {
	plan := sizing.LayerAt(number, c.Capacity, c.FPR, c.Growth)
	keys := plan.Capacity
	if c.Growth {
		keys = plan.Offered()
	}
	return c.layout(plan.FPR, keys)
}

// theory returns the rates after the given number of keys was offered to each partition. A
// key is tested against all layers that exist when it is offered, and is added to the newest
// one. The slack is that of Theory.
func (c *chain) theory(offered, partitions, slack float64) Theory {
	t := Theory{Slack: slack}
	passes := 1.0 // probability that no earlier layer claims a new key
	for number, rest := 0, offered; rest > 0; number++ {
		l, held := c.layer(number), rest
		if c.Growth {
			held = min(rest, l.room)
		}
		rest -= held
		rate := l.rate(held)
		spread := sizing.RateSpread(held, l.parts, l.bits, l.hashes) / math.Sqrt(partitions)
		t.FPR.add(passes*rate, spread)
		t.Lost.add(passes*(held*meanRate(l, held)+rest*rate)/offered, spread)
		passes *= 1 - rate
	}
	return t
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

func memoryTheory(c Case) Theory {
	whole := chain{Case: c, layout: func(p float64, keys uint64) layer {
		bits, k := sizing.ShardedBits(keys, p, sizing.DefaultShards)
		return layer{float64(keys), sizing.DefaultShards, bits, k, func(held float64) float64 {
			return sizing.ShardedFalsePositiveRate(uint64(math.Round(held)), sizing.DefaultShards, bits, k)
		}}
	}}
	return whole.theory(float64(c.Keys), 1, 0.002)
}

// redisTheory is the theory of redisbits. The slack is the error that
// sizing.ExactBlockedFalsePositiveRate documents.
func redisTheory(c Case) Theory {
	part := chain{Case: c, layout: func(p float64, keys uint64) layer {
		segments := sizing.RedisSegments(keys, p, sizing.DefaultBlockBits)
		bits := segments.BitsPerKey * float64(keys)
		return layer{float64(keys), max(uint64(bits)/sizing.DefaultBlockBits, 1), sizing.DefaultBlockBits, segments.Hashes, func(held float64) float64 {
			return sizing.ExactBlockedFalsePositiveRate(bits/held, sizing.DefaultBlockBits, segments.Hashes)
		}}
	}}
	part.Capacity = sizing.SizeRedis(sizing.RedisPlan{Keys: c.Capacity, FPR: c.FPR, Growth: c.Growth, Partitions: partitions}).PartitionKeys
	return part.theory(float64(c.Keys)/partitions, partitions, 0.01)
}
