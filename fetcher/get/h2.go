package get

//lint:file-ignore SA1019 http2.ClientConn is deprecated, but http.ClientConn always dials a new connection and cannot use the one that upgrade gets

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
)

// h2 makes the HTTP/2 connections of a Client. The HTTP/2 support of net/http repeats
// requests. A body that cannot be rewound, like onceBody for HTTP/1.1, would prevent that.
// But net/http would then send an empty DATA frame, which some servers treat as a body. A
// plain http2.ClientConn repeats no requests.
type h2 struct {
	transport *http2.Transport

	mu    sync.Mutex
	conns map[*h2Conn]struct{} // open connections
}

func newH2(config Config) *h2 {
	return &h2{
		transport: &http2.Transport{
			DisableCompression: true,
			MaxHeaderListSize:  uint32(min(config.MaxHeaderBytes, 1<<30)),
			IdleConnTimeout:    config.IdleTimeout,
		},
		conns: make(map[*h2Conn]struct{}),
	}
}

// upgrade turns a connection that negotiated HTTP/2 into a RoundTripper. net/http keeps
// it and uses it for all requests to the host.
func (h *h2) upgrade(_ string, tlsConn *tls.Conn) http.RoundTripper {
	conn := &h2Conn{socket: tlsConn, closed: func(c *h2Conn) {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.conns, c)
	}}
	conn.meter.grant(1)
	h.mu.Lock()
	h.conns[conn] = struct{}{}
	h.mu.Unlock()
	client, err := h.transport.NewClientConn(&h2Socket{Conn: tlsConn, owner: conn})
	if err != nil {
		tlsConn.Close()
		return failedConn{err}
	}
	conn.client.Store(client)
	return conn
}

// closeIdle closes the connections that no request is using.
func (h *h2) closeIdle() {
	h.mu.Lock()
	conns := slices.Collect(maps.Keys(h.conns))
	h.mu.Unlock()
	for _, conn := range conns {
		if conn.idle() {
			conn.close()
		}
	}
}

// h2Conn is one HTTP/2 connection. After one of its requests ended with an error, it
// accepts no more requests, and is closed when the other requests have ended. Otherwise the
// http2 client would continue to read what the server sends.
type h2Conn struct {
	client atomic.Pointer[http2.ClientConn]
	socket *tls.Conn
	used   atomic.Bool
	closed func(*h2Conn)
	meter  h2Meter

	mu     sync.Mutex
	active int  // requests that have not ended
	failed bool // a request ended with an error, and no more are sent
}

// RoundTrip sends request once, and only if Request.Permit permits it. For HTTP/1.1 the gated
// connection calls Permit. Here it cannot, because several requests share the connection.
func (c *h2Conn) RoundTrip(request *http.Request) (*http.Response, error) {
	if !c.begin() {
		return nil, errNoConn{} // nothing was sent; net/http dials again
	}
	if trace := httptrace.ContextClientTrace(request.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Reused: c.used.Swap(true)}) // calls Request.Sent
	}
	if permission := permissionOf(request.Context()); permission != nil {
		if err := permission.err(); err != nil {
			// The http2 client still counts the request that begin reserved, and has no call to
			// cancel that. So the connection takes no more requests.
			c.end(true)
			return nil, err
		}
	}
	bare := *request // a copy, because the caller's request must not change
	bare.Body, bare.TransferEncoding = nil, nil
	response, err := c.client.Load().RoundTrip(&bare)
	if err != nil {
		c.end(true)
		return nil, err
	}
	response.Body = &h2Body{ReadCloser: response.Body, conn: c, ctx: request.Context()}
	return response, nil
}

// begin counts a request if the connection accepts another one.
func (c *h2Conn) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed || !c.client.Load().ReserveNewRequest() {
		return false
	}
	c.active++
	c.meter.grant(c.active)
	return true
}

// end ends a request that begin counted.
func (c *h2Conn) end(failed bool) {
	c.mu.Lock()
	c.active--
	c.failed = c.failed || failed
	last := c.failed && c.active == 0
	c.mu.Unlock()
	if last {
		c.close()
	}
}

// idle reports whether no request is under way. It does not ask the http2 client, which
// holds its locks while it writes to a server that does not read.
func (c *h2Conn) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active == 0
}

// close closes the connection at once, even if a write is waiting.
func (c *h2Conn) close() {
	_ = c.socket.NetConn().Close()
	if client := c.client.Load(); client != nil {
		_ = client.Close()
	}
}

// h2Body is the body of an answer. Closing it ends the request.
type h2Body struct {
	io.ReadCloser
	conn   *h2Conn
	ctx    context.Context // of the request
	failed bool
	once   sync.Once
}

func (b *h2Body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.conn.meter.consumed(n)
	b.failed = b.failed || err != nil && err != io.EOF
	return n, err
}

// Close implements io.Closer. Closing a body before its end is not an error.
func (b *h2Body) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(func() { b.conn.end(b.failed || b.ctx.Err() != nil) })
	return err
}

// isStreamError reports whether the server refused one request and not the connection.
func isStreamError(err error) bool {
	_, ok := errors.AsType[http2.StreamError](err)
	return ok
}

// h2Socket is the socket of an h2Conn. It reports to the h2Conn which bytes are read, and
// when the connection is closed.
type h2Socket struct {
	*tls.Conn
	owner *h2Conn
}

func (s *h2Socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if flood := s.owner.meter.received(p[:n]); flood != nil {
		return 0, flood
	}
	return n, err
}

func (s *h2Socket) Close() error {
	s.owner.closed(s.owner)
	return s.Conn.Close()
}

// errNoConn makes net/http forget the connection and open another. net/http does so only
// for this error, and only before anything was sent.
type errNoConn struct{}

func (errNoConn) Error() string             { return "get: HTTP/2 connection takes no more requests" }
func (errNoConn) IsHTTP2NoCachedConnError() {}

// failedConn is a connection that could not be set up.
type failedConn struct{ err error }

func (f failedConn) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.Join(errors.New("get: HTTP/2 set-up"), f.err)
}
func (f failedConn) RoundTripErr() error { return f.err }
