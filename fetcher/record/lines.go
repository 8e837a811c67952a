package record

import (
	"bytes"
	"errors"
	"io"
)

// lineReader cuts an input into runs of whole lines, as long as fit its buffer.
// The zero value must be reset before use.
type lineReader struct {
	in    io.Reader
	room  []byte
	taken int // bytes of room that the last run had
	end   int // of what was read into room
}

const (
	blockBytes   = 256 << 10
	maxLineBytes = 16 << 20 // the text of a page and its fields, with escapes, have less: this is damage
)

var (
	// errEnd reports the end of the input; rest says whether a line was begun.
	errEnd  = errors.New("record: end of input")
	errLong = errors.New("the line is too long to be a record")
)

func (l *lineReader) reset(in io.Reader) {
	if l.room == nil {
		l.room = make([]byte, blockBytes)
	}
	l.in, l.taken, l.end = in, 0, 0
}

// rest returns how many bytes of a line were read that has not ended yet.
func (l *lineReader) rest() int { return l.end - l.taken }

// next returns the next lines, valid until it is called again.
func (l *lineReader) next() ([]byte, error) {
	l.end = copy(l.room, l.room[l.taken:l.end])
	l.taken = 0
	for {
		n, err := l.in.Read(l.room[l.end:])
		l.end += n
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if err == nil && l.end < len(l.room) {
			continue
		}
		l.taken = bytes.LastIndexByte(l.room[:l.end], '\n') + 1
		switch {
		case l.taken > 0: // an end of the input comes again with the next call
			return l.room[:l.taken], nil
		case err != nil:
			return nil, errEnd
		case len(l.room) >= maxLineBytes:
			return nil, errLong
		}
		l.room = append(l.room, make([]byte, len(l.room))...)
	}
}
