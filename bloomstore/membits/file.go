package membits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// docs/design/filter.md describes the file byte by byte. All integers are
// little-endian. A change of the layout, of the positions or of the sizes computed
// from Config needs a new fileVersion.
const (
	fileMagic   = "\x89MEMBIT\n"
	fileVersion = 1

	fixedBytes = 56 // of the header, before the table of layers
	entryBytes = 32 // of one layer in the table
	sumBytes   = 4
	maxLayers  = 41 // maximum number of layers, because maxKeys is 2⁴⁰
)

// header is the first part of a file.
type header struct {
	fixed
	layers []entry
}

// fixed is the part of a header before the table of layers.
type fixed struct {
	Magic           [8]byte
	Version, Shards uint32
	Tag             [16]byte
	Capacity        uint64
	FPR             float64
	Growth, Layers  uint32
}

// entry is one line of the header's table of layers.
type entry struct {
	Capacity, ShardBits, Keys uint64
	Hashes, _                 uint32
}

func (s shape) entry(keys uint64) entry {
	return entry{Capacity: s.capacity, ShardBits: s.shardBits, Hashes: uint32(s.hashes), Keys: keys}
}

// encode returns h without its checksum.
func (h header) encode() []byte {
	h.Layers = uint32(len(h.layers))
	b := make([]byte, 0, fixedBytes+len(h.layers)*entryBytes+sumBytes)
	b, _ = binary.Append(b, binary.LittleEndian, h.fixed) // fails only for types without a fixed size
	b, _ = binary.Append(b, binary.LittleEndian, h.layers)
	return b
}

// readHeader reads and checks everything before the bits. Before it verifies the checksum,
// it compares the magic bytes and the version, and checks the range of the number of layers.
// It uses no other value of the header before that.
func readHeader(r *sumReader) (h header, err error) {
	b := make([]byte, fixedBytes, fixedBytes+maxLayers*entryBytes)
	if err := r.read(b, "the header"); err != nil {
		return h, err
	}
	_, _ = binary.Decode(b, binary.LittleEndian, &h.fixed) // fails only if b is too short
	if magic := string(h.Magic[:]); magic != fileMagic {
		return h, lost("the file starts with %q, want %q: it is not the file of a filter", magic, fileMagic)
	}
	if h.Version != fileVersion {
		return h, fmt.Errorf("%w: the file has version %d of the layout, this program reads version %d",
			bloomstore.ErrParamsMismatch, h.Version, fileVersion)
	}
	if h.Layers < 1 || h.Layers > maxLayers {
		return h, lost("the header names %d layers, want 1 to %d", h.Layers, maxLayers)
	}
	table := b[fixedBytes : fixedBytes+h.Layers*entryBytes]
	if err := r.read(table, "the table of layers"); err != nil {
		return h, err
	}
	if err := r.check("the header"); err != nil {
		return h, err
	}
	h.layers = make([]entry, h.Layers)
	_, _ = binary.Decode(table, binary.LittleEndian, h.layers)
	return h, nil
}

// differ returns an ErrParamsMismatch that names every parameter of h that differs
// from the wanted one, or nil.
func (h header) differ(want Config, tag [16]byte) error {
	var faults []string
	note := func(name string, got, want any) {
		if got != want {
			faults = append(faults, fmt.Sprintf("%s is %v, want %v", name, got, want))
		}
	}
	note("tag", fmt.Sprintf("%x", h.Tag), fmt.Sprintf("%x", tag))
	note("Capacity", h.Capacity, want.Capacity)
	note("FPR", h.FPR, want.FPR)
	note("Growth", Growth(h.Growth), want.Growth)
	note("Shards", int(h.Shards), want.Shards)
	return mismatch(faults)
}

func mismatch(faults []string) error {
	if faults == nil {
		return nil
	}
	return fmt.Errorf("%w: in the file %s", bloomstore.ErrParamsMismatch, strings.Join(faults, "; "))
}

func lost(format string, args ...any) error {
	return fmt.Errorf("%w: %s", bloomstore.ErrFilterLost, fmt.Sprintf(format, args...))
}

