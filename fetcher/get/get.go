// Package get makes one HTTP request and returns one answer.
//
// It owns the connections, the limits on what a server may send, and the guard that
// prevents connections to addresses that are not public. It follows no redirects, keeps no
// cookies, reads no environment variables, checks no robots.txt (package robots) and waits
// for no delays (package politeness). A redirect is an answer like any other: the caller
// decides whether and when to request its target.
//
// A request is sent at most once. net/http repeats a GET if a connection that it reuses
// was reset. That would be a second request within the host's delay. Here such a failure
// is ErrStale, and the caller repeats the request after the host's delay. See onceBody.
//
// Requests use HTTP/1.1. A host that speaks only HTTP/2 is reported as ErrHTTP2Only.
package get

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
)

// Client makes requests. It is safe for concurrent use.
type Client struct {
	config    Config
	limits    limits
	header    http.Header // of every request; never changed
	private   http.Header // of requests with Request.Private; never changed
	anyType   bool
	dialer    *dialer
	transport http.RoundTripper
	close     func()
	zstd      *sync.Pool    // of zstd decoders
	unpackers chan struct{} // one for each body that is being unpacked; see unpack
}

// New returns a Client. The error names every fault of config.
func New(config Config) (*Client, error) {
	config, dialer, err := config.prepare()
	if err != nil {
		return nil, err
	}
	c := &Client{
		config:    config,
		limits:    newLimits(config),
		anyType:   slices.Contains(config.Types, AnyType),
		dialer:    dialer,
		close:     func() {},
		unpackers: make(chan struct{}, runtime.GOMAXPROCS(0)),
		zstd:      newZstdPool(),
	}
	c.header, c.private = splitHeaders(config)
	c.transport = config.Transport
	if c.transport == nil {
		c.transport, c.close = newTransport(config, c.dialer)
	}
	if config.Wrap != nil {
		c.transport = wrapping{config.Wrap(unwrapping{c.transport, c.CheckPort})}
	}
	return c, nil
}

// UserAgent returns the User-Agent of requests: that of Config.Headers, or
// Config.UserAgent.
func (c *Client) UserAgent() string { return c.header.Get("User-Agent") }

// BytesRead returns how many bytes all connections have read, headers and TLS
// included.
func (c *Client) BytesRead() int64 { return c.dialer.read.Load() }

// LookUps returns how many requests wait for the address of a name now.
func (c *Client) LookUps() int { return c.dialer.resolver.Waiting() }

// Close closes the connections that no request is using.
func (c *Client) Close() { c.close() }

// newTransport returns the transport for HTTP/1.1, which makes all connections through d. The proxy is part of d. It is
// not configured in net/http, because net/http would send the names of hosts to the proxy.
func newTransport(config Config, d *dialer) (_ http.RoundTripper, closeIdle func()) {
	secure := &tls.Config{
		RootCAs: config.RootCAs, NextProtos: []string{"http/1.1"},
		// Resumed sessions need no certificates and no verification.
		ClientSessionCache: tls.NewLRUClientSessionCache(config.MaxIdleConns),
	}
	dialTLS := func(ctx context.Context, _, address string) (net.Conn, error) {
		return d.dialTLS(ctx, address, secure)
	}
	mended := func(dial dialFunc) dialFunc {
		if config.Capture {
			dial = tap(dial)
		}
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return newMending(conn, config.MaxHeaderBytes), nil
		}
	}
	t := &http.Transport{
		DialContext:            mended(d.dialPlain),
		DialTLSContext:         mended(dialTLS),
		DisableCompression:     true, // bodies are decompressed under our own limits
		MaxIdleConns:           config.MaxIdleConns,
		MaxIdleConnsPerHost:    config.MaxIdleConnsPerHost,
		IdleConnTimeout:        config.IdleTimeout,
		MaxResponseHeaderBytes: config.MaxHeaderBytes + 4<<10,                          // mending checks the limit; a mended status line can be longer
		ReadBufferSize:         4 << 10,                                                // per connection, even if idle; longer reads bypass it
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // no HTTP/2
	}
	if config.ProxyAbsolute {
		return absolute{t, d}, t.CloseIdleConnections
	}
	return t, t.CloseIdleConnections
}

// DialContext connects to address, a host and a port, as requests do: only to addresses that may be dialled, and through the proxy. It is
// for an http.Transport that makes other requests than this client.
func (c *Client) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	return c.dialer.dial(ctx, address, false)
}

// CheckHost reports, before any request, whether host (a name or an address, without a
// port) has an address that may be dialled. It returns an *AddressError if all addresses
// are refused, ErrURL if host is not a valid name, and an *Error if the look-up failed.
func (c *Client) CheckHost(ctx context.Context, host string) error {
	return c.dialer.checkHost(ctx, host)
}
