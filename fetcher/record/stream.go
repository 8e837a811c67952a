package record

import (
	"bufio"
	"io"

	"github.com/bloomfrontier/crawler/frontier"
)

// Stream is an output that cannot be cut, such as standard output: after a
// crash, records that were written but not committed come again. At least once,
// not exactly once.
type Stream struct {
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
	if s.line, err = r.AppendLine(s.line[:0]); err != nil {
		return err
	}
	_, err = s.w.Write(s.line)
	return err
}

// Sync implements frontier.Output; the position of a stream is nil.
func (s *Stream) Sync() (frontier.Position, error) { return nil, s.w.Flush() }

// Tee writes each record to a stream as well as to files; the files decide the position.
type Tee struct {
	Files  *Files
	Stream *Stream
}

// Append implements Sink.
func (t Tee) Append(r *Record) error {
	if err := t.Files.Append(r); err != nil {
		return err
	}
	return t.Stream.Append(r)
}

// Sync implements frontier.Output.
func (t Tee) Sync() (frontier.Position, error) {
	if _, err := t.Stream.Sync(); err != nil {
		return nil, err
	}
	return t.Files.Sync()
}
