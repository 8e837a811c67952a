package get

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/bloomfrontier/crawler/internal/extract"
)

const (
	// maxErrorBody bounds the part of a body that is read if the answer is not a page (not
	// 2xx). The body is read so that the connection can be kept.
	maxErrorBody = 64 << 10
	// maxDrain is the longest unwanted body that is read so that the connection can be
	// reused. For a longer body, a new connection is cheaper.
	maxDrain = 16 << 10
	// maxPooled is the largest buffer that is reused for another body.
	maxPooled = 256 << 10
)

// readBody reads the wanted part of the answer's body into r. It returns an error if the
// connection broke, the time limits were exceeded or Request.Grow failed.
func (c *Client) readBody(ctx context.Context, r *Response, wire *wireReader, length int64, request Request) error {
	page := r.Status >= 200 && r.Status <= 299
	unclear := r.mime.unclear()
	peek := page && (isXML(r.ContentType) || request.Peek != nil && (unclear || mayBeXML(r.ContentType)))
	if page && !unclear && !peek && !c.wanted(r, request) {
		r.TypeRefused = true
		wire.drain(length)
		return nil
	}
	limit := c.maxBody(request)
	if !page {
		limit = min(limit, maxErrorBody)
	}
	if length == 0 {
		r.Body = []byte{}
		wire.ended = true
		return nil
	}
	wire.left = maxPacked(limit)
	grow := func(more int64) error { return nil }
	if request.Grow != nil {
		grow = func(more int64) error { return wire.wait(func() error { return request.Grow(ctx, more) }) }
	}
	if c.config.Capture {
		wire.grow = grow
	}
	r.buffer = newBuffer()
	plain, release, err := c.unpack(ctx, wire, r, limit, grow)
	if err != nil {
		return err
	}
	defer release()
	if page && unclear {
		err := r.buffer.fill(plain, min(limit, sniffBytes), grow)
		r.ContentType = sniff(r.buffer.bytes, !isNosniff(r.Header))
		peek = peek || isXML(r.ContentType)
		if errors.Is(err, ErrCoding) {
			return r.finish(wire, err)
		}
		if r.TypeRefused = !peek && !c.wanted(r, request); r.TypeRefused {
			return wire.err
		}
		if err != nil && !peek {
			return r.finish(wire, err)
		}
	}
	if peek {
		err := r.buffer.fill(plain, min(limit, peekBytes), grow)
		r.xhtml = extract.IsXHTML(r.buffer.bytes, r.MIMEType())
		most := int64(0)
		if request.Peek != nil {
			most = request.Peek(r.buffer.bytes)
		}
		if r.TypeRefused = most == 0 && !c.wanted(r, request); r.TypeRefused {
			wire.drain(length)
			return wire.err
		}
		if err != nil {
			return r.finish(wire, err)
		}
		if _, whole := plain.(*unpacking); most > limit && !whole {
			wire.left += maxPacked(most) - maxPacked(limit)
			limit = most
		}
	}
	err = r.buffer.fill(plain, limit, grow)
	if err == nil { // the limit was reached: check whether there is more
		var one [1]byte
		var n int
		if n, err = io.ReadFull(plain, one[:]); n > 0 {
			err = errLonger
		}
	}
	return r.finish(wire, err)
}

// peekBytes is how much of a body is looked at to find out what it is. Request.Peek gets as much.
const peekBytes = 4 << 10

// isXML reports whether a type without parameters is that of XML, except XHTML.
func isXML(contentType string) bool {
	return contentType == "text/xml" || contentType == "application/xml" ||
		strings.HasSuffix(contentType, "+xml") && contentType != typeXHTML
}

// mayBeXML reports whether bodies of this type can be XML, gzipped or not.
func mayBeXML(contentType string) bool {
	for _, part := range []string{"xml", "html", "gzip", "octet-stream", "text/plain"} {
		if strings.Contains(contentType, part) {
			return true
		}
	}
	return false
}

// maxBody returns the limit of a page's body.
func (c *Client) maxBody(request Request) int64 {
	if request.MaxBody > 0 {
		return request.MaxBody
	}
	return c.config.MaxBodyBytes
}

// maxPacked returns how many bytes of a compressed body are read from the connection if
// the body may unpack to limit bytes. A compressed body can be longer than its content, but
// only by 1 % and some bytes. The other 128 KiB are for zstd: its decoder reads a whole block,
// of up to 128 KiB, before it unpacks any of the block. Only a body with many empty blocks is
// longer than the result of maxPacked.
func maxPacked(limit int64) int64 { return limit + limit/64 + 129<<10 }

// MaxHeld returns how many bytes of memory the answer to request can take: the largest
// sum of the bytes that the calls of Request.Grow ask for.
func (c *Client) MaxHeld(request Request) int64 {
	limit := c.maxBody(request)
	packed := maxPacked(limit)
	held := max(limit, maxPooled) + max(packed, maxPooled)
	if c.config.Capture {
		held += packed
	}
	return held
}

