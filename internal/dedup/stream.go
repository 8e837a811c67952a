package dedup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/crash"
)

const (
	maxLine  = chunkBytes // more than the length of the longest canonical URL
	shownBad = 10         // number of malformed lines that are reported one by one

	// groupLines is larger than the number of URLs in a group. The shortest line with a
	// URL is "http:a\n".
	groupLines = groupChunks*chunkBytes/len("http:a\n") + 1
)

// stream answers lines: it prints the lines whose URL was not seen before.
//
// It works in groups. A group contains all lines that have been read so far. So the lines
// of a slow pipe are answered at once, and a fast pipe is not slowed down by small
// writes. stream prints a group, then remembers it, and then starts the next group.
type stream struct {
	cfg    Config
	key    keyer
	url    canon.URL // of the last line; not used with other keys
	hasher bloomstore.Hasher
	seen   seen
	keep   *store // nil means that seen URLs are forgotten when the run ends
	out    io.Writer
	faults io.Writer
	end    byte // the end of a line: newline or NUL

	result  Result
	size    uint64 // the size of the set when cfg.SetBytes was called last
	partial []byte // the beginning of a line whose end was not read yet
	tooLong bool   // the line in partial is longer than maxLine

	text   []byte                   // the output of the group
	prints []bloomstore.Fingerprint // the fingerprint of each line in text; used only with keep
	ends   []int                    // the end of each line in text; used only with keep
}

// run answers the lines of its input until the input or ctx ends. When ctx ends, lines
// that were read but not answered are neither printed nor remembered.
func (s *stream) run(ctx context.Context, from io.Reader) error {
	in := readAhead(from)
	defer in.stop()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var c chunk
		select {
		case c = <-in.filled:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := s.advance(); err != nil {
			return err
		}
		end := s.group(in, c)
		if end == io.EOF && (len(s.partial) > 0 || s.tooLong) {
			s.line(s.partial) // the last line can end without a newline
		}
		if err := s.flush(); err != nil {
			return err
		}
		switch {
		case end == io.EOF:
			return nil
		case end != nil:
			return fmt.Errorf("read URLs after line %d: %w", s.result.Lines, end)
		}
	}
}

// advance forgets the keys whose time is over. All lines of a group are seen at this time.
func (s *stream) advance() error {
	w, is := s.seen.(*window)
	if !is || !w.advance(s.cfg.now()) || s.keep == nil {
		return nil
	}
	return s.keep.rotate(w.generations)
}

// group answers the lines of c and of the other chunks that have been read, up to
// groupChunks in all. If the last of these chunks has an error, group returns that error.
func (s *stream) group(in *input, c chunk) error {
	for n := 1; ; n++ {
		s.lines(c.bytes)
		in.release(c)
		if c.err != nil || n == groupChunks {
			return c.err
		}
		select {
		case c = <-in.filled:
		default:
			return nil
		}
	}
}

// lines answers the complete lines in b, and keeps an incomplete line at the end of b.
func (s *stream) lines(b []byte) {
	for {
		n := bytes.IndexByte(b, s.end)
		if n < 0 {
			s.extend(b)
			return
		}
		line := b[:n]
		if len(s.partial) > 0 || s.tooLong {
			s.extend(line)
			line = s.partial
		}
		s.line(line)
		s.partial, s.tooLong = s.partial[:0], false
		b = b[n+1:]
	}
}

// extend appends b to the incomplete line, up to maxLine bytes.
func (s *stream) extend(b []byte) {
	room := maxLine - len(s.partial)
	s.tooLong = s.tooLong || len(b) > room
	s.partial = append(s.partial, b[:min(len(b), room)]...)
}

var byteOrderMark = []byte("\ufeff")

// line answers one line.
func (s *stream) line(line []byte) {
	s.result.Lines++
	if s.result.Lines == 1 {
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	if s.tooLong {
		s.fault(fmt.Errorf("longer than %d bytes", maxLine))
		return
	}
	key, err := s.key(line)
	if err == errEmpty {
		s.result.Empty++
		return
	}
	if err != nil {
		s.fault(err)
		return
	}
	print := s.hasher.Fingerprint(key)
	if !s.seen.add(print) {
		s.result.Seen++
		return
	}
	s.result.New++
	if s.cfg.Canonical {
		s.text = append(s.text, s.url.String()...)
	} else {
		s.text = append(s.text, line...)
	}
	s.text = append(s.text, s.end)
	if s.keep != nil {
		s.prints = append(s.prints, print)
		s.ends = append(s.ends, len(s.text))
	}
}

// fault counts a malformed line. It prints the errors of the first shownBad malformed
// lines.
func (s *stream) fault(err error) {
	if s.result.Malformed++; s.result.Malformed <= shownBad {
		fmt.Fprintf(s.faults, "line %d: %v\n", s.result.Lines, err)
	}
}

// flush prints the group and then remembers it. After a kill between these steps, the
// next run prints the group again. In the other order, a kill would lose the group.
func (s *stream) flush() error {
	if size := s.seen.bytes(); size != s.size {
		s.size = size
		if s.cfg.SetBytes != nil {
			s.cfg.SetBytes(size)
		}
	}
	if len(s.text) == 0 {
		return nil
	}
	n, err := s.out.Write(s.text)
	if err != nil {
		err = fmt.Errorf("write URLs: %w", err)
	}
	s.text = s.text[:0]
	if s.keep == nil {
		return err
	}
	crash.Point("printed")
	printed := len(s.prints)
	for printed > 0 && s.ends[printed-1] > n {
		printed-- // the failed write did not write this line completely
	}
	prints := s.prints[:printed]
	s.prints, s.ends = s.prints[:0], s.ends[:0]
	if syncErr := syncFile(s.out); syncErr != nil {
		return errors.Join(err, fmt.Errorf("sync the output: %w", syncErr))
	}
	if err := errors.Join(err, s.keep.remember(prints)); err != nil {
		return err // the set can contain URLs that were not printed, so it is not saved
	}
	return s.keep.maybeCheckpoint()
}

// syncFile syncs w if it is a regular file, so that a power loss removes no line that is
// remembered. If w is a pipe, the reader of the pipe must sync.
func syncFile(w io.Writer) error {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return f.Sync()
}
