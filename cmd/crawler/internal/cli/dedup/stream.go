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
	maxLine  = chunkBytes // a canonical URL is shorter, and so is what leads to one
	shownBad = 10         // malformed lines that are reported one by one

	// groupLines is more than the lines of a group: the shortest that can be
	// new is "http:a" with its end.
	groupLines = groupChunks*chunkBytes/len("http:a\n") + 1
)

// stream answers lines: those with a URL that was not seen before go out again.
//
// It works in groups: what has been read when it looks. A slow pipe gets every
// answer at once, a fast one is not slowed by small writes. A group is written,
// then remembered, then the next is begun.
type stream struct {
	canon     *canon.Canonicalizer
	hasher    bloomstore.Hasher
	seen      seen
	keep      *store // nil: what is seen is forgotten with the process
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

// counts are what became of the lines of one run.
type counts struct {
	lines                         uint64
	fresh, known, malformed, void uint64
}

// run answers the lines of from until it ends, or until ctx does: then what was
// read and not answered is neither printed nor remembered.
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
			s.line(s.partial) // which lacks its end
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

// group answers c and what else has been read, and returns the error that ended
// the input, if that is all.
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

// lines answers the lines that end in b, and keeps the beginning of another.
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

// extend appends b to the line that was begun, up to maxLine.
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
	// A view, not a copy: nothing keeps it beyond this call.
	text := unsafe.String(unsafe.SliceData(line), len(line))
	switch {
	case s.tooLong:
		s.fault(fmt.Errorf("longer than %d bytes", maxLine))
		return
	case !utf8.ValidString(text):
		// The canonical form has one character for all bytes that are no text,
		// so URLs that differ in them would be taken for one.
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

// flush prints the group and then remembers it. A kill between the two makes the
// next run print the group again; the other order would lose it.
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
		printed-- // a full disk: these are not there, or not whole
	}
	prints := s.prints[:printed]
	s.prints, s.ends = s.prints[:0], s.ends[:0]
	if syncErr := syncFile(s.out); syncErr != nil {
		return errors.Join(err, fmt.Errorf("sync the output: %w", syncErr))
	}
	if err := errors.Join(err, s.keep.remember(prints)); err != nil {
		return err // the set may know URLs that were not printed: it is not saved
	}
	return s.keep.maybeCheckpoint()
}

// syncFile syncs what is written to a regular file: a power failure must not
// take lines away that are remembered. Of a pipe its reader has to take care.
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