// wanted reports whether a page of this type is read.
func (c *Client) wanted(r *Response, request Request) bool {
	return c.anyType || request.AnyType || slices.Contains(c.config.Types, r.ContentType) ||
		r.xhtml && slices.Contains(c.config.Types, typeXHTML)
}

var errLonger = errors.New("get: the body is longer than the limit")

// errNoRoom reports that Request.Grow refused memory.
type errNoRoom struct{ error }

func (e errNoRoom) Unwrap() error { return e.error }

// finish sets the fields that depend on how the body ended. err is the error that ended
// the body.
func (r *Response) finish(wire *wireReader, err error) error {
	if wire.err != nil {
		return wire.err // the connection broke, whatever the decompressor reports
	}
	if _, ok := errors.AsType[errNoRoom](err); ok {
		return err
	}
	r.Body = r.buffer.bytes
	switch {
	case errors.Is(err, errLonger), wire.left == 0:
		r.Truncated = true
	case wire.cut != nil:
		r.Cut = wire.cut
	case err == io.EOF:
	case errors.Is(err, ErrCoding):
		r.Damage, r.Body = err, []byte{}
	case len(r.Body) == 0 && !errors.Is(err, io.ErrUnexpectedEOF):
		r.Damage = fmt.Errorf("%w: %w", ErrCoding, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		r.Cut = err
	default:
		r.Damage = err
	}
	if r.Status < 200 || r.Status > 299 {
		r.Cut, r.Damage = nil, nil // the status says all
	}
	return nil
}

// wireReader counts and limits the bytes of a body on the connection, and distinguishes a
// broken connection from broken data.
type wireReader struct {
	from  io.Reader
	pace  pace
	left  int64 // bytes that may still be read; at 0 the body counts as ended
	ended bool  // the body ended
	err   error // never io.EOF
	cut   error // the server ended the body early; readers get io.EOF
	ctx   context.Context
	// grow, unless nil, is called with the number of bytes of each Read. It is set for a
	// capture, which takes memory for these bytes too.
	grow func(more int64) error
}

func (w *wireReader) Read(p []byte) (int, error) {
	if w.left == 0 {
		return 0, io.EOF
	}
	n, err := w.from.Read(p[:min(int64(len(p)), w.left)])
	w.pace.read.Add(int64(n))
	w.left -= int64(n)
	if err == nil && w.grow != nil {
		err = w.grow(int64(n))
	}
	if err != nil {
		w.pace.stop()
		switch w.ended = err == io.EOF; {
		case w.ended:
		case w.isCut(err):
			w.cut, err = err, io.EOF
		default:
			w.err = err
		}
	}
	return n, err
}

// isCut reports whether err means that the server ended the body early.
func (w *wireReader) isCut(err error) bool {
	_, noRoom := errors.AsType[errNoRoom](err)
	return !noRoom && !errors.Is(err, ErrDiscarded) && w.ctx.Err() == nil
}

// drain reads the rest of an unwanted body, if its length is known and small. Then the
// connection can be used again.
func (w *wireReader) drain(length int64) {
	if length >= 0 && length <= maxDrain {
		io.Copy(io.Discard, w) // an error only costs the connection
	}
}

// wait calls f without counting its time against the server.
func (w *wireReader) wait(f func() error) error {
	w.pace.stop()
	if err := f(); err != nil {
		return errNoRoom{err}
	}
	if !w.ended && w.err == nil && w.cut == nil {
		w.pace.start()
	}
	return nil
}

// buffer holds a body and is reused.
type buffer struct {
	bytes []byte
	taken int64 // memory that grow has granted
}

var buffers = sync.Pool{New: func() any { return &buffer{bytes: make([]byte, 0, 32<<10)} }}

func newBuffer() *buffer {
	b := buffers.Get().(*buffer)
	b.bytes, b.taken = b.bytes[:0], 0
	return b
}

func (b *buffer) release() {
	if cap(b.bytes) <= maxPooled {
		buffers.Put(b)
	}
}

// reader returns a reader of the content. This is not a bytes.Buffer, because the zstd
// decoder would unpack a bytes.Buffer as a whole.
func (b *buffer) reader() io.Reader { return bytes.NewReader(b.bytes) }

// fill reads from an io.Reader until b holds limit bytes. If the io.Reader returns an
// error first, fill returns that error. Before b takes more memory, fill calls grow.
func (b *buffer) fill(from io.Reader, limit int64, grow func(more int64) error) error {
	for int64(len(b.bytes)) < limit {
		if err := b.room(limit, grow); err != nil {
			return err
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

// room makes room in b for further bytes, up to limit bytes in all.
func (b *buffer) room(limit int64, grow func(more int64) error) error {
	size := int64(cap(b.bytes))
	full := int64(len(b.bytes)) == size
	if full {
		size = min(2*size, limit)
	}
	if size > b.taken {
		if err := grow(size - b.taken); err != nil {
			return err
		}
		b.taken = size
	}
	if full {
		b.bytes = append(make([]byte, 0, size), b.bytes...)
	}
	return nil
}
