package get

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Request is one request.
type Request struct {
	URL    string      // absolute, http or https; a fragment is not sent
	Header http.Header // added to, or instead of, the Client's
	// Private sends those of Config.Headers too that are PrivateHeader. It is for
	// URLs of sites that the user named, not for where links and redirects lead.
	Private bool
	// Started, unless nil, is called exactly once, before connect: the start
	// that politeness counts. It is not called when URL is no URL,
	// or its port is refused.
	Started func()
	// Sent, unless nil, is called at most once, with a connection at hand,
	// right before the request is written. A slow connect lies between Started
	// and Sent: who counts the later one too keeps the host's own view of the
	// distance between two requests.
	Sent func()
	// Permit, unless nil, is asked before the request is written, the last time
	// right before: whatever else takes long, or the process standing still, lies
	// before it. Its error keeps the request from being written: Get returns it
	// with ErrAborted. Several goroutines ask, one after the other.
	Permit  func() error
	AnyType bool  // take any content type, whatever Config.Types says
	MaxBody int64 // instead of Config.MaxBodyBytes; 0: that
	// Grow, unless nil, is called before the answer's body takes more bytes of
	// memory, Client.MaxHeld at most in all, and may wait: a server's rate is
	// not judged by that time, Config.Timeout goes on. Its error ends the request.
	Grow func(ctx context.Context, more int64) error
}

// Get makes one request. It returns an error unless a whole answer came: one
// of ErrAborted (ctx ended, or Request.Permit), ErrStale, *AddressError, *PortError, *Error, or an
// error that says why URL cannot be requested (ErrURL); Classify says what each means.
// The caller releases the Response.
func (c *Client) Get(ctx context.Context, request Request) (*Response, error) {
	hr, err := c.build(request)
	if err != nil {
		return nil, err
	}
	caller := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, c.config.Timeout, c.limits.errWhole)
	defer stop()
	f := &flight{limits: &c.limits, sent: request.Sent, cancel: cancel, permission: &permission{ask: request.Permit}}
	defer f.leaveGate()
	if c.config.Capture {
		f.capture = newCapture(c.maxCaptured(request))
		defer f.capture.end()
	}
	hr = hr.WithContext(httptrace.WithClientTrace(context.WithValue(ctx, permissionKey{}, f.permission), f.trace()))

	start := time.Now()
	if request.Started != nil {
		request.Started()
	}
	if f.permission.err() != nil {
		return nil, f.permission.abort()
	}
	if c.config.Transport != nil {
		f.send(false) // a replaced network has no connections to wait for
	}
	response, err := c.exchange(hr, f, request)
	if err != nil && caller.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrAborted, context.Cause(caller))
	}
	if denied := f.permission.abort(); err != nil && denied != nil {
		return nil, denied
	}
	if err != nil {
		return nil, err
	}
	response.Duration = time.Since(start)
	return response, nil
}

// exchange sends hr and reads the answer.
func (c *Client) exchange(hr *http.Request, f *flight, request Request) (*Response, error) {
	begin := time.Now()
	answer, err := c.transport.RoundTrip(hr)
	f.headerCame()
	if err != nil {
		return nil, f.fault(hr.Context(), err)
	}
	defer answer.Body.Close()
	if sent := f.sentAt.Load(); sent != nil {
		begin = *sent
	}
	response := newResponse(answer)
	response.Latency = time.Since(begin)
	wire := &wireReader{from: answer.Body, left: maxDrain + 1, pace: pace{limits: f.limits, cancel: f.cancel}}
	wire.pace.start()
	defer wire.pace.stop()
	err = c.readBody(hr.Context(), response, wire, answer.ContentLength, request)
	response.WireBytes = wire.pace.read.Load()
	if err != nil {
		response.Release()
		err = because(hr.Context(), err)
		f.cancel(err) // before the body is closed, so that its connection is
		return nil, &Error{Op: OpBody, Err: err}
	}
	if f.capture != nil {
		f.capture.give(response, answer, begin, wire.ended)
	}
	return response, nil
}

// because returns why ctx ended, if it did, for what net/http then says does
// not tell.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// flight is what httptrace says of one request. Its callbacks come from
// several goroutines, some after Get has returned.
type flight struct {
	limits   *limits
	cancel   context.CancelCauseFunc
	sent     func()
	sentAt   atomic.Pointer[time.Time] // nil while there is no connection
	header   atomic.Pointer[time.Timer]
	reused   atomic.Bool
	answered atomic.Bool
	capture  *capture // nil: none

	permission *permission
	gate       atomic.Pointer[gated] // of the connection; nil: it has none, or there is none yet
}

func (f *flight) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if conn, ok := info.Conn.(*tapped); ok && f.capture != nil {
				conn.listen(f.capture)
			}
			if gate := gateOf(info.Conn); gate != nil {
				gate.permission.Store(f.permission)
				f.gate.Store(gate)
			}
			f.send(info.Reused)
		},
		GotFirstResponseByte: func() { f.answered.Store(true) },
	}
}

