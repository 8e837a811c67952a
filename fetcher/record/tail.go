package record

import (
	"errors"
	"io"
	"math"
	"os"
)

// Tail reads lines, beginning at a place, and can continue when lines were added. It has at
// most one file open. When a Tail opens a packed file, it must read and skip all bytes before
// its place. A Tail is not safe for concurrent use.
type Tail struct {
	reader Reader
	at     Place
	file   *source // nil means that no file is open
}

// Tail returns a Tail that begins at a place. It ignores the reader's End.
func (r Reader) Tail(from Place) *Tail { return &Tail{reader: r, at: from} }

// At returns where the next line begins.
func (t *Tail) At() Place { return t.at }

// Seek moves the tail to a place.
func (t *Tail) Seek(to Place) error {
	err := t.Close()
	t.at = to
	return err
}

// Next returns the next line before end, the place where the committed lines end now. The
// line is valid until the next call. Next returns io.EOF if there is no such line. It
// returns a *GoneError if a file is missing, or if a file ends before the tail's place or
// before end.
func (t *Tail) Next(end Place) (line []byte, err error) {
	for len(line) == 0 {
		switch {
		case end.Before(t.at):
			return nil, t.gone(t.at.File, end.Offset, t.at.Offset, end)
		case t.at == end:
			return nil, io.EOF
		}
		if line, err = t.scan(end); err != nil {
			_ = t.Close() // the file was only read; the next call opens it again
			return nil, err
		}
	}
	t.at.Offset += int64(len(line))
	return line, nil
}

// scan returns the next line of the present file. At the end of this file it moves to the
// next file and returns no line.
func (t *Tail) scan(end Place) (line []byte, err error) {
	if t.file == nil {
		if err := t.open(end); err != nil {
			return nil, err
		}
	}
	last, limit := t.at.File == end.File, int64(math.MaxInt64)
	if last {
		limit = end.Offset
	}
	line, err = t.file.scan(limit)
	switch read := t.file.read(); {
	case err == nil:
		return line, nil
	case !errors.Is(err, io.EOF):
		return nil, fault(t.file.name, t.at.Offset, err)
	case last && read < end.Offset:
		return nil, t.gone(t.at.File, read, end.Offset, end)
	case read > t.at.Offset:
		return nil, fault(t.file.name, t.at.Offset, errWithin)
	}
	err = t.Close()
	t.at = Place{File: t.at.File + 1}
	return nil, err
}

// open opens the file of the tail's place and moves to that place in it.
func (t *Tail) open(end Place) (err error) {
	if t.file, err = t.reader.open(t.at.File); err != nil {
		return err
	}
	if t.file == nil || !t.file.closed && t.at.File < end.File {
		return t.gone(t.at.File, t.at.Offset, -1, end)
	}
	if t.at.Offset > 0 {
		skipped := t.at.Offset
		if file, plain := t.file.ReadCloser.(*os.File); plain {
			info, err := file.Stat()
			if err == nil {
				_, err = file.Seek(t.at.Offset, io.SeekStart)
			}
			if err != nil {
				return fault(t.file.name, t.at.Offset, err)
			}
			skipped = min(skipped, info.Size())
		} else if skipped, err = io.CopyN(io.Discard, t.file, t.at.Offset); err != nil && !errors.Is(err, io.EOF) {
			return fault(t.file.name, skipped, err)
		}
		if skipped < t.at.Offset {
			return t.gone(t.at.File, skipped, t.at.Offset, end)
		}
	}
	t.file.at = t.at.Offset
	return nil
}

// gone returns the error for missing bytes of a file, or for a missing file and the
// missing files after it.
func (t *Tail) gone(file int, from, to int64, end Place) error {
	name := func(n int) string {
		if n >= end.File {
			return t.reader.Series.active()
		}
		return t.reader.Series.closed(n)
	}
	e := &GoneError{File: name(file), From: max(from, 0), To: to}
	if to >= 0 {
		return e
	}
	numbers, err := t.reader.closedNumbers()
	if err != nil {
		return e
	}
	next := end.File
	for _, n := range numbers {
		if n > file {
			next = min(next, n)
		}
	}
	if next > file+1 {
		e.Last = name(next - 1)
	}
	return e
}

// Close closes the file that is open. The Tail can be used again.
func (t *Tail) Close() error {
	if t.file == nil {
		return nil
	}
	file := t.file
	t.file = nil
	return file.Close()
}
