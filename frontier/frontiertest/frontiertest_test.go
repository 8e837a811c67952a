package frontiertest

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// openMemory opens a Memory as the suite asks for it.
func openMemory(opt Options) *Memory {
	cfg := MemoryConfig{
		Delay: opt.Delay, LeaseTTL: opt.LeaseTTL, MaxPerHost: opt.MaxPerHost, Now: opt.Now, Output: opt.Output,
	}
	if opt.FilterKeys > 0 {
		cfg.Filter = &tinyFilter{bits: bloom.NewWithEstimates(uint(opt.FilterKeys), 0.01)}
	}
	return NewMemory(cfg)
}

func TestMemory(t *testing.T) {
	Run(t, func(_ *testing.T, opt Options) Crawl { return openMemory(opt) })
}

// tinyFilter is a Bloom filter that the cases overfill. Memory's mutex guards it.
type tinyFilter struct{ bits *bloom.BloomFilter }

func (f *tinyFilter) AddIfAbsent(_ context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	added := make([]bool, len(prints))
	for i, print := range prints {
		added[i] = !f.bits.TestOrAdd(print[:])
	}
	return added, nil
}

func (f *tinyFilter) Contains(_ context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	known := make([]bool, len(prints))
	for i, print := range prints {
		known[i] = f.bits.Test(print[:])
	}
	return known, nil
}

var (
	seed  = flag.Uint64("seed", 0, "replay the random run with this seed; 0: a new one")
	proof = flag.Bool("proof", false, "many long random runs")
)

func TestMemoryModel(t *testing.T) {
	runs, steps := 20, 500
	if *proof {
		runs, steps = 500, 5000
	}
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1 << 48)
	} else {
		runs = 1
	}
	for i := range runs {
		Model(t, func(_ *testing.T, opt Options) Crawl { return openMemory(opt) }, first+uint64(i), steps)
		if t.Failed() {
			break
		}
	}
}
