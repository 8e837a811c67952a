package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/bloomfrontier/crawler/frontier"
)

// Lines yields the lines of records. Each includes its newline and is valid until the next one.
// The functions that take Lines iterate over them several times, and each iteration must yield
// the same lines at its beginning. They leave out lines that only a later iteration has.
type Lines = iter.Seq2[[]byte, error]

// Latest yields, in their order, those lines that are the record of the last round of a URL. A check of a
// URL (frontier.CheckURL) is another URL. Of
// several records of one round, the last line counts.
//
// Latest reads all lines once, and each iteration over the result reads them again. It writes 28
// bytes for each line to a directory below temp, and removes the directory before it returns. An
// empty temp means the system's directory for temporary files. It takes 10 MB of memory, and
// then 13 MB for each 10⁸ lines; while it decides, 40 MB for each 10⁸ lines.
func Latest(ctx context.Context, lines Lines, temp string) (latest Lines, err error) {
	files, err := newSpills(temp, "latest-")
	if err != nil {
		return nil, err
	}
	chosen, err := chooseLatest(ctx, lines, files)
	if removed := files.remove(); err == nil {
		err = removed
	}
	if err != nil {
		return nil, err
	}
	return func(yield func([]byte, error) bool) {
		n := uint64(0)
		for line, err := range lines {
			if err != nil {
				yield(nil, err)
				return
			}
			if n == chosen.size {
				return
			}
			if chosen.has(n) && !yield(line, nil) {
				return
			}
			n++
		}
	}, nil
}

// numbers is a set of numbers below size.
type numbers struct {
	size uint64
	bits []uint64
}

func (s *numbers) has(n uint64) bool { return s.bits[n/64]>>(n%64)&1 == 1 }
func (s *numbers) add(n uint64)      { s.bits[n/64] |= 1 << (n % 64) }

// A roundEntry says which URL and round a line has: the hash of the URL, the round, and the
// number of the line.
const (
	urlHashBytes    = 16
	roundEntryBytes = urlHashBytes + 4 + 8
)

type urlHash [urlHashBytes]byte

// chooseLatest returns the numbers of the lines that Latest yields.
func chooseLatest(ctx context.Context, lines Lines, files *spills) (*numbers, error) {
	var shares [256]*spill // by the first byte of the hash
	n := uint64(0)
	for line, err := range lines {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		hash, round, err := roundOf(line)
		if err != nil {
			return nil, fmt.Errorf("record: line %d: %w", n+1, err)
		}
		share := &shares[hash[0]]
		if *share == nil {
			if *share, err = files.create(); err != nil {
				return nil, err
			}
		}
		b := binary.BigEndian.AppendUint32(append((*share).AvailableBuffer(), hash[:]...), round)
		_, _ = (*share).Write(binary.BigEndian.AppendUint64(b, n)) // a bufio.Writer keeps its error for Flush
		n++
	}
	chosen := &numbers{size: n, bits: make([]uint64, n/64+1)}
	for _, share := range shares {
		if share == nil {
			continue
		}
		entries, err := share.all()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("record: choose the latest records: %w", err)
		}
		chosen.addLatest(entries)
	}
	return chosen, nil
}

// addLatest adds the number of the last round of each URL in a share.
func (s *numbers) addLatest(entries []byte) {
	type last struct {
		round  uint32
		number uint64
	}
	latest := make(map[urlHash]last)
	for ; len(entries) > 0; entries = entries[roundEntryBytes:] {
		hash, rest := urlHash(entries), entries[urlHashBytes:]
		this := last{binary.BigEndian.Uint32(rest), binary.BigEndian.Uint64(rest[4:])}
		if old, known := latest[hash]; !known || old.round <= this.round {
			latest[hash] = this
		}
	}
	for _, l := range latest {
		s.add(l.number)
	}
}

// roundOf returns the hash of the URL of a record, and its round, without parsing all of the line.
func roundOf(line []byte) (hash urlHash, round uint32, err error) {
	url, end, isRecord := stringOf(line, `"url":"`)
	round, hasRound := parseNumber(line[end:], `"round":`)
	if !isRecord || !hasRound {
		return hash, 0, errNoRecord
	}
	if bytes.IndexByte(url, '\\') >= 0 { // one URL can be escaped in several ways
		var plain string
		if err := json.Unmarshal(line[end-len(url)-1:end+1], &plain); err != nil {
			return hash, 0, errNoRecord
		}
		url = []byte(plain)
	}
	if outcome, _, _ := stringOf(line[end:], `"outcome":"`); frontier.Outcome(outcome).IsCheck() {
		url = []byte(frontier.CheckURL(string(url)))
	}
	sum := sha256.Sum256(url)
	return urlHash(sum[:]), round, nil
}
