package bloomtest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
	"github.com/bloomfrontier/crawler/sizing"
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
// size for n keys differs from the mean by chance: see sizing.RateSpread. Of a
// filter in layers, n is the keys of the one that has most of the rate.
func Probe(t *testing.T, filter bloomstore.Filter, p float64, n, probes uint64) {
	t.Helper()
	if err := newTrial(t).probe(t.Context(), filter, p, n, probes); err != nil {
		t.Error(err)
	}
}

func (t *trial) probe(ctx context.Context, filter bloomstore.Filter, p float64, n, probes uint64) error {
	hits, err := bloomrate.Probe(ctx, filter, bloomrate.RandomKeys(t.rng), probes)
	if err != nil {
		return err
	}
	m, k := sizing.OptimalBits(n, p)
	spread, _ := sizing.RateSpread(float64(n), 1, m, k)
	rate, off := float64(hits)/float64(probes), bloomrate.Deviation(hits, probes, p, spread)
	t.logf("claimed %d of %d probes, a rate of %.4g, %+.2fσ from %.4g", hits, probes, rate, off, p)
	if math.Abs(off) > 5 {
		return fmt.Errorf("false-positive rate %.4g with %d keys (%d of %d probes), %+.1fσ from %.4g, want within 5σ",
			rate, n, hits, probes, off, p)
	}
	return nil
}

// fill adds n random keys.
func (t *trial) fill(ctx context.Context, filter bloomstore.Filter, n uint64) error {
	_, err := bloomrate.Fill(ctx, filter, bloomrate.RandomKeys(t.rng), n)
	return err
}
