package bloomtest

import (
	"encoding/binary"
	"hash/crc32"
)

// ZeroHalf clears the first half of each sub-filter in the content of a file of
// package membits (docs/design/filter.md), and corrects the checksums. The resulting
// file is valid, but its filter has lost keys.
func ZeroHalf(file []byte) {
	le, castagnoli := binary.LittleEndian, crc32.MakeTable(crc32.Castagnoli)
	shards, layers := int(le.Uint32(file[12:])), int(le.Uint32(file[52:]))
	at := 56 + 32*layers
	sum := crc32.Checksum(file[:at], castagnoli)
	at += 4 // the header's sum
	for layer := range layers {
		size := int(le.Uint64(file[56+32*layer+8:])) / 8
		for range shards {
			clear(file[at : at+size/2])
			sum = crc32.Update(sum, castagnoli, file[at:at+size])
			le.PutUint32(file[at+size:], sum)
			at += size + 4
		}
	}
}
