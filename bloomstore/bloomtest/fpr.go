package bloomtest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// FPR measures the false-positive rate of a filter that open makes for n keys at
// p: it adds n random keys and probes the filter; see Probe. The n keys include
// those that are lost while filling: their bits are all set already, which is
// what makes the rate after n keys p.
func FPR(t *testing.T, open func(n uint64, p float64) bloomstore.Filter, p float64, n, probes uint64) {
	t.Helper()
	trial, filter := newTrial(t), open(n, p)
	if err := trial.fill(t.Context(), filter, n); err != nil {
		t.Fatal(err)
	}
	if err := trial.probe(t.Context(), filter, p, n, probes); err != nil {
		t.Error(err)
	}
}

// Probe looks up random keys, probes of them, in a filter that holds about n
// others, and fails t unless p is within 5σ of the share that is claimed, on
// either side: a sound filter fails once in two million runs. probes should be
// 100/p or more.
//
// σ is that of the count, widened by how much the fill of one filter of optimal
// size differs from the mean by chance.
func Probe(t *testing.T, filter bloomstore.Filter, p float64, n, probes uint64) {
	t.Helper()
	if err := newTrial(t).probe(t.Context(), filter, p, n, probes); err != nil {
		t.Error(err)
	}
}

func (t *trial) probe(ctx context.Context, filter bloomstore.Filter, p float64, n, probes uint64) error {
	hits := uint64(0)
	batch := make([]bloomstore.Fingerprint, 4096)
	for left := probes; left > 0; left -= uint64(len(batch)) {
		batch = batch[:min(uint64(len(batch)), left)]
		known, err := filter.Contains(ctx, fillRandom(t.rng, batch))
		if err != nil {
			return err
		}
		for _, claimed := range known {
			if claimed {
				hits++
			}
		}
	}
	mean := p * float64(probes)
	sigma := math.Sqrt(mean*(1-p) + math.Pow(mean*fillSpread(p, n), 2))
	rate, off := float64(hits)/float64(probes), (float64(hits)-mean)/sigma
	t.logf("claimed %d of %d probes, a rate of %.4g, %+.2fσ from %.4g", hits, probes, rate, off, p)
	if math.Abs(off) > 5 {
		return fmt.Errorf("false-positive rate %.4g with %d keys (%d of %d probes), %+.1fσ from %.4g, want within 5σ",
			rate, n, hits, probes, off, p)
	}
	return nil
}

// fill adds n random keys.
func (t *trial) fill(ctx context.Context, filter bloomstore.Filter, n uint64) error {
	batch := make([]bloomstore.Fingerprint, 4096)
	for left := n; left > 0; left -= uint64(len(batch)) {
		batch = batch[:min(uint64(len(batch)), left)]
		if _, err := filter.AddIfAbsent(ctx, fillRandom(t.rng, batch)); err != nil {
			return err
		}
	}
	return nil
}

// fillSpread returns the standard deviation, relative to p, of the rates of
// filters with n keys. Half of the m bits are set, give or take
// √(m·e^(-λ)·(1-(1+λ)e^(-λ))) with λ = ln 2 (the variance of occupancy), and the
// rate is the k-th power of that share, k = log2(1/p), m = nk/ln 2.
func fillSpread(p float64, n uint64) float64 {
	k := max(-math.Log2(p), 1)
	m := float64(n) * k / math.Ln2
	return k * 2 * math.Sqrt((1-(1+math.Ln2)/2)/2/m)
}
