package redisbits

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// headerMagic is the beginning of every segment. A transfer in text mode would change it.
const headerMagic = "\x89RBITS\r\n"

// headBytes is the length of the first part of a header, which is the same in all segments
// of a chain and in its record.
const headBytes = 52

// ID identifies a filter or a crawl.
type ID [16]byte

// header is the content of the first HeaderBytes of a segment. All integers are
// little-endian. docs/design/filter.md describes it byte by byte.
type header struct {
	params    Params
	id        ID
	partition int
	layer     int
	hashes    int
	segment   int
	segments  int // of the layer
}

// head returns the first headBytes.
func (h header) head() []byte {
	b, le := make([]byte, 0, HeaderBytes), binary.LittleEndian
	b = append(b, headerMagic...)
	b = le.AppendUint16(b, layoutVersion)
	b = append(b, byte(h.params.Growth), 0)
	b = le.AppendUint32(b, uint32(h.params.BlockBits))
	b = append(b, h.id[:]...)
	b = le.AppendUint64(b, h.params.Capacity)
	b = le.AppendUint64(b, math.Float64bits(h.params.FPR))
	return le.AppendUint32(b, uint32(h.partition))
}

// encode returns the whole header.
func (h header) encode() []byte {
	b, le := h.head(), binary.LittleEndian
	b = le.AppendUint16(b, uint16(h.layer))
	b = le.AppendUint16(b, uint16(h.hashes))
	b = le.AppendUint32(b, uint32(h.segment))
	return le.AppendUint32(b, uint32(h.segments))
}

// checkHeader compares a stored header with the wanted one. Both arguments are whole headers, or
// the first headBytes of headers. checkHeader returns nil if they are equal, an ErrFilterLost if
// stored is short or is no header, and otherwise an ErrParamsMismatch with the differences.
func checkHeader(key string, stored, want []byte) error {
	switch {
	case string(stored) == string(want):
		return nil
	case len(stored) < len(want):
		return fmt.Errorf("key %q holds %d bytes of a header, want %d: %w", key, len(stored), len(want), bloomstore.ErrFilterLost)
	case string(stored[:len(headerMagic)]) != headerMagic:
		return fmt.Errorf("key %q begins with %q, want %q: %w", key, stored[:len(headerMagic)], headerMagic, bloomstore.ErrFilterLost)
	}
	var faults []string
	for _, field := range headerFields {
		if field.end > len(want) {
			break
		}
		if got, want := stored[field.start:field.end], want[field.start:field.end]; string(got) != string(want) {
			faults = append(faults, fmt.Sprintf("%s is %v, want %v", field.name, field.show(got), field.show(want)))
		}
	}
	return fmt.Errorf("key %q: %w: %s", key, bloomstore.ErrParamsMismatch, strings.Join(faults, "; "))
}

// headerFields are the fields of a header, for messages.
var headerFields = []struct {
	name       string
	start, end int
	show       func([]byte) any
}{
	{"layout version", 8, 10, showInt},
	{"growth", 10, 12, showInt},
	{"block bits", 12, 16, showInt},
	{"id", 16, 32, func(b []byte) any { return fmt.Sprintf("%x", b) }},
	{"capacity", 32, 40, showInt},
	{"false-positive rate", 40, 48, func(b []byte) any { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }},
	{"partition", 48, 52, showInt},
	{"layer", 52, 54, showInt},
	{"hashes", 54, 56, showInt},
	{"segment", 56, 60, showInt},
	{"segments of the layer", 60, 64, showInt},
}

// showInt decodes a little-endian integer of up to eight bytes.
func showInt(b []byte) any {
	var wide [8]byte
	copy(wide[:], b)
	return binary.LittleEndian.Uint64(wide[:])
}

// idOf returns the id in a head, or zeros if it is too short.
func idOf(head string) (id ID) {
	if len(head) >= headBytes {
		id = ID([]byte(head[16:32]))
	}
	return id
}

// decodeHead decodes the first headBytes of a header. It returns an error if they are no
// header of this layout version.
func decodeHead(key, head string) (header, error) {
	want := header{}.head()
	if len(head) < headBytes || head[:10] != string(want[:10]) {
		return header{}, checkHeader(key, []byte(head), want)
	}
	le := binary.LittleEndian
	b := []byte(head)
	return header{
		params: Params{
			Growth: Growth(b[10]), BlockBits: int(le.Uint32(b[12:])),
			Capacity: le.Uint64(b[32:]), FPR: math.Float64frombits(le.Uint64(b[40:])),
		},
		id:        idOf(head),
		partition: int(le.Uint32(b[48:])),
	}, nil
}
