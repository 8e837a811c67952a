package get

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// mending is a connection whose answers net/http can read. net/http refuses answers that
// browsers show, such as those with one odd header field or with an odd chunk. mending knows
// from the write of a request that an answer follows. It passes on an ordinary answer
// unchanged, in the buffer of the caller, and mends any other: see mendHead and chunks. After
// a mended answer, and after bytes that belong to no answer, the connection ends.
//
// The other ways were a copy of the parser of net/http, which must then be kept up to date,
// and a transport of our own, which must do again what net/http does well: reuse, limits and
// cancellation of connections.
//
// One goroutine reads and one goroutine writes, as net/http does.
type mending struct {
	net.Conn
	maxHead int64

	open   atomic.Bool // a request was written, and the end of its answer was not read yet
	method string      // of the request; written before open is set
	asked  chan struct{}
	wrote  sync.Once // closes asked: at the first request, and when the connection is closed

	began atomic.Bool // the answer began like an answer of HTTP

	// The other fields belong to the goroutine that reads.
	state  mendState
	head   []byte // the beginning of a header whose end was not read yet
	line   int    // where the last line of head begins
	heads  int64  // bytes of headers since the request, interim answers included
	left   int64  // bytes of the body, in readBytes
	chunks chunks
	mended bool

	same  int    // bytes at the beginning of the caller's buffer that are passed on unchanged
	out   []byte // mended bytes that follow them
	moved bool   // bytes are appended to out from now on
	after error  // follows out
}

type mendState int

const (
	awaitHead mendState = iota
	readBytes           // a body of known length
	readChunks
	readRest // all other bytes of the connection
)

func newMending(conn net.Conn, maxHead int64) *mending {
	return &mending{Conn: conn, maxHead: maxHead, asked: make(chan struct{})}
}

// Write notes that an answer follows.
func (m *mending) Write(p []byte) (int, error) {
	if !m.open.Load() {
		m.began.Store(false)
		m.method, _, _ = strings.Cut(string(p[:min(len(p), len("CONNECT "))]), " ")
		m.open.Store(true)
		m.wrote.Do(func() { close(m.asked) })
	}
	return m.Conn.Write(p)
}

func (m *mending) Close() error {
	m.wrote.Do(func() { close(m.asked) })
	return m.Conn.Close()
}

func (m *mending) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if len(m.out) > 0 {
			n := copy(p, m.out)
			if m.out = m.out[n:]; len(m.out) > 0 {
				return n, nil
			}
			return n, m.after
		}
		if m.after != nil {
			return 0, m.after
		}
		n, err := m.Conn.Read(p)
		m.same, m.out, m.moved = 0, nil, false
		m.take(p[:n])
		if err != nil && m.after == nil {
			m.after = m.atEnd(err)
		}
		if m.same > 0 && len(m.out) == 0 {
			return m.same, m.after
		}
		if m.same > 0 {
			return m.same, nil
		}
	}
	return 0, nil
}

// pass passes on the next bytes of the connection unchanged.
func (m *mending) pass(b []byte) {
	if m.moved {
		m.out = append(m.out, b...)
	} else {
		m.same += len(b)
	}
}

// put passes on bytes that were not received so, or drops bytes if b is empty.
func (m *mending) put(b []byte) {
	m.moved = true
	m.out = append(m.out, b...)
}

// take interprets the next bytes of the connection.
func (m *mending) take(b []byte) {
	for len(b) > 0 && m.after == nil {
		switch m.state {
		case awaitHead:
			if !m.open.Load() && !m.isFirst() {
				m.after = io.EOF // bytes after the end of an answer, which no request asked for
				return
			}
			b = m.takeHead(b)
		case readBytes:
			n := min(int64(len(b)), m.left)
			m.pass(b[:n])
			b, m.left = b[n:], m.left-n
			m.endIf(m.left == 0, b)
		case readChunks:
			n, err := m.chunks.take(b, m)
			b = b[n:]
			if err != nil {
				m.after = err
				return
			}
			m.endIf(m.chunks.done, b)
		case readRest:
			m.pass(b)
			return
		}
	}
}

// isFirst waits until the first request was written, or the connection was closed. It
// returns false if bytes arrived after the answer to another request.
func (m *mending) isFirst() bool {
	select {
	case <-m.asked:
		return m.open.Load()
	default:
	}
	<-m.asked
	return true
}

