// Package bloomrate measures how often a filter errs, and computes whether the difference
// from the expected rate can be chance.
//
// It owns counting and statistics. Package sizing computes the rate that a filter should
// have, and the caller chooses the keys.
package bloomrate

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// batch is the number of keys in one call of a filter.
const batch = 4096

// Random sets prints to random fingerprints and returns them. A real fingerprint is a keyed
// hash, so it looks random too.
func Random(rng *rand.Rand, prints []bloomstore.Fingerprint) []bloomstore.Fingerprint {
	for i := range prints {
		binary.LittleEndian.PutUint64(prints[i][:8], rng.Uint64())
		binary.LittleEndian.PutUint64(prints[i][8:], rng.Uint64())
	}
	return prints
}

// Keys sets prints to the next distinct keys, and returns them.
type Keys func(prints []bloomstore.Fingerprint) []bloomstore.Fingerprint

// RandomKeys returns Keys that are random fingerprints.
func RandomKeys(rng *rand.Rand) Keys {
	return func(prints []bloomstore.Fingerprint) []bloomstore.Fingerprint { return Random(rng, prints) }
}

// Fill adds the next n keys and returns how many of them the filter falsely claimed to
// contain already. If the keys were URLs, these would be lost.
func Fill(ctx context.Context, filter bloomstore.Filter, keys Keys, n uint64) (lost uint64, err error) {
	return inBatches(keys, n, false, func(prints []bloomstore.Fingerprint) ([]bool, error) {
		return filter.AddIfAbsent(ctx, prints)
	})
}

// Probe looks up the next n keys and returns how many of them the filter claims to contain.
func Probe(ctx context.Context, filter bloomstore.Filter, keys Keys, n uint64) (claimed uint64, err error) {
	return inBatches(keys, n, true, func(prints []bloomstore.Fingerprint) ([]bool, error) {
		return filter.Contains(ctx, prints)
	})
}

// inBatches calls lookUp with the next n keys, in batches. It returns how many answers are
// equal to wanted.
func inBatches(keys Keys, n uint64, wanted bool, lookUp func([]bloomstore.Fingerprint) ([]bool, error)) (count uint64, err error) {
	prints := make([]bloomstore.Fingerprint, min(n, batch))
	for left := n; left > 0; left -= uint64(len(prints)) {
		prints = prints[:min(uint64(len(prints)), left)]
		answers, err := lookUp(keys(prints))
		if err != nil {
			return count, err
		}
		for _, answer := range answers {
			if answer == wanted {
				count++
			}
		}
	}
	return count, nil
}

// minNormal is the number of expected events below which Deviation uses the Poisson
// distribution. For more events the tails of the normal distribution are close enough.
const minNormal = 1000

// Deviation returns how far the share of events, count/trials, is from the expected rate
// p, in standard deviations (σ) of a normal distribution. If few events are expected, their
// number does not have a normal distribution. Then Deviation returns the number of σ that a
// normal variable exceeds with the same probability. By chance, 5σ are exceeded in one
// direction or the other once in two million runs.
//
// spread is the standard deviation of the rate itself, relative to p. The rates of filters
// of one size differ by chance: see sizing.RateSpread. Deviation returns +Inf for an
// impossible event.
func Deviation(count, trials uint64, p, spread float64) float64 {
	mean := p * float64(trials)
	if mean < minNormal {
		return poissonDeviation(float64(count), mean) / math.Sqrt(1+mean*spread*spread)
	}
	return (float64(count) - mean) / math.Sqrt(mean*(1-p)+math.Pow(mean*spread, 2))
}

// poissonDeviation converts count, which has a Poisson distribution with this mean, to σ of
// a normal distribution. The tail that begins at count has the same probability as the tail
// of the normal distribution that begins at the returned deviation. The deviation is negative
// if count is below the mean.
func poissonDeviation(count, mean float64) float64 {
	switch {
	case count == mean:
		return 0
	case mean == 0:
		return math.Inf(1)
	case count > mean:
		return quantile(poissonTail(count, mean, +1))
	default:
		return -quantile(poissonTail(count, mean, -1))
	}
}

// quantile returns the number of σ that a normal variable exceeds with probability tail,
// or 0 for a tail of at least half. It bisects, because math.Erfcinv is not accurate for
// a tail below 1e-16.
func quantile(tail float64) float64 {
	lo, hi := 0.0, 40.0
	for range 60 {
		if mid := (lo + hi) / 2; math.Erfc(mid/math.Sqrt2)/2 > tail {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// poissonTail returns the probability of count and of all values beyond it in the direction
// of step, away from the mean.
func poissonTail(count, mean, step float64) float64 {
	factorial, _ := math.Lgamma(count + 1)
	term := math.Exp(count*math.Log(mean) - mean - factorial)
	sum := term
	for n := count; term > sum*1e-16 && (step > 0 || n > 0); n += step {
		if step > 0 {
			term *= mean / (n + 1)
		} else {
			term *= n / mean
		}
		sum += term
	}
	return sum
}
