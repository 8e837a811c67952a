package dedup

import (
	"encoding/binary"
	"math/bits"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// seen is a set of fingerprints. It is not safe for concurrent use.
type seen interface {
	// add records fp and reports whether it was absent.
	add(fp bloomstore.Fingerprint) (added bool)
	// keys returns how many were absent.
	keys() uint64
	// bytes returns the memory that the set takes.
	bytes() uint64
}

// exactSet is a set of fingerprints without errors: hash tables with linear probing,
// 20 to 25 bytes a key.
//
// It consists of many small tables, so that the copy of a growing table takes little
// memory.
type exactSet struct {
	tables [256]table
	count  uint64
	slots  uint64 // of all tables
}

// table is an ordered hash table with open addressing: the first slot that is tried
// grows with the first eight bytes of a fingerprint, so growing the table reads and
// writes memory from front to back.
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
	t := &s.tables[fp[printBytes-1]] // the slot depends on the first bytes
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

func (s *exactSet) keys() uint64  { return s.count }
func (s *exactSet) bytes() uint64 { return s.slots * uint64(printBytes) }

// put stores fp unless it is there. The table must have a free slot.
func (t *table) put(fp bloomstore.Fingerprint) bool {
	start, _ := bits.Mul64(binary.LittleEndian.Uint64(fp[:8]), uint64(len(t.slots)))
	for i := int(start); ; {
		switch t.slots[i] {
		case fp:
			return false
		case bloomstore.Fingerprint{}:
			t.slots[i] = fp
			return true
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
}

// grow makes the table a quarter larger and returns by how many slots. It grows in
// small steps, because the old table is garbage for a while.
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
