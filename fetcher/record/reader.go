package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/bloomfrontier/crawler/frontier"
)

// Reader reads the records of a directory in the order in which they were written. It
// reads the closed files, packed or not, and then the active one. A crawl can append at
// the same time. Whether a Reader reads the new lines is not defined, but it never reads
// half a line. A Reader needs a few hundred KB of memory, and some MB for a packed file,
// for any number of records. It is safe for concurrent use.
type Reader struct {
	Dir    string
	Series Series // empty means Pages
	// End is the position where the records end, as a store committed it. nil means that
	// all whole lines count. After a crash some of them may be lines that the next start
	// of the crawl cuts off and writes again.
	End frontier.Position
	// Skip leaves out the lines for which it returns true; nil leaves out none. Tail and Export do not use it.
	Skip func(line []byte) bool
	// Erased also yields the lines that took the place of erased records (see Erase). They have the host, the outcome and
	// the fingerprint of the record, but no URL.
	Erased bool
}

// All returns all records. The sequence ends with the first error, which names the
// file and the byte.
func (r Reader) All() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for l, err := range r.records(noLimit) {
			var record Record
			if err == nil {
				if record, err = decode(l.text); err != nil {
					err = l.fault(err)
				}
			}
			if !yield(record, err) || err != nil {
				return
			}
		}
	}
}

// Lines returns the lines of all records. Each includes its newline and is valid until
// the next one. The sequence ends with the first error.
func (r Reader) Lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for l, err := range r.records(noLimit) {
			if !yield(l.text, err) {
				return
			}
		}
	}
}

