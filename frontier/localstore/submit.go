package localstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

var _ frontier.Submitter = (*Store)(nil)

// Submit implements frontier.Submitter. The lines and the note with their verdicts are in one batch.
func (s *Store) Submit(ctx context.Context, c frontier.Chunk, lines []frontier.Line) (verdicts []frontier.Verdict, repeated bool, err error) {
	offers := make([]frontier.Offer, len(lines))
	for i := range lines {
		offers[i] = lines[i].Offer
	}
	mine := s.offers(offers)
	var answer []byte
	err = s.submit(ctx, &op{bytes: urlBytes(offers), change: func(g *group) error {
		answer, err = g.readNote(&c)
		if repeated = answer != nil; repeated || err != nil {
			return err
		}
		all := make([]frontier.Verdict, len(lines))
		for i := range mine {
			if reason := lines[i].Refused; reason != "" {
				all[i] = frontier.Verdict{Answer: frontier.Refused, Reason: reason}
				continue
			}
			if all[i], err = g.add(&mine[i]); err != nil {
				return err
			}
		}
		answer = append([]byte{}, frontier.AppendVerdicts(nil, all)...)
		g.writeNote(&c, answer)
		return nil
	}})
	if err != nil {
		return nil, false, err
	}
	crash.Point("submitted")
	verdicts, err = frontier.ParseVerdicts(answer)
	return verdicts, repeated, err
}

// Answered implements frontier.Submitter.
func (s *Store) Answered(ctx context.Context, c frontier.Chunk) (verdicts []frontier.Verdict, answered bool, err error) {
	var answer []byte
	if err := s.submitAny(ctx, &op{grant: func(g *group) (err error) {
		answer, err = g.readNote(&c)
		return err
	}}); err != nil || answer == nil {
		return nil, false, err
	}
	verdicts, err = frontier.ParseVerdicts(answer)
	return verdicts, true, err
}

// Keep implements frontier.Submitter.
func (s *Store) Keep(ctx context.Context, c frontier.Chunk, answer string) (kept string, err error) {
	err = s.submit(ctx, &op{change: func(g *group) error {
		stored, err := g.readNote(&c)
		if kept = string(stored); err != nil || stored != nil || answer == "" {
			return err
		}
		kept = answer
		g.writeNote(&c, []byte(answer))
		return nil
	}})
	if err != nil {
		return "", err
	}
	return kept, nil
}

// retryNote is the note of a RetryOnce, as JSON.
type retryNote struct {
	retryProgress
	Done bool `json:"done,omitempty"`
}

// RetryOnce implements frontier.Submitter. Each step is in one batch with the note that says where the next one begins.
func (s *Store) RetryOnce(ctx context.Context, c frontier.Chunk, of frontier.Failures) (total int, repeated bool, err error) {
	repeated = true
	for {
		var note retryNote
		err := s.submit(ctx, &op{change: func(g *group) error {
			stored, err := g.readNote(&c)
			if err != nil {
				return err
			}
			note = retryNote{retryProgress: retryProgress{Next: s.firstFailed(&of)}}
			if stored != nil {
				if err := json.Unmarshal(stored, &note); err != nil {
					return fatal("read the note of a retry", err)
				}
			}
			if note.Done {
				return nil
			}
			repeated = false
			if err := g.retryStep(&of, &note.retryProgress); err != nil {
				return err
			}
			note.Done = note.Next == nil
			text, err := json.Marshal(note)
			if err != nil {
				return fatal("encode the note of a retry", err)
			}
			g.writeNote(&c, text)
			return nil
		}})
		if err != nil {
			return 0, false, err
		}
		crash.Point("requeued")
		if note.Done {
			return note.Total, repeated, nil
		}
	}
}

// A note is the answer to a repeated call: the time in µs until which it is kept, the digest of the call, and the answer.
const noteHeader = 8 + 32

// maxNotes bounds the notes that one group removes.
const maxNotes = 100

func noteKey(id [32]byte) []byte { return append([]byte{tableNote}, id[:]...) }

func noteEndKey(end int64, id []byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{tableNoteEnd}, uint64(end)), id...)
}

// findNote returns the note of an id, or nil if there is none or its time is over.
func (g *group) findNote(id [32]byte) ([]byte, error) {
	note, written := g.notes[id]
	if !written {
		var err error
		if note, err = g.get(noteKey(id)); err != nil {
			return nil, err
		}
	}
	if len(note) < noteHeader || int64(binary.BigEndian.Uint64(note)) <= g.now {
		return nil, nil
	}
	return note, nil
}

// readNote returns the answer in the note of c, or nil if there is none.
func (g *group) readNote(c *frontier.Chunk) (answer []byte, err error) {
	note, err := g.findNote(c.ID)
	switch {
	case note == nil || err != nil:
		return nil, err
	case !bytes.Equal(note[8:noteHeader], c.Digest[:]):
		return nil, frontier.ErrOtherPayload
	}
	return note[noteHeader:], nil
}

// writeNote writes the note of c. A note that is there keeps its time.
func (g *group) writeNote(c *frontier.Chunk, answer []byte) {
	end := g.now + micros(c.TTL)
	if before, err := g.findNote(c.ID); before != nil && err == nil {
		end = int64(binary.BigEndian.Uint64(before))
	}
	note := append(append(binary.BigEndian.AppendUint64(nil, uint64(end)), c.Digest[:]...), answer...)
	g.set(noteKey(c.ID), note)
	g.set(noteEndKey(end, c.ID[:]), nil)
	g.notes[c.ID] = note
	g.nextNoteEnd = min(g.nextNoteEnd, end)
	g.changed = true
}

// sweepNotes removes notes whose time is over.
func (g *group) sweepNotes() error {
	lower, upper := noteEndKey(g.notesFloor, nil), []byte{tableNoteEnd + 1}
	g.nextNoteEnd, g.notesFloor = never, g.now
	swept := 0
	return g.scanRange(g.db, lower, upper, func(key, _ []byte) (bool, error) {
		end := int64(binary.BigEndian.Uint64(key[1:9]))
		if end > g.now || swept == maxNotes {
			g.nextNoteEnd, g.notesFloor = end, min(end, g.now)
			return false, nil
		}
		swept++
		g.remove(key)
		id := noteKey([32]byte(key[9:]))
		note, err := g.get(id)
		if err == nil && len(note) >= noteHeader && int64(binary.BigEndian.Uint64(note)) == end { // otherwise it was written again
			g.remove(id)
		}
		return true, err
	})
}
