package dedup

import (
	"encoding/binary"
	"math/bits"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
)

// seen is a set of fingerprints. It is not safe for concurrent use.
type seen interface {
	// add records fp and reports whether it was absent.
	add(fp bloomstore.Fingerprint) (added bool)
	// keys returns the number of fingerprints in the set.
	keys() uint64
	// bytes returns the memory that the set takes.
	bytes() uint64
}

// exactSet is a set of fingerprints without false positives. It takes 20 to 25 bytes a
// key.
//
// It consists of many small hash tables. A table is copied when it grows, and the copy of
// a small table takes little memory.
type exactSet struct {
	tables [256]table
	count  uint64
	slots  uint64 // of all tables
}

// table is a hash table with linear probing. The index of the first slot that is tried
// increases with the first eight bytes of a fingerprint. So the slots are almost ordered,
// and growing the table reads and writes memory from front to back.
type table struct {
	slots []bloomstore.Fingerprint // the zero fingerprint marks a free slot
	used  int
}

const (
	firstSlots = 16
	printBytes = len(bloomstore.Fingerprint{})
)

func (s *exactSet) add(fp bloomstore.Fingerprint) bool {
	if fp == (bloomstore.Fingerprint{}) {
		fp[0] = 1 // zero marks a free slot; a collision has a probability of 2⁻¹²⁷
	}
	t := &s.tables[fp[printBytes-1]] // the last byte, because the slot depends on the first bytes
	if 5*t.used >= 4*len(t.slots) {
		s.slots += uint64(t.grow())
	}
	if !t.put(fp) {
		return false
	}
	t.used++
	s.count++
	return true
}

// has reports whether the set has fp.
func (s *exactSet) has(fp bloomstore.Fingerprint) bool {
	if fp == (bloomstore.Fingerprint{}) {
		fp[0] = 1
	}
	t := &s.tables[fp[printBytes-1]]
	return len(t.slots) > 0 && t.slots[t.find(fp)] == fp
}

func (s *exactSet) keys() uint64  { return s.count }
func (s *exactSet) bytes() uint64 { return s.slots * uint64(printBytes) }

// put stores fp unless the table already contains it. The table must have a free slot.
func (t *table) put(fp bloomstore.Fingerprint) bool {
	i := t.find(fp)
	if t.slots[i] == fp {
		return false
	}
	t.slots[i] = fp
	return true
}

// find returns the index of the slot that has fp, or of the free slot in which fp belongs.
func (t *table) find(fp bloomstore.Fingerprint) int {
	start, _ := bits.Mul64(binary.LittleEndian.Uint64(fp[:8]), uint64(len(t.slots)))
	i := int(start)
	for t.slots[i] != fp && t.slots[i] != (bloomstore.Fingerprint{}) {
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	return i
}

// grow makes the table a quarter larger and returns the number of new slots. The step is
// small because the old table stays in memory until garbage is collected.
func (t *table) grow() int {
	old := t.slots
	more := max(firstSlots, len(old)/4)
	t.slots = make([]bloomstore.Fingerprint, len(old)+more)
	for _, fp := range old {
		if fp != (bloomstore.Fingerprint{}) {
			t.put(fp)
		}
	}
	return more
}

// filterSet implements seen with a Bloom filter.
type filterSet struct {
	*membits.Filter
}

// newFilterSet returns a set that uses f and contains its keys.
func newFilterSet(f *membits.Filter) *filterSet {
	return &filterSet{f}
}

func (s *filterSet) add(fp bloomstore.Fingerprint) bool {
	_, added := s.Add(fp)
	return added
}

func (s *filterSet) keys() uint64  { return s.Keys() }
func (s *filterSet) bytes() uint64 { return s.Bytes() }
