package dedup

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// A journal is a file of fingerprints in the order in which they were added. It has a
// header, and then a record for each group. All integers are little-endian.
//
//	header  magic (8), version (4), generation (8), id (16), checksum (4)
//	record  number of fingerprints (4), checksum (4), fingerprints (16 each)
//
// A checksum is the CRC-32C of all earlier bytes of the file except checksums. The
// checksum of a record also covers its fingerprints. So a record is valid only at its own
// position.
const (
	journalMagic   = "\x89DEDUPJ\n"
	journalVersion = 1
	headerBytes    = 40
	recordBytes    = 8 // before the fingerprints

	// largestRecord is the length of the longest record in bytes. A crash cannot damage
	// more bytes, because each record is synced before the next one is written.
	largestRecord = int64(recordBytes + groupLines*printBytes)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// journal is a journal that is open for appending.
type journal struct {
	f    *os.File
	sum  uint32
	keys uint64
	buf  []byte
}

func journalHeader(id [16]byte, generation uint64) []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, headerBytes), journalMagic...)
	b = le.AppendUint32(b, journalVersion)
	b = le.AppendUint64(b, generation)
	b = append(b, id[:]...)
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// createJournal creates an empty journal. The file is on disk when createJournal returns.
func createJournal(name string, id [16]byte, generation uint64) (*journal, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	header := journalHeader(id, generation)
	_, err = f.Write(header)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = durable.SyncDir(vfs.Default, filepath.Dir(name))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &journal{f: f, sum: crc32.Checksum(header[:headerBytes-4], castagnoli)}, nil
}

// openJournal opens a journal and calls replay for each of its fingerprints. If a kill or
// a power failure has left the last record incomplete, openJournal removes that record.
// It also removes a last record with wrong fingerprints or a wrong checksum, because a power
// failure can leave such a record. For any other damage it returns ErrFilterLost.
func openJournal(name string, id [16]byte, generation uint64,
	replay func(bloomstore.Fingerprint) error) (_ *journal, err error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", bloomstore.ErrFilterLost, err)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("journal %s: %w", name, errors.Join(err, f.Close()))
		}
	}()
	want := journalHeader(id, generation)
	header := make([]byte, headerBytes)
	if _, err := io.ReadFull(f, header); err != nil || string(header) != string(want) {
		return nil, fmt.Errorf("%w: it begins with %x, want %x", bloomstore.ErrFilterLost, header, want)
	}
	j := &journal{f: f, sum: crc32.Checksum(want[:headerBytes-4], castagnoli)}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	good, err := j.replay(io.NewSectionReader(f, headerBytes, size-headerBytes), replay)
	if err != nil {
		return nil, err
	}
	good += headerBytes
	if size-good > largestRecord {
		return nil, fmt.Errorf("%w: damaged at byte %d of %d", bloomstore.ErrFilterLost, good, size)
	}
	if size > good {
		rest := make([]byte, size-good)
		if _, err := f.ReadAt(rest, good); err != nil {
			return nil, err
		}
		if j.onlyCountWrong(rest) {
			return nil, fmt.Errorf("%w: the number of fingerprints at byte %d is damaged", bloomstore.ErrFilterLost, good)
		}
		// Sync, because a rest of the old record after a new one would look like damage.
		if err := errors.Join(f.Truncate(good), f.Sync()); err != nil {
			return nil, err
		}
	}
	_, err = f.Seek(good, io.SeekStart)
	return j, err
}

// replay reads records and calls visit for each fingerprint. validBytes is the total
// length of the valid records.
func (j *journal) replay(from io.Reader, visit func(bloomstore.Fingerprint) error) (validBytes int64, err error) {
	r := bufio.NewReaderSize(from, 1<<20)
	le := binary.LittleEndian
	head := make([]byte, recordBytes)
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return validBytes, torn(err)
		}
		n := le.Uint32(head)
		if !validCount(n) {
			return validBytes, nil
		}
		size := int(n) * printBytes
		j.reserve(size)
		body := j.buf[:size]
		if _, err := io.ReadFull(r, body); err != nil {
			return validBytes, torn(err)
		}
		sum := crc32.Update(crc32.Update(j.sum, castagnoli, head[:4]), castagnoli, body)
		if sum != le.Uint32(head[4:]) {
			return validBytes, onlyZeros(r, headerBytes+validBytes)
		}
		j.sum = sum
		for ; len(body) > 0; body = body[printBytes:] {
			if err := visit(bloomstore.Fingerprint(body)); err != nil {
				return validBytes, err
			}
		}
		j.keys += uint64(n)
		validBytes += int64(recordBytes + size)
	}
}

// onlyCountWrong reports whether rest begins with a record that is complete except for its
// number of fingerprints. A crash leaves no such record: the number and the checksum are in the
// same sector of a disk, because their position is a multiple of 8. The argument rest follows the
// last valid record.
//
// The record ends where rest ends, or where the next record begins. So onlyCountWrong tries all
// numbers of fingerprints. It computes no checksum for a number if the record would be followed
// by four bytes that cannot be the number of fingerprints of the next record.
func (j *journal) onlyCountWrong(rest []byte) bool {
	if len(rest) < recordBytes {
		return false
	}
	le := binary.LittleEndian
	want, prints := le.Uint32(rest[4:]), rest[recordBytes:]
	for n := 1; n*printBytes <= len(prints); n++ {
		body, next := prints[:n*printBytes], prints[n*printBytes:]
		if len(next) >= 4 && !validCount(le.Uint32(next)) {
			continue
		}
		if crc32.Update(crc32.Update(j.sum, castagnoli, le.AppendUint32(nil, uint32(n))), castagnoli, body) == want {
			return true
		}
	}
	return false
}

// validCount reports whether a record can have n fingerprints.
func validCount(n uint32) bool { return n > 0 && n <= uint32(groupLines) }

// onlyZeros returns ErrFilterLost if r has a byte other than zero. The record before r is
// damaged and begins at the given byte of the file. A record is written only after the one
// before it was synced, so a crash leaves no record after a damaged one. But a file system can
// leave zeros.
func onlyZeros(r io.ByteReader, begin int64) error {
	for {
		switch b, err := r.ReadByte(); {
		case err != nil:
			return torn(err)
		case b != 0:
			return fmt.Errorf("%w: the record at byte %d is damaged, and it is not the last one", bloomstore.ErrFilterLost, begin)
		}
	}
}

// torn returns nil for the errors of a file that ends within a record, and other errors
// unchanged.
func torn(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}

func (j *journal) reserve(n int) {
	if cap(j.buf) < n {
		j.buf = make([]byte, n)
	}
}

// append adds up to groupLines fingerprints as one record. The record is on disk when
// append returns.
func (j *journal) append(prints []bloomstore.Fingerprint) error {
	le := binary.LittleEndian
	j.reserve(recordBytes + len(prints)*printBytes)
	b := le.AppendUint32(j.buf[:0], uint32(len(prints)))
	b = le.AppendUint32(b, 0)
	for i := range prints {
		b = append(b, prints[i][:]...)
	}
	j.sum = crc32.Update(crc32.Update(j.sum, castagnoli, b[:4]), castagnoli, b[recordBytes:])
	le.PutUint32(b[4:], j.sum)
	half := len(b) / 2
	if _, err := j.f.Write(b[:half]); err != nil {
		return err
	}
	crash.Point("half")
	if _, err := j.f.Write(b[half:]); err != nil {
		return err
	}
	if err := j.f.Sync(); err != nil {
		return err
	}
	j.keys += uint64(len(prints))
	return nil
}
