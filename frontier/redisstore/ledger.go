package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
)

const (
	printBytes = len(bloomstore.Fingerprint{})
	// additionBytes is the length of an addition: partition (4 bytes), state (4), number (8),
	// fingerprint (16), all little-endian.
	additionBytes = 4 + 4 + 8 + printBytes
	// maxTail is the number of bytes of additions that a ledger collects before it writes them.
	maxTail = 4096 * additionBytes
	// maxAdditions is the number of additions that a ledger remembers in its file, the newest ones:
	// 128 MiB. It is a multiple of the additions in a tail.
	maxAdditions = 4 << 20
)

// ledger remembers which items a worker has added, so that it can name those that a server loses.
//
// A partition counts the items that each worker adds (fieldAdded), and add.lua answers with that
// count. So each addition has its own number. After a restart of a server, the count of a partition
// is the number of the worker's last addition that the server still has. The later ones are lost.
// A ledger compares these numbers before the worker adds anything in the new epoch. The
// fingerprints of the lost items are stored in partition.lost, where Store.Lost looks for them in
// the filter: a fingerprint that is in the filter again belongs to an item that was added again.
//
// A ledger is safe for concurrent use.
type ledger struct {
	dir   string // for the file; empty means the default directory for temporary files
	mu    sync.Mutex
	parts []partLedger // by partition
	tail  []byte       // additions that are not in the file yet
	file  *os.File     // a removed file; nil until it is needed
	total uint64       // number of additions ever written to the file; it has the last maxAdditions of them
}

// partLedger is the part of a ledger that belongs to one partition.
type partLedger struct {
	checked atomic.Pointer[epoch] // the epoch in which the count of the partition was last compared
	newest  uint64                // number of the newest addition that the partition has, as far as known
	cuts    []uint64              // after each loss, the count of the partition; an addition made after i losses has state i
	lost    []byte                // fingerprints of the lost items
	stored  int                   // length of lost that is stored in partition.lost
}

// add remembers that a worker added an item in an epoch. The argument number is the count of the
// partition after that.
func (l *ledger) add(p *partition, ep *epoch, number uint64, print bloomstore.Fingerprint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part := &l.parts[p.number]
	if last := len(part.cuts) - 1; part.checked.Load() != ep && last >= 0 && number > part.cuts[last] {
		part.lost = append(part.lost, print[:]...) // its epoch ended before the answer was read
		return
	}
	part.newest = max(part.newest, number)
	l.tail = binary.LittleEndian.AppendUint32(l.tail, uint32(p.number))
	l.tail = binary.LittleEndian.AppendUint32(l.tail, uint32(len(part.cuts)))
	l.tail = binary.LittleEndian.AppendUint64(l.tail, number)
	l.tail = append(l.tail, print[:]...)
	if len(l.tail) >= maxTail {
		if err := l.flush(); err != nil {
			l.tail = append(l.tail[:0], l.tail[maxTail/2:]...)
		}
	}
}

// flush writes the tail to the file. The caller must hold mu.
func (l *ledger) flush() error {
	if l.file == nil {
		file, err := os.CreateTemp(l.dir, "additions-*.tmp")
		if err != nil {
			return err
		}
		l.file = file
		if err := os.Remove(file.Name()); err != nil { // so nothing is left of it when the process ends
			return err
		}
	}
	at := int64(l.total%maxAdditions) * int64(additionBytes)
	if _, err := l.file.WriteAt(l.tail, at); err != nil {
		return err
	}
	l.total += uint64(len(l.tail) / additionBytes)
	l.tail = l.tail[:0]
	return nil
}

func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// checkedIn reports whether the count of a partition was compared in an epoch.
func (l *ledger) checkedIn(p *partition, ep *epoch) bool {
	return l.parts[p.number].checked.Load() == ep
}

// compare compares the additions with the current counts of partitions, in a new epoch, and moves
// the lost ones to partLedger.lost.
func (l *ledger) compare(counts map[int]uint64, ep *epoch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	fell := make(map[int]uint64)
	for number, count := range counts {
		if l.parts[number].newest > count {
			fell[number] = count
		}
	}
	if len(fell) > 0 {
		if err := l.lose(fell); err != nil {
			return err
		}
	}
	for number := range counts {
		l.parts[number].checked.Store(ep)
	}
	return nil
}

// lose moves the additions of partitions whose count fell. The caller must hold mu.
func (l *ledger) lose(fell map[int]uint64) error {
	lost := make(map[int][]byte)
	err := l.each(func(addition []byte) {
		number := int(binary.LittleEndian.Uint32(addition))
		if count, ok := fell[number]; ok && l.parts[number].losesNow(addition, count) {
			lost[number] = append(lost[number], addition[additionBytes-printBytes:]...)
		}
	})
	if err != nil {
		return fmt.Errorf("redisstore: read the additions of this worker: %w", err)
	}
	for number, count := range fell {
		part := &l.parts[number]
		part.lost = append(part.lost, lost[number]...)
		part.cuts, part.newest = append(part.cuts, count), count
	}
	return nil
}

