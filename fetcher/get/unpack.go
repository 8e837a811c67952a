package get

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// ErrCoding reports a body in an unknown content coding or in several codings.
// Response.Damage has the details. Such a body is not decoded, because the unknown codings
// that servers send, such as utf-8 or none, mostly mean plain text.
var ErrCoding = errors.New("get: content coding")

// maxZstdWindow is the largest window of a zstd body (RFC 9659). brotli's largest is
// 16 MiB, gzip's 32 KiB.
const maxZstdWindow = 8 << 20

// coding returns the content coding of an answer, or "" for none.
func coding(header http.Header) (string, error) {
	values := header["Content-Encoding"]
	if len(values) == 0 {
		return "", nil
	}
	var name string
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		switch part = strings.ToLower(strings.TrimSpace(part)); {
		case part == "" || part == "identity":
		case name != "":
			return "", fmt.Errorf("%w: more than one, %.80q", ErrCoding, values)
		case part == "x-gzip":
			name = "gzip"
		default:
			name = part
		}
	}
	switch name {
	case "", "gzip", "br", "zstd":
		return name, nil
	}
	return "", fmt.Errorf("%w %.80q", ErrCoding, name)
}

// unpack returns the content of the body on wire, and a function that releases its
// resources. Some servers announce gzip or zstd but send other bytes, which are returned
// unchanged. The error comes from the connection, from grow or from ctx.
//
// gzip needs little memory and is unpacked while it is received. The decoders of the other
// codings may need many megabytes. Such a body is unpacked after it was received as a whole,
// and at most GOMAXPROCS of them are unpacked at once. So the memory of the decoders is
// bounded for any number of bodies, and a slow server does not delay others.
//
// A brotli or zstd body takes memory before it is unpacked: see unpacking. The function
// release gives back the memory that the content did not need.
func (c *Client) unpack(ctx context.Context, wire *wireReader, r *Response, limit int64, grow func(more int64) error) (plain io.Reader, release func(), err error) {
	name, err := coding(r.Header)
	switch {
	case err != nil:
		r.Damage = err
		return wire, func() {}, nil
	case name == "gzip":
		z := gzipReaders.Get().(*gzipReader)
		return z.open(wire), z.release, nil
	case name == "":
		return wire, func() {}, nil
	}
	packed := newBuffer()
	if err := packed.fill(wire, wire.left, grow); err != nil && !wire.ended && wire.left > 0 {
		packed.release()
		return nil, nil, err
	}
	u := &unpacking{ctx: ctx, places: c.unpackers, name: name, packed: packed, grow: grow, most: max(limit, maxPooled)}
	if err := u.take(min(u.most, max(maxPooled, 16*int64(len(packed.bytes))))); err != nil {
		packed.release()
		return nil, nil, err
	}
	r.buffer.taken = u.most
	return u, func() {
		u.leave()
		packed.release()
		_ = grow(int64(cap(r.buffer.bytes)) - u.taken) // giving back never fails
	}, nil
}

// unpacking is a reader of the content of a brotli or zstd body. The channel in the field
// places limits how many bodies are unpacked at once. A body is unpacked only while it has a
// place, which is a value in this channel.
//
// unpacking first takes memory for the buffer into which the content is read, and then a
// place. A body with a place never waits for memory. Otherwise there could be a deadlock: the
// bodies with a place wait for memory, and the bodies with memory wait for a place. At first,
// unpacking takes memory for 16 times the size of the body. If the content is larger, unpacking
// gives its place back, takes memory for the largest content, and unpacks the body again.
type unpacking struct {
	ctx    context.Context
	places chan struct{}
	name   string // the content coding
	packed *buffer
	grow   func(more int64) error

	most, taken int64 // the most memory that the content can need, and the memory that grow has granted
	read        int64 // bytes of the content that were read
	plain       io.Reader
	done        func() // releases plain and the place; nil while the body has no place
}

