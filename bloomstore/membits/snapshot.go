package membits

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// Snapshot is a filter as of one moment, to be written while the filter goes on.
type Snapshot struct {
	filter *Filter
	header header
}

// Snapshot fixes which keys count as saved: those added so far. It takes no
// time. The tag goes into the file, and Read must show it; it names the crawl.
//
// It is exact when nobody adds during the call, as in a store that is the only
// writer and notes here where its journal is. What WriteTo writes may hold bits
// of keys that were added later: after Read, Restore of the journal since
// Snapshot makes the filter that was, bit for bit and count for count.
func (f *Filter) Snapshot(tag [16]byte) *Snapshot {
	s := &Snapshot{filter: f, header: header{config: f.config, tag: tag}}
	for _, l := range *f.chain.Load() {
		s.header.layers = append(s.header.layers, l.entry(l.keys.Load()))
	}
	return s
}

// Keys returns how many keys count as saved.
func (s *Snapshot) Keys() (n uint64) {
	for _, l := range s.header.layers {
		n += l.keys
	}
	return n
}

// Bytes returns how long the file will be.
func (s *Snapshot) Bytes() int64 {
	n := int64(fixedBytes + len(s.header.layers)*entryBytes + sumBytes)
	for _, l := range s.header.layers {
		n += int64(s.header.config.Shards) * (int64(l.shardBits/8) + sumBytes)
	}
	return n
}

// WriteTo writes the file that Read reads. It copies one sub-filter at a time,
// under its lock, and writes it without one: adds go on meanwhile. It writes in
// parts of a sub-filter's size, so w needs no buffer.
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
