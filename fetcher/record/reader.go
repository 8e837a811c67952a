package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
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
}

// All returns all records. The sequence ends with the first error, which names the
// file and the byte.
func (r Reader) All() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for l, err := range r.lines(noLimit) {
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
		for l, err := range r.lines(noLimit) {
			if !yield(l.text, err) {
				return
			}
		}
	}
}

// lines is like blocks, but each line is a block of its own.
func (r Reader) lines(limit Place) iter.Seq2[block, error] {
	return func(yield func(block, error) bool) {
		for b, err := range r.blocks(limit) {
			if err != nil {
				yield(b, err)
				return
			}
			l := b
			for l.text = range bytes.Lines(b.text) {
				if !yield(l, nil) {
					return
				}
				l.at = l.end()
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

// block is a run of whole lines.
type block struct {
	name string // of the file
	at   Place
	text []byte // valid until the next block
}

// end returns where the line after b begins.
func (b *block) end() Place { return Place{b.at.File, b.at.Offset + int64(len(b.text))} }

// fault adds the place of b to an error.
func (b *block) fault(err error) error { return fault(b.name, b.at.Offset, err) }

// blocks returns the lines before limit in runs. limit must be the beginning of a line.
// The sequence ends with the first error.
func (r Reader) blocks(limit Place) iter.Seq2[block, error] {
	return func(yield func(block, error) bool) {
		var lines lineReader
		for f, err := range r.sources(limit) {
			if err == nil {
				err = f.blocks(&lines, yield)
			}
			if errors.Is(err, errEnough) {
				return
			}
			if err != nil {
				yield(block{}, err)
				return
			}
		}
	}
}

// source is one file of a directory.
type source struct {
	io.ReadCloser
	name   string
	number int
	length int64 // number of its committed bytes; -1 means all its whole lines
	closed bool  // the file must end with a whole line
}

// errEnough reports that the consumer of an iteration has stopped.
var errEnough = errors.New("record: enough")

// blocks calls yield with the lines of f until yield returns false. Then it returns
// errEnough.
func (f *source) blocks(lines *lineReader, yield func(block, error) bool) error {
	in := io.Reader(f)
	if f.length >= 0 {
		in = io.LimitReader(in, f.length)
	}
	lines.reset(in)
	for offset := int64(0); ; {
		run, err := lines.next()
		switch {
		case errors.Is(err, errEnd) && offset+int64(lines.rest()) < f.length:
			return fmt.Errorf("record: %s has %d bytes, but %d were committed", f.name, offset, f.length)
		case errors.Is(err, errEnd) && lines.rest() > 0 && (f.closed || f.length >= 0):
			return fault(f.name, offset, errors.New("the file ends within a line"))
		case errors.Is(err, errEnd):
			return nil
		case err != nil:
			return fault(f.name, offset, err)
		}
		if !yield(block{name: f.name, at: Place{f.number, offset}, text: run}, nil) {
			return errEnough
		}
		offset += int64(len(run))
	}
}

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
				if last.Offset > 0 {
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
// or packed at this moment.
func (r Reader) open(number int) (*source, error) {
	active, err := r.openFile(r.Series.active(), number)
	if err != nil {
		return nil, err
	}
	for _, suffix := range []string{"", zstdSuffix} {
		f, err := r.openFile(r.Series.closed(number)+suffix, number)
		if f == nil && err == nil {
			continue
		}
		if active != nil {
			_ = active.Close()
		}
		return f, err
	}
	return active, nil
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
	f := &source{ReadCloser: file, name: path, number: number, length: -1, closed: name != r.Series.active()}
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
