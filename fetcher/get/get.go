// Package get makes one HTTP request and brings back one answer.
//
// It owns the connections, the limits on what a server may send, and the guard
// that keeps the crawler from dialling addresses that are nobody's public web
// server. It follows no redirect, keeps no cookie, reads no environment, asks
// no robots.txt (package robots) and knows no delay (package politeness): a
// redirect is an answer, and whoever calls decides when.
//
// A request is on the wire at most once. net/http repeats a GET whose kept
// connection was reset, which would be a second request inside the host's
// delay; here such a failure is reported as ErrStale and the caller repeats it
// when the host is due. See onceBody and h2.go for how.
package get

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Defaults of Config.
const (
	DefaultTimeout        = 30 * time.Second
	DefaultDialTimeout    = 10 * time.Second
	DefaultMaxBodyBytes   = 10 << 20
	DefaultMaxHeaderBytes = 256 << 10
	// DefaultMaxIdleConns is at least the connections that a process keeps
	// busy, so that one kept for a host is still there when the host is due.
	DefaultMaxIdleConns        = 512
	DefaultMaxIdleConnsPerHost = 16
	DefaultIdleTimeout         = 30 * time.Second
)

// AnyType as the only element of Config.Types accepts every content type.
const AnyType = "*"

// HTMLTypes are the content types of HTML, the default of Config.Types.
func HTMLTypes() []string { return []string{"text/html", "application/xhtml+xml"} }

// Config says what a Client sends and what it takes. The zero value works.
type Config struct {
	UserAgent      string         // empty means "crawler"
	Headers        http.Header    // sent with every request; Host sets the Host header
	Timeout        time.Duration  // from connect to the last byte of the body; 0 means DefaultTimeout
	DialTimeout    time.Duration  // for a connection, and again for its TLS handshake; 0 means DefaultDialTimeout
	MaxBodyBytes   int64          // decompressed, a longer body is cut; 0 means DefaultMaxBodyBytes
	MaxHeaderBytes int64          // more is an error; 0 means DefaultMaxHeaderBytes
	Types          []string       // wanted content types, lower case, without parameters; nil means HTMLTypes
	ConnectTo      []Rule         // the first that matches says where to connect
	AllowPrivate   bool           // dial every address, not only public ones
	RootCAs        *x509.CertPool // nil means the system's

	MaxIdleConns        int           // kept connections in all; 0 means DefaultMaxIdleConns
	MaxIdleConnsPerHost int           // 0 means DefaultMaxIdleConnsPerHost
	IdleTimeout         time.Duration // 0 means DefaultIdleTimeout

	// Transport replaces the network, connections, guard and ConnectTo
	// included; for tests.
	Transport http.RoundTripper
}

// withDefaults returns c with its zero values replaced, and all its faults.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"Timeout", int64(c.Timeout)}, {"DialTimeout", int64(c.DialTimeout)},
		{"MaxBodyBytes", c.MaxBodyBytes}, {"MaxHeaderBytes", c.MaxHeaderBytes},
		{"MaxIdleConns", int64(c.MaxIdleConns)}, {"MaxIdleConnsPerHost", int64(c.MaxIdleConnsPerHost)},
		{"IdleTimeout", int64(c.IdleTimeout)},
	} {
		if field.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %d, want 0 or more", field.name, field.value))
		}
	}
	if !httpguts.ValidHeaderFieldValue(c.UserAgent) {
		errs = append(errs, fmt.Errorf("UserAgent is %q, want no control characters", c.UserAgent))
	}
	for name, values := range c.Headers {
		if !httpguts.ValidHeaderFieldName(name) {
			errs = append(errs, fmt.Errorf("header name %q is not a token", name))
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				errs = append(errs, fmt.Errorf("header %s is %q, want no control characters", name, v))
			}
		}
	}
	for _, t := range c.Types {
		if t != AnyType && (t != mediaType(t) || !strings.Contains(t, "/")) {
			errs = append(errs, fmt.Errorf("type %q, want lower case type/subtype or %q", t, AnyType))
		}
	}
	c.UserAgent = cmp.Or(c.UserAgent, "crawler")
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.DialTimeout = cmp.Or(c.DialTimeout, DefaultDialTimeout)
	c.MaxBodyBytes = cmp.Or(c.MaxBodyBytes, DefaultMaxBodyBytes)
	c.MaxHeaderBytes = cmp.Or(c.MaxHeaderBytes, DefaultMaxHeaderBytes)
	c.MaxIdleConns = cmp.Or(c.MaxIdleConns, DefaultMaxIdleConns)
	c.MaxIdleConnsPerHost = cmp.Or(c.MaxIdleConnsPerHost, DefaultMaxIdleConnsPerHost)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	if c.Types == nil {
		c.Types = HTMLTypes()
	}
	return c, errors.Join(errs...)
}

// Client makes requests. It is safe for concurrent use.
type Client struct {
	config    Config
	header    http.Header // of every request; never changed
	host      string      // the Host header, if Headers has one
	anyType   bool
	dialer    *dialer
	transport http.RoundTripper
	close     func()
}

// New returns a Client. The error names every fault of config.
func New(config Config) (*Client, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	c := &Client{
		config:  config,
		header:  baseHeader(config),
		host:    config.Headers.Get("Host"),
		anyType: slices.Contains(config.Types, AnyType),
		dialer:  newDialer(config),
		close:   func() {},
	}
	c.transport = config.Transport
	if c.transport == nil {
		c.transport, c.close = newTransport(config, c.dialer)
	}
	return c, nil
}

// Close closes the kept connections that no request is using.
func (c *Client) Close() { c.close() }

// baseHeader returns what every request sends; config.Headers win.
func baseHeader(config Config) http.Header {
	h := http.Header{
		"User-Agent":      {config.UserAgent},
		"Accept":          {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"},
		"Accept-Encoding": {"gzip"},
	}
	for name, values := range config.Headers {
		if name = http.CanonicalHeaderKey(name); name != "Host" {
			h[name] = slices.Clone(values)
		}
	}
	return h
}

// newTransport returns the network: HTTP/1.1 and 2, kept connections, every
// address through d. No proxy: it would dial for us, past the guard.
func newTransport(config Config, d *dialer) (_ http.RoundTripper, closeIdle func()) {
	h2 := newH2(config)
	t := &http.Transport{
		DialContext:            d.dial,
		TLSClientConfig:        &tls.Config{RootCAs: config.RootCAs, NextProtos: []string{"h2", "http/1.1"}},
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{"h2": h2.upgrade},
		TLSHandshakeTimeout:    config.DialTimeout,
		DisableCompression:     true, // bodies are decompressed under our own limits
		MaxIdleConns:           config.MaxIdleConns,
		MaxIdleConnsPerHost:    config.MaxIdleConnsPerHost,
		IdleConnTimeout:        config.IdleTimeout,
		MaxResponseHeaderBytes: config.MaxHeaderBytes,
		ReadBufferSize:         16 << 10, // a page in one or two reads
	}
	return t, func() {
		t.CloseIdleConnections()
		h2.closeIdle()
	}
}

// CheckHost reports, before anything is requested, whether host (a name or an
// address, no port) has an address that may be dialled. It returns an
// *AddressError when it has only others, and an *Error when it has none.
func (c *Client) CheckHost(ctx context.Context, host string) error {
	return c.dialer.checkHost(ctx, net.DefaultResolver, host)
}
