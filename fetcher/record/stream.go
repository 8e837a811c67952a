package record

import (
	"bufio"
	"io"
	"sync"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// Stream is an output that cannot be cut, such as standard output. Records that were
// written but not committed before a crash are written again, so a stream can contain a
// record more than once. A Stream is safe for concurrent use.
type Stream struct {
	mu   sync.Mutex
	w    *bufio.Writer
	line []byte
}

var (
	_ Sink            = (*Stream)(nil)
	_ frontier.Output = (*Stream)(nil)
)

// NewStream returns an output that writes to w.
func NewStream(w io.Writer) *Stream { return &Stream{w: bufio.NewWriterSize(w, 64<<10)} }

// Append implements Sink.
func (s *Stream) Append(r *Record) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line, err = r.AppendLine(s.line[:0]); err != nil {
		return err
	}
	_, err = s.w.Write(s.line)
	return err
}

// Sync implements frontier.Output. The position of a stream is nil.
func (s *Stream) Sync() (frontier.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil, s.w.Flush()
}

// Tee writes each record to a stream and to files (Files or a Journal). The position
// is that of the files.
type Tee struct {
	Files interface {
		Sink
		frontier.Output
	}
	Stream *Stream
}

// Append implements Sink.
func (t Tee) Append(r *Record) error {
	if err := t.Files.Append(r); err != nil {
		return err
	}
	return t.Stream.Append(r)
}

// Void implements Voider for the files. The record stays in the stream.
func (t Tee) Void(r *Record) error {
	if files, ok := t.Files.(Voider); ok {
		return files.Void(r)
	}
	return nil
}

// Settle implements Settler for the files.
func (t Tee) Settle(item bloomstore.Fingerprint, lease frontier.LeaseID, confirmed bool) {
	if files, ok := t.Files.(Settler); ok {
		files.Settle(item, lease, confirmed)
	}
}

// Sync implements frontier.Output.
func (t Tee) Sync() (frontier.Position, error) {
	if _, err := t.Stream.Sync(); err != nil {
		return nil, err
	}
	return t.Files.Sync()
}
