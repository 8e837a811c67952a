package membits

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// Snapshot is the state of a filter at one moment. It can be written while keys are
// added to the filter.
type Snapshot struct {
	filter *Filter
	header header
}

// Snapshot returns a snapshot of the keys added so far. It copies no bits. WriteTo
// stores tag, usually the id of the crawl, in the file, and Read must be given the
// same tag.
//
// The caller must not add keys during the call, and must note the position in its
// journal at that time. The file can also have bits of keys that are added before
// WriteTo ends. To get a filter with the bits and counts of f, call Read, and then
// Restore for all keys that the journal has after that position.
func (f *Filter) Snapshot(tag [16]byte) *Snapshot {
	s := &Snapshot{filter: f, header: header{fixed: fixed{
		Magic: [8]byte([]byte(fileMagic)), Version: fileVersion, Shards: uint32(f.config.Shards), Tag: tag,
		Capacity: f.config.Capacity, FPR: f.config.FPR, Growth: uint32(f.config.Growth),
	}}}
	for _, l := range *f.chain.Load() {
		s.header.layers = append(s.header.layers, l.entry(l.keys.Load()))
	}
	return s
}

// Bytes returns the length of the file.
func (s *Snapshot) Bytes() int64 {
	n := int64(fixedBytes + len(s.header.layers)*entryBytes + sumBytes)
	for _, l := range s.header.layers {
		n += int64(s.header.Shards) * (int64(l.ShardBits/8) + sumBytes)
	}
	return n
}

// WriteTo writes the file that Read reads. It holds the lock of a shard only while it
// copies one sub-filter, so keys can be added meanwhile. Each call of w.Write gets a
// whole sub-filter, so w needs no buffer.
func (s *Snapshot) WriteTo(w io.Writer) (written int64, err error) {
	put := func(part []byte) error {
		n, err := w.Write(part)
		written += int64(n)
		return err
	}
	part := s.header.encode()
	sum := crc32.Checksum(part, castagnoli)
	if err := put(binary.LittleEndian.AppendUint32(part, sum)); err != nil {
		return written, fmt.Errorf("membits: write header of filter: %w", err)
	}
	for number, l := range (*s.filter.chain.Load())[:len(s.header.layers)] {
		part = make([]byte, 0, l.bytes()+sumBytes)
		for shard := range l.shards {
			part = s.filter.appendShard(part[:0], l, shard)
			sum = crc32.Update(sum, castagnoli, part)
			part = binary.LittleEndian.AppendUint32(part, sum)
			if err := put(part); err != nil {
				return written, fmt.Errorf("membits: write layer %d, shard %d of filter: %w", number, shard, err)
			}
		}
	}
	return written, nil
}

// appendShard appends the bytes of one sub-filter of l to part.
func (f *Filter) appendShard(part []byte, l *layer, shard int) []byte {
	f.locks[shard].Lock()
	defer f.locks[shard].Unlock()
	for _, word := range l.shards[shard].BitSet().Words() {
		part = binary.LittleEndian.AppendUint64(part, word)
	}
	return part
}