// Read reads a filter that Snapshot.WriteTo has written. The arguments want and tag
// must be the config of that filter and the tag of the snapshot. The reader r must
// end after the filter.
//
// If the file is short or damaged, the error is an ErrFilterLost. If its version, config or
// tag differs, it is an ErrParamsMismatch. Both errors say what was found and what was
// expected. Errors of r are wrapped. Read allocates only the filter and one more
// sub-filter, even if the file names larger sizes.
func Read(r io.Reader, want Config, tag [16]byte) (*Filter, error) {
	f, err := newChainless(want)
	if err != nil {
		return nil, err
	}
	if err := f.readFrom(&sumReader{from: r}, tag); err != nil {
		return nil, fmt.Errorf("membits: read filter: %w", err)
	}
	return f, nil
}

func (f *Filter) readFrom(r *sumReader, tag [16]byte) error {
	h, err := readHeader(r)
	if err != nil {
		return err
	}
	if err := h.differ(f.config, tag); err != nil {
		return err
	}
	shapes, err := f.shapes(h.layers)
	if err != nil {
		return err
	}
	var chain []*layer
	for number, s := range shapes {
		l := &layer{shape: s}
		l.keys.Store(h.layers[number].Keys)
		for shard := range s.shardCount {
			words, err := r.words(s.bytes(), fmt.Sprintf("layer %d, shard %d", number, shard))
			if err != nil {
				return err
			}
			l.shards = append(l.shards, subFilter(words, s))
		}
		chain = append(chain, l)
	}
	if err := r.end(); err != nil {
		return err
	}
	f.chain.Store(&chain)
	return nil
}

// shapes returns the sizes of the layers as computed from f.config. It returns an
// error if the sizes in table differ.
func (f *Filter) shapes(table []entry) ([]shape, error) {
	var shapes []shape
	for number, got := range table {
		if number > 0 && !f.grows(number) {
			return nil, lost("the header names %d layers, want at most %d", len(table), number)
		}
		s := f.shape(number)
		if want := s.entry(got.Keys); got != want {
			return nil, mismatch([]string{fmt.Sprintf(
				"layer %d is for %d keys in sub-filters of %d bits with %d hashes, want %d, %d, %d", number,
				got.Capacity, got.ShardBits, got.Hashes, want.Capacity, want.ShardBits, want.Hashes)})
		}
		shapes = append(shapes, s)
	}
	return shapes, nil
}

// castagnoli is the table of the checksums, CRC-32C, which most processors compute in
// hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumReader reads the parts of a file and computes their checksum. A stored checksum
// covers all parts before it, but no earlier checksum, because the CRC of a message
// followed by its own CRC is the same for every message.
type sumReader struct {
	from io.Reader
	sum  uint32
	at   int64 // bytes read
	buf  []byte
}

// read fills b with the next part. The argument name is the name of the part in errors.
func (r *sumReader) read(b []byte, name string) error {
	if err := r.fill(b, name); err != nil {
		return err
	}
	r.sum = crc32.Update(r.sum, castagnoli, b)
	return nil
}

func (r *sumReader) fill(b []byte, what string) error {
	n, err := io.ReadFull(r.from, b)
	r.at += int64(n)
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return lost("the file ends at byte %d in %s, want %d bytes more", r.at, what, len(b)-n)
	case err != nil:
		return fmt.Errorf("at byte %d in %s: %w", r.at, what, err)
	}
	return nil
}

// check reads a stored checksum and compares it with the checksum of all parts so far.
func (r *sumReader) check(what string) error {
	var stored [sumBytes]byte
	if err := r.fill(stored[:], "the checksum of "+what); err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint32(stored[:]); got != r.sum {
		return lost("%s is damaged: its checksum before byte %d is %08x, want %08x", what, r.at, got, r.sum)
	}
	return nil
}

// words reads a part of n bytes and its checksum.
func (r *sumReader) words(n int, what string) ([]uint64, error) {
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	b := r.buf[:n]
	if err := r.read(b, what); err != nil {
		return nil, err
	}
	if err := r.check(what); err != nil {
		return nil, err
	}
	words := make([]uint64, n/8)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(b[i*8:])
	}
	return words, nil
}

// end returns an error if the file has more bytes.
func (r *sumReader) end() error {
	var one [1]byte
	switch n, err := io.ReadFull(r.from, one[:]); {
	case n > 0:
		return lost("the file has more bytes after its last part, which ends at byte %d", r.at)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("after byte %d: %w", r.at, err)
	}
	return nil
}
