package record

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"slices"
)

// An entry contains the parts of a line that decide whether the line is exported. Entries are
// sorted by item and round, then by lease, then by kind.
const (
	entryLease = 20 // offset of the lease, after fingerprint and round
	entryKind  = 36
	entryTime  = 37
	entryBytes = 45
)

const (
	kindPending = iota // has a zero lease, so it is the first of its item and round
	kindVoid
	kindRecord
	kindEdges
)

// appendEntry appends the entry of a line.
func (l *leasedLine) appendEntry(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(append(b, l.Item[:]...), l.Round)
	b = append(append(b, l.lease[:]...), l.kind)
	return binary.BigEndian.AppendUint64(b, uint64(l.fetched))
}

// decide decides for each record in s whether the record is exported. All records of an item
// are in the same share, so the shares do not depend on each other.
func (x *export) decide(s *exportShare) error {
	text, err := s.all()
	if err != nil {
		return err
	}
	all := entries(text)
	indexes := all.sorted()
	exported := make([]bool, len(indexes))
	for len(indexes) > 0 {
		same := all.run(indexes, entryLease)
		x.choose(all, indexes[:same], exported)
		indexes = indexes[same:]
	}
	return s.answer(all, exported, x.wanted)
}

// choose selects the record that is exported for an item and round. The indexes are those
// of the sorted entries of that item and round.
func (x *export) choose(all entries, indexes []uint32, exported []bool) {
	pending := all.kind(indexes[0]) == kindPending
	chosen, found := uint32(0), false
	var chosenEdges []uint32 // links that were written under the lease of the chosen record
	var left uint64          // records that were not taken back
	for len(indexes) > 0 {
		lease := all.run(indexes, entryKind)
		records, edges := all.firstOf(indexes[:lease], kindRecord), all.firstOf(indexes[:lease], kindEdges)
		n := uint64(edges - records)
		switch {
		case n == 0: // a void line whose record was lost, or a pending item
		case records > 0 && all.kind(indexes[0]) == kindVoid:
			x.sums.Void += n
		default:
			left += n
			// The leases are in ascending order, so the last of several records with
			// equal times is kept.
			if first := indexes[records]; !found || all.fetched(first) >= all.fetched(chosen) {
				chosen, found, chosenEdges = first, true, indexes[edges:lease]
			}
		}
		indexes = indexes[lease:]
	}
	switch {
	case pending:
		x.sums.Pending += left
	case found:
		exported[chosen] = true
		all.chooseEdges(chosenEdges, exported)
		x.sums.Records++
		x.sums.Repeated += left - 1
	}
}

// chooseEdges selects each part (PageLinks.Part) of a page's links once. If a record was
// appended twice under one lease, the journal has the links of the page twice.
func (e entries) chooseEdges(indexes []uint32, exported []bool) {
	part := int64(0)
	for _, i := range indexes {
		if e.fetched(i) == part {
			exported[i] = true
			part++
		}
	}
}

// answer replaces the entries in the file of a share by one byte for each entry of the
// given kind. The byte is 1 if the line of the entry is exported, and 0 otherwise.
func (s *exportShare) answer(all entries, exported []bool, kind byte) error {
	if err := s.file.Truncate(0); err != nil {
		return err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for i := range all.len() {
		if all.kind(uint32(i)) != kind {
			continue
		}
		answer := byte(0)
		if exported[i] {
			answer = 1
		}
		_ = s.WriteByte(answer) // the writer keeps its error for Flush
	}
	var err error
	s.answers, err = s.reader()
	return err
}

// entries are the entries of a share, in the order in which they were written.
type entries []byte

func (e entries) len() int           { return len(e) / entryBytes }
func (e entries) at(i uint32) []byte { return e[int(i)*entryBytes:][:entryBytes] }
func (e entries) kind(i uint32) byte { return e.at(i)[entryKind] }
func (e entries) fetched(i uint32) int64 {
	return int64(binary.BigEndian.Uint64(e.at(i)[entryTime:]))
}

// sorted returns the indexes of the entries in sorted order. Equal entries stay in the
// order in which they were written.
func (e entries) sorted() []uint32 {
	indexes := make([]uint32, e.len())
	for i := range indexes {
		indexes[i] = uint32(i)
	}
	slices.SortFunc(indexes, func(a, b uint32) int {
		return cmp.Or(bytes.Compare(e.at(a)[:entryTime], e.at(b)[:entryTime]), cmp.Compare(a, b))
	})
	return indexes
}

// firstOf returns the position in indexes of the first entry whose kind is at least the given
// kind. The indexes must be those of the sorted entries of one lease.
func (e entries) firstOf(indexes []uint32, kind byte) int {
	i, _ := slices.BinarySearchFunc(indexes, kind, func(i uint32, kind byte) int { return int(e.kind(i)) - int(kind) })
	return i
}

// run returns how many entries at the beginning of indexes have the same key. The key is
// the first keyBytes bytes of an entry.
func (e entries) run(indexes []uint32, keyBytes int) int {
	first, n := e.at(indexes[0])[:keyBytes], 1
	for n < len(indexes) && bytes.Equal(e.at(indexes[n])[:keyBytes], first) {
		n++
	}
	return n
}
