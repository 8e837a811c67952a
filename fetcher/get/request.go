package get

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
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
	Header http.Header // replaces or extends the headers of the Client
	// Private also sends the private headers of Config.Headers. It is for URLs of sites
	// that the user named, not for targets of links and redirects.
	Private bool
	// Started, unless nil, is called once, before connecting. The caller can count the
	// host's delay from this call. Started is not called if URL is invalid or its port is
	// refused.
	Started func()
	// Sent, unless nil, is called at most once, when there is a connection, right before
	// the request is written. Connecting can take long. A caller should therefore count
	// the delay from Sent too, so that the host receives no two requests within the delay.
	// Sent may wait, because the request is written after Sent has returned. This time
	// counts towards Config.Timeout, but not towards Config.HeaderTimeout and
	// Response.Latency.
	Sent func()
	// Permit, unless nil, is called before the request is written. The last call is right
	// before the write, after all waits. If it returns an error, the request is not
	// written, and Get returns that error with ErrAborted. Several goroutines call it,
	// one after the other.
	Permit func() error
	Head   bool // the method is HEAD instead of GET; HeaderOnly must be set
	// HeaderOnly ends the request after the header of the answer, and closes the connection if a
	// body follows. The Response has no Body and no Wire, and need not be released.
	HeaderOnly bool
	AnyType    bool  // accept any content type, regardless of Config.Types
	MaxBody    int64 // replaces Config.MaxBodyBytes; 0 means Config.MaxBodyBytes
	// Peek, unless nil, is called with the first 4 KiB of a page that may be XML or gzip, before
	// its type is refused. If it returns maxBody > 0, the body is read whatever its type is, up to
	// maxBody bytes, or Config.MaxBodyBytes if that is more. A br or zstd body keeps its limit.
	Peek func(begin []byte) (maxBody int64)
	// Grow, unless nil, is called before the answer's body takes more memory, and with a
	// negative number after the body gave memory back. The sum of all calls is at most
	// Client.MaxHeld. Grow may wait. This time counts towards Config.Timeout, but not towards
	// Config.MinRate. An error of Grow ends the request.
	Grow func(ctx context.Context, more int64) error
}

// Get makes one request. If it receives no complete answer, it returns one of these errors:
// ErrAborted (ctx ended, or Request.Permit returned an error), ErrStale, *AddressError,
// *PortError, *Error, or an error that says why URL cannot be requested (ErrURL). Classify
// returns the meaning of each. The caller must release the Response.
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
	defer f.headerCame() // stops the timer of a request that was not written
	if c.config.Capture && !request.HeaderOnly {
		f.capture = c.newCapture(request)
		defer f.capture.end()
	}
	hr = hr.WithContext(httptrace.WithClientTrace(ctx, f.trace()))

	start := time.Now()
	if request.Started != nil {
		request.Started()
	}
	if c.config.Transport != nil {
		f.send(false) // with Config.Transport there is no connection to wait for
	}
	if f.permission.err() != nil {
		return nil, f.permission.abort()
	}
	response, err := c.exchange(hr, f, request)
	if isExhausted(err) {
		c.Close() // frees the descriptors and ports of idle connections
	}
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
	if err == nil && f.sentAt.Load() == nil { // Config.Wrap has answered
		f.send(false)
	}
	f.headerCame()
	if err != nil {
		return nil, f.fault(hr.Context(), err)
	}
	defer answer.Body.Close()
	if sent := f.sentAt.Load(); sent != nil {
		begin = *sent
	}
	response := newResponse(answer)
	if c.config.Signer != nil && asksSignature[answer.StatusCode] {
		response.SignAgain = c.config.Signer.Note(authorityOf(hr.URL, hr.Host), pathOf(hr.URL), answer.Header)
	}
	if c.config.Jar != nil {
		response.SetsCookie = c.config.Jar.Note(plainURL(hr.URL), answer.Header)
	}
	response.loggedOut = c.config.LoggedOut != nil && c.config.LoggedOut.MatchString(response.RedirectTo)
	response.Latency = time.Since(begin)
	if request.HeaderOnly {
		return response, nil
	}
	wire := &wireReader{ctx: hr.Context(), from: answer.Body, left: maxDrain + 1, pace: pace{limits: f.limits, cancel: f.cancel}}
	wire.pace.start()
	defer wire.pace.stop()
	err = c.readBody(hr.Context(), response, wire, answer.ContentLength, request)
	response.WireBytes = wire.pace.read.Load()
	if err != nil {
		response.Release()
		err = contextCause(hr.Context(), err)
		f.cancel(err) // before the body is closed, so that the connection is closed too
		return nil, &Error{Op: OpBody, Err: err}
	}
	if c.config.LoggedOut != nil && c.config.LoggedOut.Match(response.Body[:min(len(response.Body), maxLoggedOut)]) {
		response.loggedOut = true
	}
	if f.capture != nil {
		f.capture.give(response, answer, begin, wire.ended)
	}
	return response, nil
}

// maxLoggedOut is how many bytes of a page Config.LoggedOut reads.
const maxLoggedOut = 64 << 10

// asksSignature has the statuses with which Accept-Signature asks for another signature.
var asksSignature = map[int]bool{400: true, 401: true, 403: true, 429: true}

// contextCause returns the cause with which ctx ended. If ctx has not ended, contextCause
// returns err. The argument err is an error of net/http, which does not contain the cause.
func contextCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// flight collects what httptrace reports about one request. httptrace calls the functions of
// trace from several goroutines, sometimes after Get has returned.
type flight struct {
	limits   *limits
	cancel   context.CancelCauseFunc
	sent     func()
	sentAt   atomic.Pointer[time.Time] // nil while there is no connection
	header   atomic.Pointer[time.Timer]
	reused   atomic.Bool
	answered atomic.Bool
	capture  *capture // nil means none

	permission *permission
	mending    atomic.Pointer[mending] // the connection; nil if there is none yet, or with Config.Transport
	gate       atomic.Pointer[gated]   // the gated connection of the request; nil if there is none yet
}

