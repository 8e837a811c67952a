package dedup

import (
	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
)

// filterSet is a Bloom filter as a seen.
type filterSet struct {
	*membits.Filter
	count  uint64
	newest int    // layer
	size   uint64 // of all layers
}

// newFilterSet takes over a filter, with the keys that it has.
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
