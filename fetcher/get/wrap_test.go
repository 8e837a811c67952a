package get

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// tripper is a RoundTripper made of a function.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// wrap returns a Config.Wrap whose RoundTripper is the function trip. inner is the RoundTripper that it wraps.
func wrap(trip func(inner http.RoundTripper, r *http.Request) (*http.Response, error)) func(http.RoundTripper) http.RoundTripper {
	return func(inner http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) { return trip(inner, r) })
	}
}

// TestWrapSeesRequests: what Config.Wrap returns sees a request as net/http makes it, and the server receives the same bytes
// as without it, also those that net/url would change.
func TestWrapSeesRequests(t *testing.T) {
	t.Parallel()
	var got atomic.Pointer[string]
	addr := listen(t, nil, func(_ int, conn net.Conn) { // net/http's server would refuse some targets
		lines, request := textproto.NewReader(bufio.NewReader(conn)), ""
		for line, err := lines.ReadLine(); err == nil && line != ""; line, err = lines.ReadLine() {
			if request == "" || strings.HasPrefix(line, "Signed: ") {
				request += line
			}
		}
		got.Store(&request)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n")
	})
	server := "http://" + addr
	var seen atomic.Pointer[http.Request]
	wrapped := client(t, Config{Wrap: wrap(func(inner http.RoundTripper, r *http.Request) (*http.Response, error) {
		seen.Store(r)
		signed := r.Clone(r.Context())
		signed.Header.Set("Signed", r.Host+r.URL.EscapedPath())
		return inner.RoundTrip(signed)
	})})
	plain := client(t, Config{})
	for target, want := range map[string]struct{ path, rawQuery string }{
		"":                {"/", ""},
		"/":               {"/", ""},
		"/a/b?c=d&e":      {"/a/b", "c=d&e"},
		"?q":              {"/", "q"},
		"/?":              {"/", ""},
		"/a%2Fb%20c":      {"/a/b c", ""},
		"/100%":           {"/100%", ""},
		"/%zz?%zz":        {"/%zz", "%zz"},
		"//a//b":          {"//a//b", ""},
		"//100%":          {"//100%", ""},
		"/;a=b,c:@!$'()*": {"/;a=b,c:@!$'()*", ""},
		"/ä|^`{}":         {"/ä|^`{}", ""},
	} {
		mustGet(t, plain, Request{URL: server + target}).Release()
		unchanged := *got.Load()
		mustGet(t, wrapped, Request{URL: server + target}).Release()
		r := seen.Load()
		host := strings.TrimPrefix(server, "http://")
		sent, signed, _ := strings.Cut(*got.Load(), "Signed: ")
		if sent != unchanged || signed != host+r.URL.EscapedPath() {
			t.Errorf("%q: the server received %q, want %q", target, *got.Load(), unchanged)
		}
		if r.URL.Path != want.path || r.URL.RawQuery != want.rawQuery || r.URL.Opaque != "" || r.URL.Host != host || r.Host != host {
			t.Errorf("%q: the RoundTripper saw %+v, want the path %q and the query %q", target, r.URL, want.path, want.rawQuery)
		}
		if again, err := url.Parse(r.URL.String()); err != nil || again.Path != r.URL.Path {
			t.Errorf("%q: the URL %q is parsed as %v, error %v", target, r.URL, again, err)
		}
	}
}

// TestWrapIsGuarded: a request that was changed passes the same guards, and an answer without a request is bounded as others.
func TestWrapIsGuarded(t *testing.T) {
	t.Parallel()
	server := serve(t, page("x"))
	for name, c := range map[string]struct {
		change func(r *http.Request)
		answer *http.Response
		check  func(r *Response, err error) bool
	}{
		"another address": {change: func(r *http.Request) { r.URL.Host = "127.99.0.1:80" },
			check: func(_ *Response, err error) bool { _, is := errors.AsType[*AddressError](err); return is }},
		"another port": {change: func(r *http.Request) { r.URL.Host = "127.0.0.1:25" },
			check: func(_ *Response, err error) bool { return err != nil && strings.Contains(err.Error(), "port 25") }},
		"another scheme": {change: func(r *http.Request) { r.URL.Scheme = "ftp" },
			check: func(_ *Response, err error) bool { return errors.Is(err, ErrURL) }},
		"another path": {change: func(r *http.Request) { r.URL.Path = "/b c" },
			check: func(r *Response, err error) bool { return err == nil && string(r.Body) == "x" }},
		"an own answer": {answer: &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader(strings.Repeat("y", 100)))},
			check: func(r *Response, err error) bool { return err == nil && len(r.Body) == 50 && r.Truncated }},
		"an answer without a body": {answer: &http.Response{StatusCode: 204, Header: http.Header{}},
			check: func(r *Response, err error) bool { return err == nil && r.Status == 204 }},
		"nothing": {answer: new(http.Response), check: func(_ *Response, err error) bool { return err != nil }},
	} {
		loopback := netip.MustParsePrefix("127.0.0.1/32")
		trip := wrap(func(inner http.RoundTripper, r *http.Request) (*http.Response, error) {
			if c.answer != nil {
				return c.answer, nil
			}
			r = r.Clone(r.Context())
			c.change(r)
			return inner.RoundTrip(r)
		})
		requester, err := New(Config{AllowNet: []netip.Prefix{loopback}, MaxBodyBytes: 50, Wrap: trip})
		if err != nil {
			t.Fatal(err)
		}
		sent := 0
		r, err := requester.Get(t.Context(), Request{URL: server + "/a", Sent: func() { sent++ }})
		if !c.check(r, err) {
			t.Errorf("%s: response %+v, error %v", name, r, err)
		}
		if err == nil && sent != 1 {
			t.Errorf("%s: Sent was called %d times, want once", name, sent)
		}
		if err == nil {
			r.Release()
		}
		requester.Close()
	}
}