// each calls visit with every addition that is remembered. The caller must hold mu.
func (l *ledger) each(visit func(addition []byte)) error {
	buf := make([]byte, maxTail)
	size := int64(min(l.total, maxAdditions)) * int64(additionBytes)
	for at := int64(0); at < size; at += int64(len(buf)) {
		some := buf[:min(size-at, int64(len(buf)))]
		if _, err := l.file.ReadAt(some, at); err != nil {
			return err
		}
		for addition := range slices.Chunk(some, additionBytes) {
			visit(addition)
		}
	}
	for addition := range slices.Chunk(l.tail, additionBytes) {
		visit(addition)
	}
	return nil
}

// losesNow reports whether a partition whose count fell to count has lost an addition that it had
// until now.
func (p *partLedger) losesNow(addition []byte, count uint64) bool {
	state, number := binary.LittleEndian.Uint32(addition[4:]), binary.LittleEndian.Uint64(addition[8:])
	for _, cut := range p.cuts[state:] {
		if number > cut {
			return false // it was lost earlier
		}
	}
	return number > count
}

// checkLosses compares this worker's additions with the counts of all partitions of a node that
// were not compared in the epoch yet. It must be called before the worker adds items there.
func (s *Store) checkLosses(ctx context.Context, n *node, ep *epoch) error {
	if s.number == 0 {
		return nil
	}
	s.comparing.Lock()
	defer s.comparing.Unlock()
	var open []*partition
	for _, p := range s.parts {
		if s.ledger.checkedIn(p, ep) {
			continue
		}
		if of, err := s.nodeOf(ctx, p); err != nil {
			return err
		} else if of == n {
			open = append(open, p)
		}
	}
	if len(open) == 0 {
		return nil
	}
	cmds, _ := pipelined(ctx, n.client, open, func(pipe redis.Pipeliner, p *partition) *redis.SliceCmd {
		return pipe.HMGet(ctx, p.meta, s.added, "layers")
	})
	counts := make(map[int]uint64, len(open))
	for i, p := range open {
		values, err := cmds[i].Result()
		if err != nil {
			s.misplaced(ctx, p, err)
			return s.classify(ctx, err)
		}
		if at(values, 1) != nil { // otherwise the partition is gone, and add.lua answers so
			counts[p.number], _ = strconv.ParseUint(text(at(values, 0)), 10, 64)
		}
	}
	if err := s.ledger.compare(counts, ep); err != nil {
		return err
	}
	return s.storeLosses(ctx, open)
}

// storeLosses stores the fingerprints of lost items that are not stored yet. The argument again
// lists partitions whose server may have lost what was stored.
func (s *Store) storeLosses(ctx context.Context, again []*partition) error {
	s.ledger.mu.Lock()
	for _, p := range again {
		s.ledger.parts[p.number].stored = 0
	}
	lost := make(map[*partition][]byte)
	for _, p := range s.parts {
		if part := &s.ledger.parts[p.number]; len(part.lost) > part.stored {
			lost[p] = part.lost
		}
	}
	s.ledger.mu.Unlock()
	if len(lost) == 0 {
		return nil
	}
	_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for p, prints := range lost {
			pipe.HSet(ctx, p.lost, strconv.Itoa(s.number), prints)
		}
		return nil
	})
	if err != nil {
		return s.classify(ctx, err)
	}
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	for p, prints := range lost {
		s.ledger.parts[p.number].stored = len(prints)
	}
	return nil
}

// nameLosses compares this worker's additions with the counts of the partitions of every node
// that was restarted since the last comparison, and stores which additions are lost.
func (s *Store) nameLosses(ctx context.Context) error {
	var calls []*call // one for each node, to notice that it was restarted
	asked := make(map[*node]bool)
	for _, p := range s.parts {
		if s.acknowledged[p.number].Load() == 0 {
			continue // nothing of it can be lost
		}
		n, err := s.nodeOf(ctx, p)
		if err != nil {
			return err
		}
		if !asked[n] {
			asked[n] = true
			calls = append(calls, &call{part: p, script: confirmScript, keys: []string{p.meta}, args: []any{""}})
		}
	}
	s.runAll(ctx, calls)
	for _, c := range calls {
		if c.err != nil {
			return c.err
		}
		if err := s.checkLosses(ctx, c.ran.node, c.ran); err != nil {
			return err
		}
	}
	return s.storeLosses(ctx, nil)
}
