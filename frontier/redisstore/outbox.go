package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

var _ exact.NoteStore = (*Store)(nil)

// appendNote encodes a note for partition.outbox: an item and its outcome, which the forwarder
// passes on to the exact set (see exact.Note). The encoding is
//
//	byte, bytes      outcome, empty for an item that is not decided yet
//	2 bytes          HTTP status, big-endian
//	uvarint, bytes   host key
//	bytes            entry
//
// complete.lua appends notes, delivered.lua removes them.
func appendNote(b []byte, it *frontier.Item, outcome frontier.Outcome, status int) []byte {
	b = append(b, byte(len(outcome)))
	b = append(b, outcome...)
	b = appendStatus(b, status)
	b = binary.AppendUvarint(b, uint64(len(it.Host)))
	b = append(b, it.Host...)
	return appendEntry(b, it)
}

// decodeNote is the inverse of appendNote. It returns errEntry for a damaged note.
func (s *Store) decodeNote(value string) (n exact.Note, err error) {
	r := entryReader{rest: value}
	n.Outcome = frontier.Outcome(r.bytes(int(r.byte())))
	n.Status = int(r.byte())<<8 | int(r.byte())
	host := r.bytes(int(r.uvarint(maxNoteHost)))
	if r.damaged || n.Outcome != "" && n.Outcome.State() == frontier.Unknown {
		return exact.Note{}, errEntry
	}
	n.Item, err = decodeEntry(r.rest, host, s.hasher)
	return n, err
}

// maxNoteHost bounds the length of a host key.
const maxNoteHost = 1 << 20

// notes returns the notes of a completion: its links that the exact set must decide
// later, and the outcome of its item if the completion is Unconfirmed.
func (t *todo) notes() (notes []any) {
	for i, v := range t.item.pending.links.verdicts {
		if v.Answer == frontier.Deferred {
			link := t.Links[i].Item(bloomstore.Fingerprint{}) // a note has no fingerprint
			notes = append(notes, appendNote(nil, &link, "", 0))
		}
	}
	if t.Unconfirmed && t.Disposition == frontier.Finish {
		notes = append(notes, appendNote(nil, &t.item.item, t.Outcome, t.Status))
	}
	return notes
}

// noted remembers which outboxes had notes when they were last read.
type noted struct {
	mu    sync.Mutex
	parts []*partition
}

func (o *noted) next() *partition {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := len(o.parts) - 1
	if last < 0 {
		return nil
	}
	p := o.parts[last]
	o.parts = o.parts[:last]
	return p
}

// Notes implements exact.NoteStore. It reads the partitions in a different order in each process,
// so that two forwarders seldom read the same notes.
func (s *Store) Notes(ctx context.Context, n int) (exact.NoteBatch, error) {
	for {
		p := s.noted.next()
		if p == nil {
			some, err := s.lookForNotes(ctx)
			if err != nil || !some {
				return exact.NoteBatch{}, err
			}
			continue
		}
		if batch, err := s.readNotes(ctx, p, n); err != nil || len(batch.Notes) > 0 {
			return batch, err
		}
	}
}

// lookForNotes checks every partition for notes, and reports whether there are any.
func (s *Store) lookForNotes(ctx context.Context) (bool, error) {
	lengths, err := pipelined(ctx, s.client, s.parts, func(pipe redis.Pipeliner, p *partition) *redis.IntCmd {
		return pipe.LLen(ctx, p.outbox)
	})
	if err != nil {
		return false, s.classify(ctx, err)
	}
	var parts []*partition
	for i, length := range lengths {
		if length.Val() > 0 {
			parts = append(parts, s.parts[i])
		}
	}
	rand.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	s.noted.mu.Lock()
	s.noted.parts = parts
	s.noted.mu.Unlock()
	return len(parts) > 0, nil
}

// readNotes reads the first notes of a partition. The receipt has the number of notes that were
// delivered before, because two batches can be equal. It also has a hash of the notes, because
// a server that went back in time can repeat a number.
func (s *Store) readNotes(ctx context.Context, p *partition, n int) (exact.NoteBatch, error) {
	batch := exact.NoteBatch{Partition: p.number}
	var delivered *redis.StringCmd
	var values *redis.StringSliceCmd
	cmds, err := s.client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		delivered = tx.HGet(ctx, p.meta, fieldDelivered)
		values = tx.LRange(ctx, p.outbox, 0, int64(n)-1)
		return nil
	})
	if err = txError(cmds, err); err != nil && !errors.Is(err, redis.Nil) {
		return batch, s.classify(ctx, err)
	}
	if err := values.Err(); err != nil {
		return batch, s.classify(ctx, err)
	}
	for _, value := range values.Val() {
		note, err := s.decodeNote(value)
		if err != nil {
			return batch, fmt.Errorf("%w: note in partition %d: %q", err, p.number, value)
		}
		batch.Notes = append(batch.Notes, note)
	}
	batch.Receipt = delivered.Val() + " " + sha(strings.Join(values.Val(), ""))
	return batch, nil
}

// Delivered implements exact.NoteStore.
func (s *Store) Delivered(ctx context.Context, batch exact.NoteBatch, seen uint64, refused []frontier.Refusal) (bool, error) {
	if len(batch.Notes) == 0 {
		return false, nil
	}
	c, err := s.deliveredCall(batch, seen, refused)
	if err != nil {
		return false, err
	}
	s.runAll(ctx, []*call{c})
	return c.err == nil && integer(c.reply) == 1, c.err
}

func (s *Store) deliveredCall(batch exact.NoteBatch, seen uint64, refused []frontier.Refusal) (*call, error) {
	delivered, sum, ok := strings.Cut(batch.Receipt, " ")
	if !ok || batch.Partition < 0 || batch.Partition >= len(s.parts) {
		return nil, fmt.Errorf("redisstore: no receipt of partition %d: %q", batch.Partition, batch.Receipt)
	}
	p := s.parts[batch.Partition]
	before, _ := strconv.ParseUint(delivered, 10, 64)
	args := []any{len(batch.Notes), before, sum}
	changes := make(counts)
	changes.seen(seen)
	for _, r := range refused {
		changes.refused(r.Reason, r.Count)
	}
	return &call{part: p, script: deliveredScript, keys: []string{p.meta, p.outbox}, args: changes.appendTo(args)}, nil
}
