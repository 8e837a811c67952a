package get

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

const (
	// maxErrorBody bounds the body of an answer that is no page (not 2xx).
	// It is read so that the connection can be kept.
	maxErrorBody = 64 << 10
	// maxDrain is the longest unwanted body that is read to keep the
	// connection; for more a new connection is cheaper.
	maxDrain = 16 << 10
	// maxPooled is the largest buffer that is kept for the next body.
	maxPooled = 1 << 20
	// sniffBytes is what http.DetectContentType looks at.
	sniffBytes = 512
)

// readBody reads the body of answer into r, as far as it is wanted. It returns
// an error when the connection broke.
func (c *Client) readBody(r *Response, answer *http.Response, request Request) error {
	page := r.Status >= 200 && r.Status <= 299
	if page && r.ContentType != "" && !c.wanted(r.ContentType, request) {
		r.TypeRefused = true
		if answer.ContentLength >= 0 && answer.ContentLength <= maxDrain {
			r.WireBytes, _ = io.Copy(io.Discard, answer.Body) // if it fails, one connection fewer
		}
		return nil
	}
	limit := c.config.MaxBodyBytes
	if request.MaxBody > 0 {
		limit = request.MaxBody
	}
	if !page {
		limit = min(limit, maxErrorBody)
	}
	if answer.ContentLength == 0 {
		r.Body = []byte{}
		return nil
	}
	// gzip adds 18 bytes and less than 0.1 %: much more on the wire than the
	// limit allows is a stream of empty blocks.
	wire := &wireReader{from: answer.Body, left: limit + limit/64 + 1<<10}
	defer func() { r.WireBytes = wire.read }()
	plain, gz := decompress(wire, answer.Header)
	if gz != nil {
		defer gz.release()
	}
	r.buffer = newBuffer()
	if page && r.ContentType == "" {
		err := r.buffer.fill(plain, min(limit, sniffBytes))
		r.ContentType = mediaType(http.DetectContentType(r.buffer.bytes))
		if r.TypeRefused = !c.wanted(r.ContentType, request); r.TypeRefused {
			return wire.err
		}
		if err != nil {
			return r.finish(wire, err)
		}
	}
	err := r.buffer.fill(plain, limit)
	if err == nil { // full: is there more?
		var one [1]byte
		var n int
		if n, err = io.ReadFull(plain, one[:]); n > 0 {
			err = errCut
		}
	}
	return r.finish(wire, err)
}

// wanted reports whether a page of this type is to be read.
func (c *Client) wanted(contentType string, request Request) bool {
	return c.anyType || request.AnyType || slices.Contains(c.config.Types, contentType)
}

var errCut = errors.New("get: body cut")

// finish sets what the end of the body, err, says about it.
func (r *Response) finish(wire *wireReader, err error) error {
	if wire.err != nil {
		return wire.err // the connection broke, whatever the decompressor makes of it
	}
	r.Body = r.buffer.bytes
	switch {
	case errors.Is(err, io.EOF):
	case errors.Is(err, errCut), wire.left == 0:
		r.Truncated = true
	default:
		r.Truncated, r.Damage = true, err
	}
	return nil
}

// wireReader counts and bounds what a body takes from the connection, and
// tells a broken connection from broken data.
type wireReader struct {
	from io.Reader
	left int64 // at 0 the body counts as ended
	read int64
	err  error // not io.EOF
}

func (w *wireReader) Read(p []byte) (int, error) {
	if w.left == 0 {
		return 0, io.EOF
	}
	n, err := w.from.Read(p[:min(int64(len(p)), w.left)])
	w.read += int64(n)
	w.left -= int64(n)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

// gzipReader is a decompressor that is used again.
type gzipReader struct {
	in  *bufio.Reader
	out *gzip.Reader
}

var gzipReaders = sync.Pool{New: func() any {
	return &gzipReader{in: bufio.NewReaderSize(nil, 4<<10), out: new(gzip.Reader)}
}}

func (z *gzipReader) release() {
	z.in.Reset(nil)
	gzipReaders.Put(z)
}

// decompress returns body as the server meant it. A body that is announced as
// gzip and is not, which servers send, is taken as it is.
func decompress(body io.Reader, header http.Header) (io.Reader, *gzipReader) {
	switch strings.ToLower(strings.TrimSpace(header.Get("Content-Encoding"))) {
	case "gzip", "x-gzip":
	default:
		return body, nil
	}
	z := gzipReaders.Get().(*gzipReader)
	z.in.Reset(body)
	if magic, _ := z.in.Peek(2); len(magic) < 2 || magic[0] != 0x1f || magic[1] != 0x8b {
		return z.in, z
	}
	if err := z.out.Reset(z.in); err != nil {
		return failedReader{err}, z
	}
	return z.out, z
}

// failedReader reports why a gzip header could not be read.
type failedReader struct{ err error }

func (f failedReader) Read([]byte) (int, error) {
	if f.err == io.EOF {
		return 0, io.ErrUnexpectedEOF // the data ends where a header should be
	}
	return 0, f.err
}

// buffer holds a body and is used again.
type buffer struct{ bytes []byte }

var buffers = sync.Pool{New: func() any { return &buffer{make([]byte, 0, 32<<10)} }}

func newBuffer() *buffer {
	b := buffers.Get().(*buffer)
	b.bytes = b.bytes[:0]
	return b
}

func (b *buffer) release() {
	if cap(b.bytes) <= maxPooled {
		buffers.Put(b)
	}
}

// fill reads until b holds limit bytes, or until from ends: then the error
// says how.
func (b *buffer) fill(from io.Reader, limit int64) error {
	for int64(len(b.bytes)) < limit {
		if len(b.bytes) == cap(b.bytes) {
			b.bytes = slices.Grow(b.bytes, len(b.bytes))
		}
		space := b.bytes[len(b.bytes):cap(b.bytes)]
		space = space[:min(int64(len(space)), limit-int64(len(b.bytes)))]
		n, err := from.Read(space)
		b.bytes = b.bytes[:len(b.bytes)+n]
		if err != nil {
			return err
		}
	}
	return nil
}
