package get

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// ErrCoding reports a body that cannot be unpacked: a coding is unknown, or the body is
// neither packed with it nor plain.
var ErrCoding = errors.New("get: content coding")

// maxCodings is the largest number of codings of a body. curl has the same limit.
const maxCodings = 5

// maxZstdWindow is the largest window of a zstd body (RFC 9659). brotli's largest is
// 16 MiB, gzip's 32 KiB.
const maxZstdWindow = 8 << 20

// codingsOf returns the content codings of an answer, in the order in which they were
// applied (RFC 9110, 8.4). If there are too many, or more than one of those whose decoders
// need much memory, the error wraps ErrCoding.
func codingsOf(header http.Header) (names []string, err error) {
	large := 0
	for _, value := range header["Content-Encoding"] {
		for name := range strings.SplitSeq(value, ",") {
			switch name = strings.ToLower(strings.TrimSpace(name)); name {
			case "", "identity":
				continue
			case "x-gzip":
				name = "gzip"
			case "br", "zstd":
				large++
			}
			names = append(names, name)
		}
	}
	if len(names) > maxCodings || large > 1 {
		return nil, fmt.Errorf("%w: too many, %.80q", ErrCoding, header["Content-Encoding"])
	}
	return names, nil
}

// unpack returns the content of the body on wire, and a function that releases its
// resources. Some servers announce a coding but send a plain body, which is returned
// unchanged: see plainOr. The error comes from the connection, from grow or from ctx.
//
// gzip and deflate need little memory and are unpacked while they are received. The decoders
// of the other codings may need many megabytes. Such a body is unpacked after it was received
// as a whole, and at most GOMAXPROCS of them are unpacked at once. So the memory of the
// decoders is bounded for any number of bodies, and a slow server does not delay others.
//
// A brotli or zstd body takes memory before it is unpacked: see unpacking. The function
// release gives back the memory that the content did not need.
func (c *Client) unpack(ctx context.Context, wire *wireReader, r *Response, limit int64, grow func(more int64) error) (plain io.Reader, release func(), err error) {
	names, err := codingsOf(r.Header)
	switch {
	case err != nil:
		return failedReader{err}, func() {}, nil
	case len(names) == 0:
		return wire, func() {}, nil
	case !slices.Contains(names, "br") && !slices.Contains(names, "zstd"):
		plain, release = openAll(names, wire, limit, c.zstd)
		return plain, release, nil
	}
	packed := newBuffer()
	if err := packed.fill(wire, wire.left, grow); err != nil && !wire.ended && wire.cut == nil && wire.left > 0 {
		packed.release()
		return nil, nil, err
	}
	u := &unpacking{ctx: ctx, places: c.unpackers, zstd: c.zstd, names: names, limit: limit, packed: packed, grow: grow, most: max(limit, maxPooled)}
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

// openAll returns the content of a body that was packed with each of names, one after the
// other. The results of all steps but the last are bounded like a packed body.
func openAll(names []string, body io.Reader, limit int64, zstdReaders *sync.Pool) (plain io.Reader, release func()) {
	var releases []func()
	for i, name := range slices.Backward(names) {
		var done func()
		body, done = openOne(name, body, zstdReaders)
		releases = append(releases, done)
		if i > 0 {
			body = &bounded{from: body, left: maxPacked(limit)}
		}
	}
	return body, func() {
		for _, done := range releases {
			done()
		}
	}
}

// bounded returns errLonger after some bytes.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errLonger
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// openOne returns the content of a body that was packed with name.
func openOne(name string, body io.Reader, zstdReaders *sync.Pool) (plain io.Reader, release func()) {
	if name == "gzip" {
		z := gzipReaders.Get().(*gzipReader)
		return z.open(body), z.release
	}
	in := bufio.NewReaderSize(body, 4<<10)
	begin, _ := in.Peek(in.Size())
	switch name {
	case "deflate":
		if size, ok := deflateHeader(begin); ok {
			_, _ = in.Discard(size)
			return flate.NewReader(in), func() {}
		}
	case "br":
		z := brotliReaders.Get().(*brotli.Reader)
		release = func() { z.Reset(nil); brotliReaders.Put(z) }
		z.Reset(bytes.NewReader(begin))
		if n, err := z.Read(make([]byte, 1)); n > 0 || err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
			z.Reset(in)
			return z, release
		}
		release()
	case "zstd":
		if isZstd(begin) {
			z := zstdReaders.Get().(*zstd.Decoder)
			if err := z.Reset(in); err != nil {
				return failedReader{err}, func() {}
			}
			return z, func() { z.Reset(nil); zstdReaders.Put(z) }
		}
	}
	return plainOr(name, in, begin), func() {}
}

// plainOr returns the body in if its beginning looks like text, an image, audio or video.
// Otherwise reading fails, because the body is neither plain nor packed with name. Chromium
// takes such a body as plain for gzip, deflate and unknown names, and refuses it for br and
// zstd; curl refuses it.
func plainOr(name string, in io.Reader, begin []byte) io.Reader {
	kind, _, _ := strings.Cut(http.DetectContentType(begin[:min(len(begin), 512)]), "/")
	if slices.Contains([]string{"text", "image", "audio", "video"}, kind) {
		return in
	}
	return failedReader{fmt.Errorf("%w: the body is neither plain nor %.80q", ErrCoding, name)}
}

// deflateHeader returns the length of the zlib header (RFC 1950) of a body that begins with
// begin. Some servers send raw data (RFC 1951) without such a header. ok is false for other
// data.
func deflateHeader(begin []byte) (size int, ok bool) {
	const zlibHeader, method, dictionary = 2, 8, 0x20
	if len(begin) >= zlibHeader && begin[0]&0x0f == method && begin[0]>>4 <= 7 && begin[1]&dictionary == 0 &&
		(int(begin[0])<<8|int(begin[1]))%31 == 0 && isDeflate(begin[zlibHeader:]) {
		return zlibHeader, true
	}
	return 0, len(begin) > 0 && isDeflate(begin)
}

// isDeflate reports whether begin can be the beginning of raw deflate data.
func isDeflate(begin []byte) bool {
	n, err := flate.NewReader(bytes.NewReader(begin)).Read(make([]byte, 1))
	return n > 0 || err == io.EOF || err == io.ErrUnexpectedEOF
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
	zstd   *sync.Pool // of the Client
	names  []string   // the content codings
	limit  int64      // of the content
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
	plain, release := openAll(u.names, u.packed.reader(), u.limit, u.zstd)
	u.plain, u.done = plain, func() { release(); <-u.places }
	return nil
}

func (u *unpacking) leave() {
	if u.done != nil {
		u.done()
		u.done = nil
	}
}

// isZstd reports whether body begins like a zstd frame or a skippable frame.
func isZstd(body []byte) bool {
	return len(body) >= 4 && (string(body[:4]) == "\x28\xb5\x2f\xfd" ||
		body[0]&0xf0 == 0x50 && string(body[1:4]) == "\x2a\x4d\x18")
}

var brotliReaders = sync.Pool{New: func() any { return brotli.NewReader(nil) }}

// newZstdPool returns a pool of decoders. Each Client has its own, because a decoder has a channel, and a test in a
// synctest bubble must not use the channels of another test.
func newZstdPool() *sync.Pool {
	return &sync.Pool{New: func() any {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			panic(err) // the options are not valid
		}
		return z
	}}
}

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
		begin, _ := z.in.Peek(512)
		return plainOr("gzip", z.in, begin)
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