// send notes that the request is about to be written.
func (f *flight) send(reused bool) {
	now := time.Now()
	if f.sentAt.Swap(&now) == nil && f.sent != nil {
		f.sent()
	}
	f.reused.Store(reused)
	f.stopHeader(time.AfterFunc(f.limits.header, func() { f.cancel(f.limits.errHeader) }))
}

// leaveGate lets the connection forget the request.
func (f *flight) leaveGate() {
	if gate := f.gate.Load(); gate != nil {
		gate.permission.CompareAndSwap(f.permission, nil)
	}
}

// headerCame ends the wait for the header.
func (f *flight) headerCame() { f.stopHeader(nil) }

// stopHeader puts next in the place of the timer that waits for the header.
func (f *flight) stopHeader(next *time.Timer) {
	if before := f.header.Swap(next); before != nil {
		before.Stop()
	}
}

// fault gives an error of RoundTrip its type.
func (f *flight) fault(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*AddressError](err); ok {
		return refused
	}
	if errors.Is(err, ErrURL) {
		return err
	}
	err = because(ctx, err)
	switch {
	case f.sentAt.Load() == nil:
		return &Error{Op: OpConnect, Err: err}
	case f.reused.Load() && !f.answered.Load() && !isTimeout(err) && !isStreamError(err) && !errors.Is(err, errH2Flood):
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	return &Error{Op: OpRequest, Err: err}
}

// onceBody is an empty body that net/http cannot rewind, so that it never
// sends a request a second time. Nothing of it is seen on the wire.
type onceBody struct{}

func (onceBody) Read([]byte) (int, error) { return 0, io.EOF }
func (onceBody) Close() error             { return nil }

// WriteTo spares net/http a buffer to copy nothing with.
func (onceBody) WriteTo(io.Writer) (int64, error) { return 0, nil }

// build makes the http.Request, without a context.
func (c *Client) build(request Request) (*http.Request, error) {
	u, err := parseURL(request.URL)
	if err != nil {
		return nil, err
	}
	if err := c.CheckPort(u.Port()); err != nil {
		return nil, err
	}
	header, host := c.headerOf(request)
	hr := &http.Request{
		Method: http.MethodGet,
		URL:    u,
		Host:   host,
		Header: header,
		Body:   onceBody{},
		// Spares net/http a goroutine and a timer to find out that the body is
		// empty, and says nothing on the wire either.
		TransferEncoding: []string{"identity"},
		Proto:            "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return hr, nil
}

// parseURL prepares raw for the wire. A canonical URL goes there byte for
// byte: net/url would refuse some that the URL standard allows ("/100%") and
// spell others anew, and what was fetched must be what was queued.
func parseURL(raw string) (*url.URL, error) {
	raw, _, _ = strings.Cut(raw, "#")
	scheme, rest, found := strings.Cut(raw, "://")
	if !found || (scheme != "http" && scheme != "https") {
		return nil, fmt.Errorf("%w: %q is not http or https", ErrURL, raw)
	}
	host, target := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, target = rest[:i], escapeTarget(rest[i:])
	}
	if !plainHost(host) {
		u, err := url.Parse(scheme + "://" + host + "/")
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("%w: %q has no host, or bytes that a host cannot have", ErrURL, raw)
		}
		host = u.Host // without user and password: a link is not where they come from
	}
	if strings.HasPrefix(target, "//") { // as Opaque it would be taken for a host
		if u, err := url.Parse(scheme + "://" + host + target); err == nil {
			return u, nil
		}
		target = "//" + host + target // the absolute form, which servers must know too
	}
	return &url.URL{Scheme: scheme, Host: host, Opaque: target}, nil
}

// plainHost reports whether host is a name or IPv4 address, with or without a
// port: nothing that net/url would have to look at.
func plainHost(host string) bool {
	for i := range len(host) {
		switch b := host[i]; {
		case 'a' <= b && b <= 'z', '0' <= b && b <= '9', b == '.', b == '-', b == '_':
		case b == ':' && i > 0:
			port := host[i+1:]
			return port != "" && len(port) <= 5 && strings.Trim(port, "0123456789") == ""
		default:
			return false
		}
	}
	return host != ""
}

// escapeTarget makes a path with its query fit for a request line: it starts
// with a slash, and what no URL contains is escaped.
func escapeTarget(target string) string {
	if target[0] != '/' {
		target = "/" + target
	}
	odd := func(c byte) bool { return c <= ' ' || c >= 0x7f }
	clean := 0
	for clean < len(target) && !odd(target[clean]) {
		clean++
	}
	if clean == len(target) {
		return target
	}
	b := []byte(target[:clean])
	for i := clean; i < len(target); i++ {
		if c := target[i]; odd(c) {
			b = fmt.Appendf(b, "%%%02X", c)
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}
