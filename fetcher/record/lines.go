package record

import (
	"bytes"
	"errors"
	"io"
)

// lineReader splits an input into runs of whole lines that fit into its buffer. The
// zero value must be reset before use.
type lineReader struct {
	in    io.Reader
	room  []byte
	taken int // bytes in l.room that belong to the last run
	end   int // end of the bytes in l.room
}

const (
	blockBytes   = 256 << 10
	maxLineBytes = 16 << 20 // longer than any line of a record, with its text, fields and escapes
)

var (
	// errEnd reports the end of the input. After it, lineReader.rest returns the length of an
	// incomplete last line.
	errEnd  = errors.New("record: end of input")
	errLong = errors.New("the line is too long to be a record")
)

func (l *lineReader) reset(in io.Reader) {
	if l.room == nil {
		l.room = make([]byte, blockBytes)
	}
	l.in, l.taken, l.end = in, 0, 0
}

// rest returns the number of bytes of the incomplete line.
func (l *lineReader) rest() int { return l.end - l.taken }

// next returns the next lines, which are valid until the next call.
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
		case l.taken > 0: // the next call meets the end of the input again
			return l.room[:l.taken], nil
		case err != nil:
			return nil, errEnd
		case len(l.room) >= maxLineBytes:
			return nil, errLong
		}
		l.room = append(l.room, make([]byte, len(l.room))...)
	}
}