// records returns the lines before limit without those that Skip and Erased leave out.
func (r Reader) records(limit Place) iter.Seq2[lineAt, error] {
	return func(yield func(lineAt, error) bool) {
		for l, err := range r.lines(limit) {
			if _, erased := Since(l.text); err == nil && (erased && !r.Erased || r.Skip != nil && r.Skip(l.text)) {
				continue
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// lines returns the lines before limit, which must be the beginning of a line. The
// sequence ends with the first error.
func (r Reader) lines(limit Place) iter.Seq2[lineAt, error] {
	return func(yield func(lineAt, error) bool) {
		for f, err := range r.sources(limit) {
			var l lineAt
			for err == nil {
				if l, err = f.next(); err == nil && !yield(l, nil) {
					return
				}
			}
			if !errors.Is(err, io.EOF) {
				yield(lineAt{}, err)
				return
			}
		}
	}
}

func decode(line []byte) (r Record, err error) {
	err = json.Unmarshal(line, &r)
	r.Item = parseItem(line)
	return r, err
}

func fault(name string, offset int64, err error) error {
	return fmt.Errorf("record: %s, byte %d: %w", name, offset, err)
}

// lineAt is a line and its place.
type lineAt struct {
	name string // of the file
	at   Place
	text []byte // with its newline; valid until the next line
}

// end returns where the next line begins.
func (l *lineAt) end() Place { return Place{l.at.File, l.at.Offset + int64(len(l.text))} }

// fault adds the place of l to an error.
func (l *lineAt) fault(err error) error { return fault(l.name, l.at.Offset, err) }

const (
	blockBytes   = 256 << 10
	maxLineBytes = 16 << 20 // longer than any line of a record, with its text, fields and escapes
)

// source is one file of a directory.
type source struct {
	io.ReadCloser
	name   string
	number int
	length int64 // number of its committed bytes; math.MaxInt64 means all its whole lines
	closed bool  // the file must end with a whole line

	at    int64            // offset of the next line
	limit int64            // the scanner reads up to this offset in the file
	in    io.LimitedReader // the part of the file that the scanner may read
	lines *bufio.Scanner   // nil before the first call of scan
}

// scan returns the next line before limit, an offset in the file. It returns io.EOF if
// there is no whole line. The next call can have another limit. After an error, scan must
// not be called again.
func (f *source) scan(limit int64) (line []byte, err error) {
	if f.lines == nil {
		f.limit, f.in = f.at, io.LimitedReader{R: f.ReadCloser}
		f.lines = bufio.NewScanner(&f.in)
		f.lines.Buffer(make([]byte, blockBytes), maxLineBytes)
		f.lines.Split(splitLine)
	}
	f.in.N += limit - f.limit
	f.limit = limit
	if f.lines.Scan() {
		line = f.lines.Bytes()
		f.at += int64(len(line))
		return line, nil
	}
	if err := f.lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, errors.New("the line is too long to be a record")
	} else if err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// read returns the offset up to which scan has read the file. After scan returned io.EOF,
// the bytes from f.at to this offset are an incomplete line.
func (f *source) read() int64 { return f.limit - f.in.N }

// splitLine is a bufio.SplitFunc for lines with their newlines.
func splitLine(data []byte, _ bool) (advance int, line []byte, err error) {
	n := bytes.IndexByte(data, '\n') + 1
	if n == 0 {
		return 0, nil, nil
	}
	return n, data[:n], nil
}

// next returns the next line, or io.EOF at the end of the file. It returns another error if
// committed bytes are missing, or if a closed or committed file ends within a line.
func (f *source) next() (lineAt, error) {
	l := lineAt{name: f.name, at: Place{f.number, f.at}}
	var err error
	l.text, err = f.scan(f.length)
	switch committed := f.length < math.MaxInt64; {
	case err == nil:
		return l, nil
	case !errors.Is(err, io.EOF):
		return l, l.fault(err)
	case committed && f.read() < f.length:
		return l, fmt.Errorf("record: %s has %d bytes, but %d were committed", f.name, f.at, f.length)
	case f.read() > f.at && (f.closed || committed):
		return l, l.fault(errWithin)
	}
	return l, io.EOF
}

// errWithin reports a file whose last line is incomplete.
var errWithin = errors.New("the file ends within a line")

// sources yields the files in order, up to the file that contains limit. It closes each
// file before it opens the next.
func (r Reader) sources(limit Place) iter.Seq2[*source, error] {
	return func(yield func(*source, error) bool) {
		last := r.end()
		if limit.File <= last.File {
			last = limit
		}
		numbers, err := r.closedNumbers()
		if err != nil {
			yield(nil, err)
			return
		}
		for next := 1; next <= last.File; next++ {
			if len(numbers) > 0 {
				next, numbers = numbers[0], numbers[1:]
			}
			if next > last.File { // the file that contains limit is gone
				return
			}
			f, err := r.open(next)
			if err != nil {
				yield(nil, err)
				return
			}
			if f == nil {
				if last != noLimit && last.Offset > 0 {
					yield(nil, fmt.Errorf("record: %s is gone, but %d bytes were committed", r.path(r.Series.active()), last.Offset))
				}
				return
			}
			if next == last.File || !f.closed {
				f.length = last.Offset
			}
			more := yield(f, nil)
			_ = f.Close() // opened for reading only
			if !more || !f.closed {
				return
			}
		}
	}
}

// end returns where the committed records end.
func (r Reader) end() Place {
	if r.End == nil {
		return noLimit
	}
	return r.Series.EndOf(r.End)
}

// closedNumbers returns the numbers of the closed files, in ascending order. Old files may
// have been moved away.
func (r Reader) closedNumbers() (numbers []int, err error) {
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	for _, entry := range entries {
		if n, ok := r.Series.number(entry.Name()); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}

// open opens the closed file with this number. If there is none, it opens the active
// file, which gets this number when it is closed. It returns nil if neither exists. It
// tries the names in the order in which a file gets them, because the file may be closed
// or packed at this moment. If another file is the active one afterwards, it tries again: after a
// crash, a closed file can become the active one again.
func (r Reader) open(number int) (*source, error) {
	for range 10 {
		active, err := r.openFile(r.Series.active(), number)
		if err != nil {
			return nil, err
		}
		leave := func() {
			if active != nil {
				_ = active.Close() // it was not read
			}
		}
		for _, suffix := range []string{"", zstdSuffix} {
			f, err := r.openFile(r.Series.closed(number)+suffix, number)
			if f != nil || err != nil {
				leave()
				return f, err
			}
		}
		if r.isActive(active) {
			return active, nil
		}
		leave()
	}
	return nil, fmt.Errorf("record: %s is replaced again and again", r.path(r.Series.active()))
}

// isActive reports whether a source is the active file now. nil means that there was none.
func (r Reader) isActive(f *source) bool {
	now, err := os.Stat(r.path(r.Series.active()))
	if f == nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	file, plain := f.ReadCloser.(*os.File)
	if err != nil || !plain {
		return false
	}
	opened, err := file.Stat()
	return err == nil && os.SameFile(opened, now)
}

func (r Reader) path(name string) string { return filepath.Join(r.Dir, name) }

// openFile opens a file. It returns nil if the file does not exist.
func (r Reader) openFile(name string, number int) (*source, error) {
	path := r.path(name)
	file, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("record: %w", err)
	}
	f := &source{ReadCloser: file, name: path, number: number, length: math.MaxInt64, closed: name != r.Series.active()}
	if filepath.Ext(name) != zstdSuffix {
		return f, nil
	}
	z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1))
	if err != nil {
		_ = file.Close()
		return nil, fault(path, 0, err)
	}
	f.ReadCloser = unpacked{z, file}
	return f, nil
}

// unpacked reads a packed file.
type unpacked struct {
	*zstd.Decoder
	file *os.File
}

func (u unpacked) Close() error {
	u.Decoder.Close()
	return u.file.Close()
}
