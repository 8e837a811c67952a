package get

//lint:file-ignore SA1019 net/http's own ClientConn dials by itself, past the guard and before TLS has chosen the protocol; the deprecated one takes a connection

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
)

// h2 makes the HTTP/2 connections of a Client. net/http's own support repeats
// requests, and asking it not to with a body, as onceBody does for HTTP/1.1,
// would send an empty DATA frame that some servers take for a body. A bare
// http2.ClientConn repeats nothing.
type h2 struct {
	transport *http2.Transport

	mu    sync.Mutex
	conns map[*h2Conn]struct{} // open ones
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

// upgrade makes a connection that agreed on HTTP/2 a RoundTripper, which
// net/http keeps and uses for all requests to the host.
func (h *h2) upgrade(_ string, tlsConn *tls.Conn) http.RoundTripper {
	conn := &h2Conn{closed: func(c *h2Conn) {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.conns, c)
	}}
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
	var idle []*http2.ClientConn
	for conn := range h.conns {
		if client := conn.client.Load(); client != nil && client.State().StreamsActive == 0 {
			idle = append(idle, client)
		}
	}
	h.mu.Unlock()
	for _, client := range idle {
		client.Close()
	}
}

// h2Conn is one HTTP/2 connection.
type h2Conn struct {
	client atomic.Pointer[http2.ClientConn]
	used   atomic.Bool
	closed func(*h2Conn)
}

// RoundTrip sends request once. Its permission it asks for itself: the connection
// is that of other requests, too.
func (c *h2Conn) RoundTrip(request *http.Request) (*http.Response, error) {
	client := c.client.Load()
	if permission := permissionOf(request.Context()); permission != nil {
		if err := permission.err(); err != nil {
			return nil, err
		}
	}
	if !client.ReserveNewRequest() {
		return nil, errNoConn{} // nothing was sent; net/http dials anew
	}
	if trace := httptrace.ContextClientTrace(request.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Reused: c.used.Swap(true)})
	}
	bare := *request // the caller's stays as it is
	bare.Body, bare.TransferEncoding = nil, nil
	return client.RoundTrip(&bare)
}

// isStreamError reports whether the server refused one request of a connection
// that goes on: it is about the request, not about the connection.
func isStreamError(err error) bool {
	_, ok := errors.AsType[http2.StreamError](err)
	return ok
}

// h2Socket tells when the connection is closed, by whichever side.
type h2Socket struct {
	*tls.Conn
	owner *h2Conn
}

func (s *h2Socket) Close() error {
	s.owner.closed(s.owner)
	return s.Conn.Close()
}

// errNoConn tells net/http to forget the connection and open another: the one
// case in which it goes on by itself, before anything was sent.
type errNoConn struct{}

func (errNoConn) Error() string             { return "get: HTTP/2 connection takes no more requests" }
func (errNoConn) IsHTTP2NoCachedConnError() {}

// failedConn is a connection that could not be set up.
type failedConn struct{ err error }

func (f failedConn) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.Join(errors.New("get: HTTP/2 set-up"), f.err)
}
func (f failedConn) RoundTripErr() error { return f.err }
