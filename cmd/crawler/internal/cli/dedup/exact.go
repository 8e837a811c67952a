package dedup

import (
	"encoding/binary"
	"math/bits"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// seen is a set of fingerprints. It is used by one goroutine.
type seen interface {
	// add records fp and reports whether it was absent.
	add(fp bloomstore.Fingerprint) (added bool)
	// keys returns how many were absent.
	keys() uint64
	// bytes returns the memory that the set takes.
	bytes() uint64
}

// exactSet is a set of fingerprints that makes no error: open addressing with
// linear probing, 20 to 25 bytes a key.
//
// It is many small tables rather than a large one, so that what is copied and
// thrown away when one grows is a small part of the whole.
type exactSet struct {
	tables [256]table
	count  uint64
	slots  uint64 // of all tables
}

// table is open addressing in order: a fingerprint's home grows with its first
// eight bytes, so growing reads and writes memory from front to back.
type table struct {
	slots []bloomstore.Fingerprint // the zero fingerprint: free
	used  int
}

const (
	firstSlots = 16
	printBytes = len(bloomstore.Fingerprint{})
)

func (s *exactSet) add(fp bloomstore.Fingerprint) bool {
	if fp == (bloomstore.Fingerprint{}) {
		fp[0] = 1 // zero marks a free slot; nothing else has a chance of 2⁻¹²⁷
	}
	t := &s.tables[fp[printBytes-1]] // home takes the first bytes
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

// put stores fp unless it is there. There is a free slot.
func (t *table) put(fp bloomstore.Fingerprint) bool {
	home, _ := bits.Mul64(binary.LittleEndian.Uint64(fp[:8]), uint64(len(t.slots)))
	for i := int(home); ; {
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

// grow makes the table a quarter larger and returns by how many slots. Little
// by little, because the slots of the old table are garbage for a while.
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
