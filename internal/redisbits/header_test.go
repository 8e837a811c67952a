package redisbits

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
)

func someHeader() header {
	return header{
		params: Params{Capacity: 39853, FPR: 1e-6, Growth: GrowthOff, BlockBits: 1024},
		id:     ID{0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, partition: 200,
		layer: 1, hashes: 19, segment: 2, segments: 3,
	}
}

// TestHeaderGolden checks that the bytes of a header do not change. The wanted bytes were
// written by hand from docs/design/filter.md.
func TestHeaderGolden(t *testing.T) {
	want := "89524249" + "54530d0a" + // magic
		"0100" + "01" + "00" + "00040000" + // version, growth, 0, block bits
		"a0010203" + "04050607" + "08090a0b" + "0c0d0e0f" + // id
		"ad9b0000" + "00000000" + // capacity
		"8dedb5a0" + "f7c6b03e" + // 1e-6
		"c8000000" + // partition
		"0100" + "1300" + "02000000" + "03000000" // layer, hashes, segment, segments
	if got := hex.EncodeToString(someHeader().encode()); got != want {
		t.Errorf("header\n%s, want\n%s", got, want)
	}
	if head := someHeader().head(); len(head) != headBytes || len(someHeader().encode()) != HeaderBytes {
		t.Errorf("head() has %d bytes, want %d; or encode() has a wrong length", len(head), headBytes)
	}
}

// TestEveryFieldIsCompared changes each byte of a header. checkHeader must notice each change.
func TestEveryFieldIsCompared(t *testing.T) {
	want := someHeader().encode()
	if err := checkHeader("k", want, want); err != nil {
		t.Errorf("checkHeader of the unchanged header: %v", err)
	}
	for at := range want {
		stored := append([]byte(nil), want...)
		stored[at] ^= 0x81
		err := checkHeader("{c:1}f0.1", stored, want)
		kind, says := bloomstore.ErrParamsMismatch, ", want "
		if at < len(headerMagic) {
			kind = bloomstore.ErrFilterLost
		}
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), `"{c:1}f0.1"`) {
			t.Errorf("checkHeader after a change of byte %d: %v, want %v, with the key and both values", at, err, kind)
		}
	}
	for _, length := range []int{0, 1, 51, 63} {
		if err := checkHeader("k", want[:length], want); !errors.Is(err, bloomstore.ErrFilterLost) {
			t.Errorf("checkHeader of the first %d bytes: %v, want ErrFilterLost", length, err)
		}
	}
	other := someHeader()
	other.params.FPR, other.params.Capacity = 1e-2, 7
	err := checkHeader("k", other.encode(), want)
	for _, says := range []string{"capacity is 7, want 39853", "false-positive rate is 0.01, want 1e-06"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}

func TestDecodeHead(t *testing.T) {
	want := someHeader()
	got, err := decodeHead("k", string(want.head()))
	if err != nil || got.params != want.params || got.id != want.id || got.partition != want.partition {
		t.Errorf("decodeHead = %+v, %v; want %+v", got, err, want)
	}
	for what, head := range map[string]string{"nothing": "", "a list of names": strings.Repeat("name ", 20)} {
		if _, err := decodeHead("k", head); !errors.Is(err, bloomstore.ErrFilterLost) {
			t.Errorf("decodeHead of %s: %v, want ErrFilterLost", what, err)
		}
	}
	later := want.head()
	later[8] = 2
	if _, err := decodeHead("k", string(later)); !errors.Is(err, bloomstore.ErrParamsMismatch) {
		t.Errorf("decodeHead of a later version: %v, want ErrParamsMismatch", err)
	}
}
