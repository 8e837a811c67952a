package dedup

import (
	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
)

// filterSet implements seen with a Bloom filter.
type filterSet struct {
	*membits.Filter
	count  uint64
	newest int    // index of the newest layer
	size   uint64 // bytes of all layers
}

// newFilterSet returns a set that uses f and contains its keys.
func newFilterSet(f *membits.Filter) *filterSet {
	stats := f.Stats()
	return &filterSet{Filter: f, count: stats.Keys, newest: len(stats.Layers) - 1, size: stats.Bytes}
}

func (s *filterSet) add(fp bloomstore.Fingerprint) bool {
	layer, added := s.Add(fp)
	if !added {
		return false
	}
	s.count++
	if layer > s.newest {
		s.newest, s.size = layer, s.Stats().Bytes
	}
	return true
}

func (s *filterSet) keys() uint64  { return s.count }
func (s *filterSet) bytes() uint64 { return s.size }
