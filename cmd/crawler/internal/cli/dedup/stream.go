package dedup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

const (
	maxLine  = chunkBytes // the longest canonical URL is shorter
	shownBad = 10         // malformed lines that are reported one by one

	// groupLines is more than the lines of a group. The shortest line with a
	// URL is "http:a\n".
	groupLines = groupChunks*chunkBytes/len("http:a\n") + 1
)

// stream answers lines: it prints those whose URL was not seen before.
//
// It works in groups: all lines that have been read so far. So a slow pipe gets each
// answer at once, and a fast one is not slowed down by small writes. A group is
// printed, then remembered; then the next one starts.
type stream struct {
	canon     *canon.Canonicalizer
	hasher    bloomstore.Hasher
	seen      seen
	keep      *store // nil means what is seen is forgotten with the process
	out       io.Writer
	faults    io.Writer
	end       byte // of a line: newline or NUL
	canonical bool // print canonical URLs, not lines as they came
	crash     func(point string)
	grew      func(bytes uint64) // called when the set takes more memory

	counts  counts
	size    uint64 // of the set when grew was called last
	partial []byte // of a line whose end was not read yet
	tooLong bool   // partial is the beginning of a longer line

	text   []byte                   // of the group: its output
	prints []bloomstore.Fingerprint // and the URL of each line of it
	ends   []int                    // and where each line ends
}

// counts are the numbers of lines of one run.
type counts struct {
	lines                         uint64
	fresh, known, malformed, void uint64
}

// run answers the lines of from until it ends or ctx ends. Lines that were read but
// not answered when ctx ends are neither printed nor remembered.
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
		end := s.group(in, c)
		if end == io.EOF && (len(s.partial) > 0 || s.tooLong) {
			s.line(s.partial) // the last line may lack its end
		}
		if err := s.flush(); err != nil {
			return err
		}
		switch {
		case end == io.EOF:
			return nil
		case end != nil:
			return fmt.Errorf("read URLs after line %d: %w", s.counts.lines, end)
		}
	}
}

// group answers c and all other chunks that were read. It returns the error that
// ended the input after the last of them.
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

// lines answers the complete lines in b, and keeps the rest.
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

// extend appends b to the incomplete line, up to maxLine.
func (s *stream) extend(b []byte) {
	room := maxLine - len(s.partial)
	s.tooLong = s.tooLong || len(b) > room
	s.partial = append(s.partial, b[:min(len(b), room)]...)
}

var byteOrderMark = []byte("\ufeff")

// line answers one line.
func (s *stream) line(line []byte) {
	s.counts.lines++
	if s.counts.lines == 1 {
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	// A view, not a copy: it is not used after this call.
	text := unsafe.String(unsafe.SliceData(line), len(line))
	switch {
	case s.tooLong:
		s.fault(fmt.Errorf("longer than %d bytes", maxLine))
		return
	case !utf8.ValidString(text):
		// The canonical form replaces all invalid bytes by one character, so
		// different URLs would become equal.
		s.fault(fmt.Errorf("not UTF-8: %.120q", text))
		return
	}
	url, err := s.canon.Parse(text)
	if err != nil {
		if strings.TrimSpace(text) == "" {
			s.counts.void++
			return
		}
		s.fault(err)
		return
	}
	print := s.hasher.Fingerprint(url.String())
	if !s.seen.add(print) {
		s.counts.known++
		return
	}
	s.counts.fresh++
	if s.canonical {
		s.text = append(s.text, url.String()...)
	} else {
		s.text = append(s.text, line...)
	}
	s.text = append(s.text, s.end)
	if s.keep != nil {
		s.prints = append(s.prints, print)
		s.ends = append(s.ends, len(s.text))
	}
}

// fault counts a line that is no URL, and reports the first ones.
func (s *stream) fault(err error) {
	if s.counts.malformed++; s.counts.malformed <= shownBad {
		fmt.Fprintf(s.faults, "line %d: %v\n", s.counts.lines, err)
	}
}

// flush prints the group and then remembers it. After a kill between the two, the
// next run prints the group again. The other order would lose it.
func (s *stream) flush() error {
	if size := s.seen.bytes(); size != s.size {
		s.size = size
		s.grew(size)
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
	s.crash("printed")
	printed := len(s.prints)
	for printed > 0 && s.ends[printed-1] > n {
		printed-- // lines of the failed write are missing or incomplete
	}
	prints := s.prints[:printed]
	s.prints, s.ends = s.prints[:0], s.ends[:0]
	if syncErr := syncFile(s.out); syncErr != nil {
		return errors.Join(err, fmt.Errorf("sync the output: %w", syncErr))
	}
	if err := errors.Join(err, s.keep.remember(prints)); err != nil {
		return err // the set may have URLs that were not printed, so it is not saved
	}
	return s.keep.maybeCheckpoint()
}

// syncFile syncs a regular file, so that a power loss removes no line that is
// remembered. For a pipe that is the task of its reader.
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