func (u *unpacking) Read(p []byte) (int, error) {
	n, err := u.plain.Read(p)
	u.read += int64(n)
	// The buffer for the content doubles its size when it is full. So it may now take up to
	// 2*u.read bytes. Reading continues if u has memory for that, or for the largest content.
	if err != nil || 2*u.read <= u.taken || u.taken == u.most {
		return n, err
	}
	u.leave()
	if err := u.take(u.most); err != nil {
		return n, err
	}
	_, err = io.CopyN(io.Discard, u.plain, u.read)
	return n, err
}

// take waits until u has size bytes of memory, and then until it has a place. Then it opens
// the body.
func (u *unpacking) take(size int64) error {
	if err := u.grow(size - u.taken); err != nil {
		return err
	}
	u.taken = size
	select {
	case u.places <- struct{}{}:
	case <-u.ctx.Done():
		return errNoRoom{context.Cause(u.ctx)}
	}
	plain, release := open(u.name, u.packed)
	u.plain, u.done = plain, func() { release(); <-u.places }
	return nil
}

func (u *unpacking) leave() {
	if u.done != nil {
		u.done()
		u.done = nil
	}
}

// open returns the content of a brotli or zstd body.
func open(name string, packed *buffer) (plain io.Reader, release func()) {
	from := packed.reader()
	switch {
	case len(packed.bytes) == 0:
	case name == "br":
		z := brotliReaders.Get().(*brotli.Reader)
		z.Reset(from)
		return z, func() { z.Reset(nil); brotliReaders.Put(z) }
	case isZstd(packed.bytes):
		z := zstdReaders.Get().(*zstd.Decoder)
		if err := z.Reset(from); err != nil {
			return failedReader{err}, func() {}
		}
		return z, func() { z.Reset(nil); zstdReaders.Put(z) }
	}
	return from, func() {}
}

// isZstd reports whether body begins like a zstd frame or a skippable frame.
func isZstd(body []byte) bool {
	return len(body) >= 4 && (string(body[:4]) == "\x28\xb5\x2f\xfd" ||
		body[0]&0xf0 == 0x50 && string(body[1:4]) == "\x2a\x4d\x18")
}

var brotliReaders = sync.Pool{New: func() any { return brotli.NewReader(nil) }}

var zstdReaders = sync.Pool{New: func() any {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		panic(err) // the options are not valid
	}
	return z
}}

// gzipReader is a reusable decompressor. Some servers send other bytes, such as zeros, after
// the last gzip member. gzipReader ignores these bytes, as browsers do.
type gzipReader struct {
	in  *bufio.Reader
	out *gzip.Reader
}

var gzipReaders = sync.Pool{New: func() any {
	return &gzipReader{in: bufio.NewReaderSize(nil, 4<<10), out: new(gzip.Reader)}
}}

func (z *gzipReader) open(body io.Reader) io.Reader {
	z.in.Reset(body)
	if !z.atMember() {
		return z.in
	}
	if err := z.next(); err != nil {
		return failedReader{err}
	}
	return z
}

// atMember reports whether a gzip member begins here.
func (z *gzipReader) atMember() bool {
	magic, _ := z.in.Peek(2)
	return len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b
}

// next opens the next member.
func (z *gzipReader) next() error {
	err := z.out.Reset(z.in)
	z.out.Multistream(false)
	return err
}

func (z *gzipReader) Read(p []byte) (int, error) {
	n, err := z.out.Read(p)
	if err == io.EOF && z.atMember() {
		if err = z.next(); err == io.EOF {
			err = io.ErrUnexpectedEOF // the data ends where a header should be
		}
	}
	return n, err
}

func (z *gzipReader) release() {
	z.in.Reset(nil)
	gzipReaders.Put(z)
}

// failedReader returns the error of a header that could not be read.
type failedReader struct{ err error }

func (f failedReader) Read([]byte) (int, error) {
	if f.err == io.EOF {
		return 0, io.ErrUnexpectedEOF // the data ends where a header should be
	}
	return 0, f.err
}
