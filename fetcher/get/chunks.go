package get

import (
	"bytes"
	"errors"
	"fmt"
)

const (
	// maxChunkLine is the longest line with the size of a chunk.
	maxChunkLine = 4000
	// maxTrailer is the longest trailer of a chunked body.
	maxTrailer = 16 << 10
	// maxChunkWaste bounds what a server may send besides data: net/http has the same limit.
	maxChunkWaste = 16 << 10
)

// errChunk reports that a chunk after the first byte of a body cannot be read. The body ends
// early there.
var errChunk = errors.New("a chunk of the body cannot be read")

// chunks follows the chunks of a body. It passes them on unchanged as long as net/http can
// read them. Otherwise it writes the line with the size of the chunk anew. Sizes may end with
// a line feed only, with spaces or with other text, and may begin with any number of zeros.
// The trailer is dropped.
type chunks struct {
	part   chunkPart
	line   []byte // the beginning of a line
	left   uint64 // bytes of data in this chunk
	data   bool   // a byte of data was passed on
	waste  int64  // bytes of the lines, less what is usual
	last   bool   // the chunk of size 0 came
	size   int    // of the trailer
	done   bool
	mended bool
}

// lastChunk ends a body without a trailer.
var lastChunk = []byte("0\r\n\r\n")

type chunkPart int

const (
	chunkSize chunkPart = iota
	chunkData
	chunkEnd     // the line end after the data
	chunkTrailer // lines after the last chunk
)

// take interprets the next bytes of a body, and passes them on to m. It returns how many of
// the bytes belong to the body.
func (c *chunks) take(b []byte, m *mending) (n int, err error) {
	for n < len(b) && !c.done {
		if c.part == chunkData {
			data := b[n:][:min(uint64(len(b)-n), c.left)]
			m.pass(data)
			n, c.left, c.data = n+len(data), c.left-uint64(len(data)), true
			if c.left == 0 {
				c.part = chunkEnd
			}
			continue
		}
		if c.part == chunkSize && len(c.line) == 0 && bytes.HasPrefix(b[n:], lastChunk) {
			m.pass(lastChunk)
			n, c.done = n+len(lastChunk), true
			break
		}
		end := bytes.IndexByte(b[n:], '\n') + 1
		piece := b[n:]
		if end > 0 {
			piece = b[n : n+end]
		}
		n += len(piece)
		if end > 0 && len(c.line) == 0 {
			err = c.takeLine(piece, m, true)
		} else {
			m.put(nil)
			if c.line = append(c.line, piece...); len(c.line) > maxChunkLine && c.part != chunkTrailer || len(c.line) > maxTrailer {
				return n, c.bad()
			}
			if end == 0 {
				continue
			}
			line := c.line
			c.line = c.line[:0]
			err = c.takeLine(line, m, false)
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// takeLine interprets a line that is not data. whole says that the line is in the buffer of
// the caller, and can be passed on unchanged.
func (c *chunks) takeLine(line []byte, m *mending, whole bool) error {
	text, ended := bytes.CutSuffix(line[:len(line)-1], carriageReturn)
	pass := func(odd bool, mended string) {
		c.mended = c.mended || odd
		if whole && !odd {
			m.pass(line)
		} else {
			m.put([]byte(mended))
		}
	}
	switch c.part {
	case chunkEnd:
		if len(text) > 0 {
			return c.bad()
		}
		pass(!ended, "\r\n")
		c.part = chunkSize
	case chunkSize:
		size, plain, err := chunkLength(text)
		if err != nil {
			return c.bad()
		}
		if c.waste = max(0, c.waste+int64(len(line))-16-2*int64(min(size, 1<<40))); c.waste > maxChunkWaste || len(text) > maxChunkLine {
			return c.bad()
		}
		if c.left, c.part = size, chunkData; size == 0 {
			c.last, c.part = true, chunkTrailer
			if !ended || !plain {
				c.mended = true
			}
			m.put(nil) // finish writes this line
			return nil
		}
		pass(!ended || !plain, fmt.Sprintf("%x\r\n", size))
	case chunkTrailer:
		if len(text) == 0 {
			c.mended = c.mended || !ended
			m.put(c.finish())
			return nil
		}
		if c.size += len(line); c.size > maxTrailer {
			c.mended = true // the connection ends here
			m.put(c.finish())
		}
	}
	return nil
}

// finish ends the body and returns the last chunk.
func (c *chunks) finish() []byte {
	c.done = true
	return lastChunk
}

// bad returns the error for a chunk that cannot be read.
func (c *chunks) bad() error {
	if !c.data {
		return fmt.Errorf("%w: the size of its first chunk cannot be read", ErrDiscarded)
	}
	return errChunk
}

// chunkLength reads the size of a chunk. plain says that net/http reads it too.
func chunkLength(line []byte) (size uint64, plain bool, err error) {
	i, digits := 0, 0
	for ; i < len(line); i++ {
		digit := hexDigit(line[i])
		if digit < 0 {
			break
		}
		if digits > 0 || digit > 0 {
			digits++
		}
		if digits > 15 {
			return 0, false, errChunk
		}
		size = size<<4 | uint64(digit)
	}
	if i == 0 || i < len(line) && line[i] != ';' && line[i] != ' ' && line[i] != '\t' && line[i] != '\r' {
		return 0, false, errChunk
	}
	rest := line[i:]
	usual := len(bytes.TrimLeft(rest, " \t")) == 0 || rest[0] == ';'
	plain = i <= 16 && usual && bytes.IndexByte(rest, '\r') < 0
	return size, plain, nil
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
