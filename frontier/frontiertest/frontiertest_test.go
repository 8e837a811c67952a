package frontiertest

import (
	"context"
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
