// Package jsonl delivers events as JSON lines to a writer, such as standard
// output.
//
// It owns the form of the lines. It does not open or close the writer.
package jsonl

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/bloomfrontier/crawler/events"
)

// Sink writes one line for each event, in the order of the outbox. Each line has the
// CloudEvents extension attribute cursor, the position after the event. A reader can
// start a relay (events.Run) with another name at the cursor of the last line that it has.
//
// An event counts as acknowledged when it was written. If a write fails in the middle of a
// line, the next write ends the incomplete line first.
type Sink struct {
	mu     sync.Mutex
	w      io.Writer
	broken bool // the last write ended in the middle of a line
}

var _ events.TransactionalSink = (*Sink)(nil)

// New returns a sink that writes to w. It passes only whole lines to w.Write.
func New(w io.Writer) *Sink { return &Sink{w: w} }

// Send implements events.Sink.
func (s *Sink) Send(_ context.Context, batch []events.Event) []error {
	return slices.Repeat([]error{s.write(batch)}, len(batch))
}

// Committed implements events.TransactionalSink. A writer stores no cursor. So Committed
// returns false, and the relay uses the cursor of its Progress.
func (s *Sink) Committed(context.Context, string) (cursor events.Cursor, known bool, err error) {
	return "", false, nil
}

// Commit implements events.TransactionalSink, except that it is not atomic. Events that
// were written before an error are written again.
func (s *Sink) Commit(_ context.Context, _ string, batch []events.Event, _ events.Cursor) error {
	return s.write(batch)
}

// Close implements events.Sink.
func (s *Sink) Close() error { return nil }

func (s *Sink) write(batch []events.Event) error {
	if len(batch) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []byte
	if s.broken {
		lines = append(lines, '\n')
	}
	for i := range batch {
		var err error
		if lines, err = appendLine(lines, &batch[i]); err != nil {
			return err
		}
	}
	n, err := s.w.Write(lines)
	if n > 0 {
		s.broken = lines[n-1] != '\n'
	}
	if err != nil {
		return fmt.Errorf("write %d events: %w", len(batch), err)
	}
	return nil
}

// appendLine appends the event's JSON with its cursor as the first attribute.
func appendLine(b []byte, e *events.Event) ([]byte, error) {
	cursor, err := json.Marshal(e.Cursor)
	if err != nil {
		return b, err
	}
	text, err := e.MarshalJSON()
	if err != nil {
		return b, err
	}
	b = append(append(b, `{"cursor":`...), cursor...)
	return append(append(append(b, ','), text[len("{"):]...), '\n'), nil
}
