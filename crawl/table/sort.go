package table

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

// SortKey is a column by which records are sorted. Records in which the column is empty come last.
type SortKey struct {
	Column     Column
	Descending bool
}

// SortKey returns the key for the name of a column, which can have a minus before it for descending
// order.
func (s *Schema) SortKey(text string) (SortKey, error) {
	name, descending := strings.CutPrefix(text, "-")
	c, err := s.Column(name)
	return SortKey{c, descending}, err
}

const (
	sortMemory = 64 << 20 // bytes of lines and keys that are sorted in memory
	entryBytes = 64       // memory of an entry, apart from its line and its key
	maxRuns    = 64       // runs that are merged at once
)

// Sorted calls the function read with lines in the order of the keys. Lines with equal keys keep their
// order. It keeps up to 64 MiB of lines in memory, and more in a file in the directory temp; empty means
// the system's. It returns the error of the function read.
func (s *Schema) Sorted(lines Lines, keys []SortKey, temp string, read func(sorted Lines) error) error {
	sorted, err := Table{Schema: s, Sort: keys, Temp: temp}.sorted(lines)
	if err != nil {
		return err
	}
	return errors.Join(read(sorted.lines()), sorted.close())
}

// sorted returns the selected records in the order of the keys. Records with equal keys keep their
// order.
func (t Table) sorted(source Lines) (*sorter, error) {
	s := &sorter{temp: t.Temp, limit: t.Limit, budget: sortMemory}
	t.Limit = 0 // the limit applies after sorting
	for r, err := range t.selected(source, true) {
		if err == nil {
			err = s.add(appendKey(nil, r, t.Sort), r.line)
		}
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	if err := s.finish(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// appendKey appends bytes whose order is the order of the records.
func appendKey(b []byte, r *row, keys []SortKey) []byte {
	for _, k := range keys {
		start := len(b)
		b = appendValue(b, k.Column.Kind, r.value(k.Column.Name))
		if k.Descending && b[start] != absent {
			for i := start; i < len(b); i++ {
				b[i] = ^b[i]
			}
		}
	}
	return b
}

// The first byte of a value in a key. Numbers come before texts.
const (
	aNumber = 0x01
	aText   = 0x02
	absent  = 0xff
)

func appendValue(b []byte, kind Kind, v any) []byte {
	if v == nil {
		return append(b, absent)
	}
	if kind == Time {
		if at, err := parseTime(plainText(v)); err == nil {
			b = binary.BigEndian.AppendUint64(append(b, aNumber), uint64(at.Unix())^1<<63)
			return binary.BigEndian.AppendUint32(b, uint32(at.Nanosecond()))
		}
	}
	if f, is := number(v); is && kind != String {
		bits := math.Float64bits(f + 0) // -0 becomes 0
		if bits>>63 == 1 {
			bits = ^bits
		} else {
			bits |= 1 << 63
		}
		return binary.BigEndian.AppendUint64(append(b, aNumber), bits)
	}
	b = append(b, aText)
	for _, c := range []byte(plainText(v)) {
		if b = append(b, c); c == 0 {
			b = append(b, 0xff)
		}
	}
	return append(b, 0, 0)
}

// sorter sorts lines by keys. It writes sorted runs to a temporary file when the lines in memory
// exceed the budget.
type sorter struct {
	temp   string
	limit  uint64 // only the first lines are wanted; 0 means all
	budget int

	entries []entry // not sorted, newer than all runs
	size    int     // of entries in memory
	file    *os.File
	end     int64 // length of the file
	runs    []run // older runs first
}

type entry struct{ key, line []byte }

// run is a part of the file.
type run struct{ from, length int64 }

func (s *sorter) add(key, line []byte) error {
	s.entries = append(s.entries, entry{key, bytes.Clone(line)})
	if s.size += len(key) + len(line) + entryBytes; s.size <= s.budget {
		return nil
	}
	s.sort()
	if s.size <= s.budget/2 {
		return nil
	}
	return s.spill()
}

// sort sorts the entries, and removes those beyond the limit.
func (s *sorter) sort() {
	slices.SortStableFunc(s.entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	if s.limit > 0 && uint64(len(s.entries)) > s.limit {
		clear(s.entries[s.limit:])
		s.entries = s.entries[:s.limit]
	}
	s.size = 0
	for _, e := range s.entries {
		s.size += len(e.key) + len(e.line) + entryBytes
	}
}

// spill writes the sorted entries to the file, as a run.
func (s *sorter) spill() error {
	err := s.write(func(yield func(entry, error) bool) {
		for _, e := range s.entries {
			if !yield(e, nil) {
				return
			}
		}
	})
	clear(s.entries)
	s.entries, s.size = s.entries[:0], 0
	if err == nil && len(s.runs) == maxRuns {
		old := s.runs
		s.runs = nil
		err = s.write(s.merged(old))
	}
	return err
}

// write appends a run to the file.
func (s *sorter) write(entries func(yield func(entry, error) bool)) error {
	if s.file == nil {
		file, err := os.CreateTemp(s.temp, "sort-*.tmp")
		if err != nil {
			return fmt.Errorf("table: sort: %w", err)
		}
		s.file = file
		_ = os.Remove(file.Name()) // close tries again
	}
	section := io.NewOffsetWriter(s.file, s.end)
	out, length, n := bufio.NewWriterSize(section, 256<<10), int64(0), uint64(0)
	for e, err := range entries {
		if err != nil {
			return err
		}
		var head []byte
		head = binary.AppendUvarint(binary.AppendUvarint(head, uint64(len(e.key))), uint64(len(e.line)))
		for _, part := range [][]byte{head, e.key, e.line} {
			_, _ = out.Write(part) // Flush returns the first error
			length += int64(len(part))
		}
		if n++; n == s.limit {
			break
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("table: sort: %w", err)
	}
	s.runs = append(s.runs, run{s.end, length})
	s.end += length
	return nil
}

// finish sorts what is left in memory.
func (s *sorter) finish() error {
	s.sort()
	if len(s.runs) == 0 || len(s.entries) == 0 {
		return nil
	}
	return s.spill()
}

// lines yields the lines in order. It can be called several times.
func (s *sorter) lines() Lines {
	return func(yield func([]byte, error) bool) {
		if len(s.runs) == 0 {
			for _, e := range s.entries {
				if !yield(e.line, nil) {
					return
				}
			}
			return
		}
		for e, err := range s.merged(s.runs) {
			if !yield(e.line, err) || err != nil {
				return
			}
		}
	}
}

// merged yields the entries of runs in order. An entry is valid until the next one is read.
func (s *sorter) merged(runs []run) func(yield func(entry, error) bool) {
	return func(yield func(entry, error) bool) {
		var heads heads
		for i, r := range runs {
			in := &reader{Reader: bufio.NewReaderSize(io.NewSectionReader(s.file, r.from, r.length), 64<<10), number: i}
			if err := in.next(); err == nil {
				heads = append(heads, in)
			} else if err != io.EOF {
				yield(entry{}, fmt.Errorf("table: sort: %w", err))
				return
			}
		}
		heap.Init(&heads)
		for len(heads) > 0 {
			if !yield(heads[0].entry, nil) {
				return
			}
			switch err := heads[0].next(); err {
			case nil:
				heap.Fix(&heads, 0)
			case io.EOF:
				heap.Pop(&heads)
			default:
				yield(entry{}, fmt.Errorf("table: sort: %w", err))
				return
			}
		}
	}
}

func (s *sorter) close() error {
	if s.file == nil {
		return nil
	}
	_ = os.Remove(s.file.Name())
	return s.file.Close()
}

// reader reads the entries of a run.
type reader struct {
	*bufio.Reader
	number int // of the run
	entry  entry
}

// next reads the next entry. It returns io.EOF at the end of the run.
func (r *reader) next() error {
	key, err := binary.ReadUvarint(r)
	if err != nil {
		return err
	}
	line, err := binary.ReadUvarint(r)
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	both := slices.Grow(r.entry.key[:0], int(key+line))[:key+line]
	if _, err := io.ReadFull(r, both); err != nil {
		return io.ErrUnexpectedEOF
	}
	r.entry = entry{both[:key], both[key:]}
	return nil
}

// heads are the runs that are merged, as a heap by their next entry. Of equal keys, that of the
// older run is first.
type heads []*reader

func (h heads) Len() int { return len(h) }
func (h heads) Less(i, j int) bool {
	order := bytes.Compare(h[i].entry.key, h[j].entry.key)
	return order < 0 || order == 0 && h[i].number < h[j].number
}
func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)   { *h = append(*h, x.(*reader)) }
func (h *heads) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
