package bloomtest

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
	"github.com/bloomfrontier/crawler/sizing"
)

// FPR measures the false-positive rate of a filter that the function open makes for n
// keys and the rate p. It offers n random keys and then calls Probe. Some of the n
// keys are false positives and are not added. The rate is p nevertheless, because
// their bits are set already.
func FPR(t *testing.T, open func(n uint64, p float64) bloomstore.Filter, p float64, n, probes uint64) {
	t.Helper()
	trial := newTrial(t, open(n, p))
	if err := errors.Join(trial.fill(n), trial.probe(p, n, probes)); err != nil {
		t.Error(err)
	}
}

// Probe looks up random keys, as many as probes says, in a filter that has about n
// other keys. It fails t if the share of keys that the filter claims is not within
// 5σ of p. For a correct filter that happens once in two million runs. The argument
// probes should be 100/p or more.
//
// σ includes two kinds of chance: how many probes the filter claims, and how many bits its
// keys happen to set. The second is computed for a filter of optimal size for n keys: see
// sizing.RateSpread. For a filter with several layers, n is the number of keys in the layer
// that contributes most to the rate.
func Probe(t *testing.T, filter bloomstore.Filter, p float64, n, probes uint64) {
	t.Helper()
	if err := newTrial(t, filter).probe(p, n, probes); err != nil {
		t.Error(err)
	}
}

func (t *trial) probe(p float64, n, probes uint64) error {
	hits, err := bloomrate.Probe(t.Ctx, t.Filter, bloomrate.RandomKeys(t.rng), probes)
	if err != nil {
		return err
	}
	m, k := sizing.OptimalBits(n, p)
	spread := sizing.RateSpread(float64(n), 1, m, k)
	rate, off := float64(hits)/float64(probes), bloomrate.Deviation(hits, probes, p, spread)
	t.logf("claimed %d of %d probes, a rate of %.4g, %+.2fσ from %.4g", hits, probes, rate, off, p)
	if math.Abs(off) > 5 {
		return fmt.Errorf("false-positive rate %.4g with %d keys (%d of %d probes), %+.1fσ from %.4g, want within 5σ",
			rate, n, hits, probes, off, p)
	}
	return nil
}

// fill adds n random keys.
func (t *trial) fill(n uint64) error {
	_, err := bloomrate.Fill(t.Ctx, t.Filter, bloomrate.RandomKeys(t.rng), n)
	return err
}