func (f *flight) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if mending, ok := info.Conn.(*mending); ok {
				mending.began.Store(false) // of an earlier answer
				f.mending.Store(mending)
				if conn, ok := mending.Conn.(*tapped); ok && f.capture != nil {
					conn.listen(f.capture)
				}
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

// send calls sent, which may wait, and notes that the request is about to be written.
func (f *flight) send(reused bool) {
	if f.sentAt.Load() == nil && f.sent != nil {
		f.sent()
	}
	now := time.Now()
	f.sentAt.Store(&now)
	f.reused.Store(reused)
	f.stopHeader(time.AfterFunc(f.limits.header, func() { f.cancel(f.limits.errHeader) }))
}

// leaveGate detaches the request from the connection.
func (f *flight) leaveGate() {
	if gate := f.gate.Load(); gate != nil {
		gate.permission.CompareAndSwap(f.permission, nil)
	}
}

// headerCame stops the timer that send started.
func (f *flight) headerCame() { f.stopHeader(nil) }

// stopHeader stops the timer of the header, and replaces it by newTimer, which may be nil.
func (f *flight) stopHeader(newTimer *time.Timer) {
	if before := f.header.Swap(newTimer); before != nil {
		before.Stop()
	}
}

// fault turns an error of RoundTrip into one of the errors that Get documents.
func (f *flight) fault(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*AddressError](err); ok {
		return refused
	}
	if errors.Is(err, ErrURL) {
		return err
	}
	err = contextCause(ctx, err)
	switch {
	case f.sentAt.Load() == nil:
		return &Error{Op: OpConnect, Err: err}
	case f.began():
		return &Error{Op: OpHeader, Err: err}
	case f.reused.Load() && !f.answered.Load() && !IsTimeout(err) && !errors.Is(err, ErrNotHTTP) && !errors.Is(err, ErrHTTP2Only):
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	return &Error{Op: OpRequest, Err: err}
}

// began reports whether an answer began.
func (f *flight) began() bool {
	mending := f.mending.Load()
	return mending != nil && mending.began.Load()
}

// onceBody is an empty body that net/http cannot rewind, so that net/http never repeats a
// request. It does not change what is sent.
type onceBody struct{}

func (onceBody) Read([]byte) (int, error) { return 0, io.EOF }
func (onceBody) Close() error             { return nil }

// WriteTo implements io.WriterTo, so that net/http allocates no buffer.
func (onceBody) WriteTo(io.Writer) (int64, error) { return 0, nil }

// build returns the http.Request, without a context.
func (c *Client) build(request Request) (*http.Request, error) {
	u, err := parseURL(request.URL)
	if err != nil {
		return nil, err
	}
	if err := c.CheckPort(u.Port()); err != nil {
		return nil, err
	}
	header, host := c.headerOf(request)
	method := http.MethodGet
	if request.Head {
		method = http.MethodHead
	}
	if c.config.Jar != nil || c.config.Signer != nil {
		header = maps.Clone(header)
	}
	if c.config.Jar != nil {
		c.config.Jar.Add(header, plainURL(u))
	}
	if c.config.Signer != nil {
		c.config.Signer.Sign(header, method, authorityOf(u, host), pathOf(u))
	}
	hr := &http.Request{
		Method: method,
		URL:    u,
		Host:   host,
		Header: header,
		Body:   onceBody{},
		// Without this, net/http starts a goroutine and a timer to find out whether the
		// body is empty. It does not change what is sent.
		TransferEncoding: []string{"identity"},
		Proto:            "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return hr, nil
}

// authorityOf returns the authority of a request as a signature covers it (RFC 9421, section 2.2.3). The host is that of
// a Host header, or empty.
func authorityOf(u *url.URL, host string) string {
	port := ":80"
	if u.Scheme == "https" {
		port = ":443"
	}
	return strings.TrimSuffix(strings.ToLower(cmp.Or(host, u.Host)), port)
}

// pathOf returns the path of a request, as it is sent.
func pathOf(u *url.URL) string {
	path, _, _ := strings.Cut(cmp.Or(u.Opaque, u.EscapedPath()), "?")
	return cmp.Or(strings.TrimPrefix(path, "//"+u.Host), "/")
}

// parseURL prepares raw for the request. A canonical URL is sent byte for byte: net/url
// would refuse some URLs that the URL standard allows ("/100%") and change others. The
// fetched URL must be the queued one.
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
	u, err := url.Parse(scheme + "://" + host + "/")
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%w: %q has no host, or bytes that a host cannot have", ErrURL, raw)
	}
	host = u.Host // without user and password, which links do not supply

	if strings.HasPrefix(target, "//") { // in Opaque, net/http would read it as a host
		if u, err := url.Parse(scheme + "://" + host + target); err == nil {
			return u, nil
		}
		target = "//" + host + target // the absolute form, which servers must accept
	}
	return &url.URL{Scheme: scheme, Host: host, Opaque: target}, nil
}

// escapeTarget makes a path with its query valid for a request line: the result
// starts with a slash, and characters that no URL contains are escaped.
func escapeTarget(target string) string {
	if target[0] != '/' {
		target = "/" + target
	}
	return escape(target, func(c byte) bool { return c <= ' ' || c >= 0x7f })
}

// escape returns text with the bytes for which odd returns true percent-encoded.
func escape(text string, odd func(c byte) bool) string {
	var b []byte
	for i := range len(text) {
		if c := text[i]; odd(c) {
			b = fmt.Appendf(b, "%%%02X", c)
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}
