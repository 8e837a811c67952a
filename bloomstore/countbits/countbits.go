// Package countbits keeps a bloomstore.Filter in memory from which keys can be deleted: a
// counting Bloom filter (Fan, Cao, Almeida, Broder, "Summary Cache", IEEE/ACM Transactions on
// Networking 8(3), 2000).
//
// It has a counter of 4 bits where package membits has a bit, so it takes four times the memory.
// It owns counters, their saturation and deletion. It does not grow and writes no file. Sizes
// come from package sizing. Crawls do not use it: they never delete a key.
package countbits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/internal/positions"
	"github.com/bloomfrontier/crawler/sizing"
)

// Config describes a Filter. The zero value describes a filter for ten million keys at a
// false-positive rate of 1e-6, which takes 140 MB.
type Config struct {
	Capacity uint64  // keys that the filter has at one time; 0 means 10 million
	FPR      float64 // highest false-positive rate with Capacity keys, in [1e-12, 1); 0 means 1e-6
	Shards   int     // parts, each with a lock: a power of two up to 256; 0 means 64
}

const (
	maxShards = 256
	maxKeys   = 1 << 40 // with this limit, no computed size overflows
	minFPR    = 1e-12
)

// withDefaults returns c with zero fields filled in, or all its faults.
func (c Config) withDefaults() (Config, error) {
	c.Capacity = cmp.Or(c.Capacity, 10_000_000)
	c.FPR = cmp.Or(c.FPR, 1e-6)
	c.Shards = cmp.Or(c.Shards, sizing.DefaultShards)
	var errs []error
	if c.Capacity > maxKeys {
		errs = append(errs, fmt.Errorf("Capacity is %d, want at most %d", c.Capacity, uint64(maxKeys)))
	}
	if !(c.FPR >= minFPR && c.FPR < 1) { // NaN is refused, too
		errs = append(errs, fmt.Errorf("FPR is %g, want one from %g to below 1", c.FPR, minFPR))
	}
	if c.Shards < 1 || c.Shards > maxShards || bits.OnesCount(uint(c.Shards)) != 1 {
		errs = append(errs, fmt.Errorf("Shards is %d, want a power of two from 1 to %d", c.Shards, maxShards))
	}
	return c, errors.Join(errs...)
}

// Filter is a bloomstore.Filter in memory from which keys can be deleted. It is safe for
// concurrent use: each call handles each of its fingerprints in one step.
//
// A counter that has reached 15 is saturated: it keeps this value for ever, because the filter
// cannot know how many keys share it. So saturation never removes a key, but some absent keys are
// claimed for ever. It is rare: see sizing.SaturatedCounters.
type Filter struct {
	config Config
	layout sizing.CountingLayout
	choose uint // bits of a fingerprint that choose its shard: log2 of Shards
	shards []shard
}

var _ bloomstore.Filter = (*Filter)(nil)

// New returns an empty filter. The error names every fault of config.
func New(config Config) (*Filter, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("countbits: %w", err)
	}
	f := &Filter{
		config: config,
		layout: sizing.SizeCounting(config.Capacity, config.FPR, uint64(config.Shards)),
		choose: uint(bits.TrailingZeros(uint(config.Shards))),
		shards: make([]shard, config.Shards),
	}
	for i := range f.shards {
		f.shards[i].counters = newCounters(f.layout.ShardCounters)
	}
	return f, nil
}

// AddIfAbsent implements bloomstore.Filter. It returns an error only if ctx has ended before
// the call, and then adds nothing.
//
// With more than Capacity keys the false-positive rate rises above the configured one.
func (f *Filter) AddIfAbsent(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	return f.each(ctx, "add", prints, (*shard).add)
}

// Contains implements bloomstore.Filter. It returns an error only if ctx has ended before the
// call.
func (f *Filter) Contains(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	return f.each(ctx, "look up", prints, (*shard).has)
}

// Delete removes prints and reports, index for index, which of them were removed. It refuses,
// with false, a fingerprint that the filter does not claim to contain. If prints contains a
// fingerprint several times, or if several callers delete one at the same time, only the first
// is removed, except with the probability of a false positive. Delete returns an error only if
// ctx has ended before the call, and then removes nothing.
//
// The caller must delete only fingerprints for which AddIfAbsent returned true, each at most
// once. The filter cannot check this: if it falsely claims to contain a fingerprint, Delete
// removes parts of other keys, and Contains can then return false for these keys. A caller that
// does not know which keys were added needs an exact set of them.
func (f *Filter) Delete(ctx context.Context, prints []bloomstore.Fingerprint) (deleted []bool, err error) {
	return f.each(ctx, "delete", prints, (*shard).remove)
}

// each calls do for each of the prints, with the lock of its shard, and returns the answers.
func (f *Filter) each(ctx context.Context, verb string, prints []bloomstore.Fingerprint,
	do func(s *shard, draws positions.Draws, hashes uint) bool) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s %d fingerprints: %w", verb, len(prints), err)
	}
	answers := make([]bool, len(prints))
	for i := range prints {
		number, draws := positions.Split(prints[i], f.choose)
		s := &f.shards[number]
		s.Lock()
		answers[i] = do(s, draws, f.layout.Hashes)
		s.Unlock()
	}
	return answers, nil
}

// Stats describe a filter. Keys can be added and deleted while the Stats are collected.
type Stats struct {
	Keys      uint64  // keys added and not deleted
	Capacity  uint64  // keys that the filter is sized for
	Counters  uint64  // of all shards
	Saturated uint64  // counters that have reached 15, and stay there
	Bytes     uint64  // memory of the counters
	Hashes    uint    // counters of one key
	Fill      float64 // share of the counters that is not 0
	FPR       float64 // probability that a key that was never added is claimed, computed from the fill
}

// Stats reads all counters, which takes some seconds for a gigabyte. It holds one lock at a time.
func (f *Filter) Stats() Stats {
	s := Stats{
		Capacity: f.config.Capacity, Bytes: f.layout.Bytes, Hashes: f.layout.Hashes,
		Counters: f.layout.Shards * f.layout.ShardCounters,
	}
	used := uint64(0)
	for i := range f.shards {
		shard := &f.shards[i]
		shard.Lock()
		nonzero, saturated := shard.counters.count()
		s.Keys += shard.keys
		shard.Unlock()
		used += nonzero
		s.Saturated += saturated
		s.FPR += claimRate(nonzero, f.layout) / float64(len(f.shards))
	}
	s.Fill = float64(used) / float64(s.Counters)
	return s
}

// shard is an independent counting filter behind a lock.
type shard struct {
	sync.Mutex
	counters counters
	keys     uint64
	_        [16]byte // fills a cache line, so that the locks of shards do not share one
}

// add adds the key of draws, unless has returns true for it. It reports whether the key was added.
func (s *shard) add(draws positions.Draws, hashes uint) bool {
	if s.has(draws, hashes) {
		return false
	}
	for range hashes {
		s.counters.increment(draws.Next(s.counters.len))
	}
	s.keys++
	return true
}

// has reports whether all counters of the key are above 0.
func (s *shard) has(draws positions.Draws, hashes uint) bool {
	for range hashes {
		if s.counters.get(draws.Next(s.counters.len)) == 0 {
			return false
		}
	}
	return true
}

// remove removes the key of draws if has returns true for it. It reports whether it was removed.
func (s *shard) remove(draws positions.Draws, hashes uint) bool {
	if !s.has(draws, hashes) {
		return false
	}
	for range hashes {
		s.counters.decrement(draws.Next(s.counters.len))
	}
	s.keys -= min(s.keys, 1)
	return true
}