// endIf notes the end of an answer. b are the bytes after the end. If there are any, or if
// the answer was mended, net/http must not use the connection again. An io.EOF together with
// the last bytes tells it so.
func (m *mending) endIf(end bool, b []byte) {
	if !end {
		return
	}
	m.state, m.heads = awaitHead, 0
	m.open.Store(false)
	if m.mended || m.chunks.mended || len(b) > 0 {
		m.after = io.EOF
	}
}

// takeHead interprets bytes of a header and returns those after it.
func (m *mending) takeHead(b []byte) (rest []byte) {
	if len(m.head) == 0 {
		if size := headLen(b); size > 0 && int64(size) <= m.maxHead-m.heads {
			if head, code, plain := plainHead(b[:size]); plain && head.framing < interim {
				m.began.Store(true)
				m.pass(b[:size])
				m.begin(head.forMethod(m.method, code), b[size:])
				return b[size:]
			}
		}
	}
	before := len(m.head)
	m.head = append(m.head, b...)
	m.put(nil)
	switch yes, known := beginsAnswer(m.head); {
	case yes:
		m.began.Store(true)
	case known && !mayBeHTTP2(m.head):
		m.after = notHTTP(m.head)
		return nil
	default:
		return nil // too short to tell
	}
	size := m.headEnd(before)
	if m.heads+int64(len(m.head)) > m.maxHead && (size == 0 || m.heads+int64(size) > m.maxHead) {
		m.after = headerTooLong(m.maxHead)
		return nil
	}
	if size == 0 {
		return nil
	}
	rest = b[size-before:]
	m.heads += int64(size)
	m.readHead(m.head[:size], rest)
	m.head, m.line = nil, 0
	return rest
}

// headEnd returns the length of the header in m.head, or 0 if its end was not received yet.
// Only the bytes from before on are new.
func (m *mending) headEnd(before int) int {
	if m.line == 0 {
		m.line = slop(m.head)
		before = max(before, m.line)
	}
	for begin := m.line; ; begin = m.line {
		end := bytes.IndexByte(m.head[before:], '\n')
		if end < 0 {
			return 0
		}
		before += end + 1
		m.line = before
		if begin > maxSlop && len(bytes.TrimRight(m.head[begin:before], "\r\n")) == 0 {
			return before
		}
	}
}

// readHead interprets a whole header.
func (m *mending) readHead(raw, rest []byte) {
	head, code, plain := plainHead(raw)
	if !plain {
		mended, odd, status, err := mendHead(raw)
		if err != nil {
			m.after = err
			return
		}
		raw, head, code = mended, odd, status
	}
	if head.framing == interim {
		return
	}
	m.mended = !plain
	m.put(raw)
	m.begin(head.forMethod(m.method, code), rest)
}

// begin begins the body of an answer.
func (m *mending) begin(head answerHead, rest []byte) {
	m.chunks = chunks{}
	switch head.framing {
	case byLength:
		m.state, m.left = readBytes, head.length
		m.endIf(m.left == 0, rest)
	case byChunks:
		m.state = readChunks
	default:
		m.state = readRest
	}
}

// atEnd returns the error of Read after the connection ended with err.
func (m *mending) atEnd(err error) error {
	if m.state == readRest || m.state == awaitHead && len(m.head) == 0 && m.heads == 0 {
		return err
	}
	if m.state == awaitHead {
		if yes, _ := beginsAnswer(m.head); !yes && m.heads == 0 && errors.Is(err, io.EOF) {
			return notHTTP(m.head)
		}
		return brokenHead{err}
	}
	if m.state == readChunks && m.chunks.last {
		m.put(m.chunks.finish())
		return io.EOF // only the trailer is missing
	}
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// brokenHead reports that a header began, and did not end.
type brokenHead struct{ error }

func (e brokenHead) Error() string { return "the header ends early: " + e.error.Error() }
func (e brokenHead) Unwrap() error { return e.error }

// notHTTP returns the error for bytes that are no answer.
func notHTTP(raw []byte) error {
	if isHTTP2(raw) {
		return ErrHTTP2Only
	}
	return fmt.Errorf("%w: it begins with %.40q", ErrNotHTTP, raw)
}

// headerTooLong reports a header that is longer than this number of bytes.
type headerTooLong int64

func (most headerTooLong) Error() string {
	return fmt.Sprintf("the header is longer than %d bytes", int64(most))
}
