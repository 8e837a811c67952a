package get

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/resolve"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // net/http logs a message if a server sends before it gets a request
	goleak.VerifyTestMain(m)
}

// client returns a Client that may dial the loopback.
func client(t testing.TB, config Config) *Client {
	t.Helper()
	config.AllowPrivate = true
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// serve returns the URL of a server on the loopback.
func serve(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

// page returns a handler that answers with body as HTML.
func page(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, body)
	}
}

func mustGet(t testing.TB, c *Client, request Request) *Response {
	t.Helper()
	response, err := c.Get(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func TestPageIsRead(t *testing.T) {
	t.Parallel()
	url := serve(t, page("<title>x</title>"))
	r := mustGet(t, client(t, Config{}), Request{URL: url + "/a?b#c"})
	if r.Status != 200 || string(r.Body) != "<title>x</title>" || r.ContentType != "text/html" ||
		r.Truncated || r.TypeRefused || r.WireBytes != 16 {
		t.Errorf("response %+v", r)
	}
	if r.Latency <= 0 || r.Duration < r.Latency {
		t.Errorf("latency %v, duration %v, want 0 < latency <= duration", r.Latency, r.Duration)
	}
	if outcome, retry := r.Outcome(); outcome != frontier.OK || retry {
		t.Errorf("Outcome() = %v, %v", outcome, retry)
	}
	r.Release()
	r.Release()
	if r.Body != nil {
		t.Error("Body is not nil after Release")
	}
}

func TestRedirectIsAnAnswer(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		if r.Header.Get("Cookie") != "" {
			t.Error("a cookie was sent")
		}
		w.Header().Set("Location", "../x y")
		w.WriteHeader(301)
	})
	c := client(t, Config{})
	for range 2 {
		r := mustGet(t, c, Request{URL: url})
		if r.Status != 301 || r.RedirectTo != "../x y" {
			t.Errorf("response %+v", r)
		}
		r.Release()
	}
	if requests.Load() != 2 {
		t.Errorf("%d requests, want 2", requests.Load())
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	url := serve(t, page(strings.Repeat("x", 1000)))
	c := client(t, Config{MaxBodyBytes: 1000})
	for limit, want := range map[int64]struct {
		length    int
		truncated bool
	}{0: {1000, false}, 1000: {1000, false}, 999: {999, true}, 1: {1, true}, 5000: {1000, false}} {
		r := mustGet(t, c, Request{URL: url, MaxBody: limit})
		if len(r.Body) != want.length || r.Truncated != want.truncated {
			t.Errorf("limit %d: body of %d bytes, truncated %v, want %v", limit, len(r.Body), r.Truncated, want)
		}
		r.Release()
	}
	big := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for range 3000 {
			w.Write(bytes.Repeat([]byte("y"), 1024)) // chunked
		}
	})
	r := mustGet(t, client(t, Config{MaxBodyBytes: 2 << 20}), Request{URL: big})
	if len(r.Body) != 2<<20 || !r.Truncated || strings.Trim(string(r.Body), "y") != "" {
		t.Errorf("body of %d bytes, truncated %v, want the first 2 MiB", len(r.Body), r.Truncated)
	}
	r.Release()
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = r.URL.Query()["type"]
		if r.URL.Query().Has("status") {
			w.WriteHeader(404)
		}
		io.WriteString(w, r.URL.Query().Get("body"))
	})
	c := client(t, Config{})
	for _, test := range []struct {
		query       string
		anyType     bool
		contentType string
		refused     bool
	}{
		{"type=text/html&body=x", false, "text/html", false},
		{"type=Text/HTML;charset=x&body=x", false, "text/html", false},
		{"type=application/xhtml%2Bxml&body=x", false, "application/xhtml+xml", false},
		{"type=text/plain&body=x", false, "text/plain", true},
		{"type=text/plain&body=x", true, "text/plain", false},
		{"type=image/png&body=x&status=", false, "image/png", false}, // the answer is no page, so its type is not refused
		{"body=<html><p>x", false, "text/html", false},
		{"body=%89PNG%0D%0A%1A%0A", false, "image/png", true},
		{"body=just+text", false, "text/plain", true},
		{"", false, "", false},
	} {
		r := mustGet(t, c, Request{URL: url + "/?" + strings.ReplaceAll(strings.ReplaceAll(test.query, "<", "%3C"), ";", "%3B"), AnyType: test.anyType})
		if r.ContentType != test.contentType || r.TypeRefused != test.refused {
			t.Errorf("%s: type %q, refused %v, want %q, %v", test.query, r.ContentType, r.TypeRefused, test.contentType, test.refused)
		}
		if r.TypeRefused != (r.Body == nil) {
			t.Errorf("%s: refused %v with the body %q, want no body exactly if the type is refused",
				test.query, r.TypeRefused, r.Body)
		}
		if outcome, _ := r.Outcome(); (outcome == frontier.Type) != test.refused {
			t.Errorf("%s: outcome %s, type refused %v", test.query, outcome, test.refused)
		}
		r.Release()
	}
	all := client(t, Config{Types: []string{AnyType}})
	if r := mustGet(t, all, Request{URL: url + "/?type=image/png&body=x"}); string(r.Body) != "x" {
		t.Errorf("with AnyType: response %+v, want the body x", r)
	}
}

func zipped(s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, s)
	z.Close()
	return b.Bytes()
}

func TestGzipBody(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("<p>some text, ", 5000)
	whole := zipped(text)
	corrupt := bytes.Clone(whole)
	corrupt[len(corrupt)-6] ^= 1 // damages the checksum
	for name, c := range map[string]struct {
		wire      []byte
		limit     int64
		want      string
		truncated bool
		cut       bool
		damaged   bool
	}{
		"whole":         {wire: whole, want: text},
		"members":       {wire: append(bytes.Clone(whole), whole...), want: text + text},
		"cut off":       {wire: whole[:len(whole)-12], want: text, cut: true},
		"bad checksum":  {wire: corrupt, want: text, damaged: true},
		"only a header": {wire: whole[:5], want: "", cut: true},
		"not gzip":      {wire: []byte("<p>plain"), want: "<p>plain"},
		"one byte":      {wire: []byte("<"), want: "<"},
		"nothing":       {wire: []byte{}, want: ""},
		"beyond limit":  {wire: whole, limit: 100, want: text[:100], truncated: true},
		"a bomb":        {wire: zipped(strings.Repeat("\x00", 20<<20)), limit: 1000, want: strings.Repeat("\x00", 1000), truncated: true},
		// 60,000 empty blocks, which yield no byte.
		"empty blocks": {wire: append(bytes.Clone(whole[:10]), bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, 60_000)...), limit: 1000, want: "", truncated: true},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept-Encoding") != "gzip, br, zstd" {
					t.Errorf("Accept-Encoding: %q", r.Header.Get("Accept-Encoding"))
				}
				w.Header().Set("Content-Type", "text/html")
				w.Header().Set("Content-Encoding", "gzip")
				w.Write(c.wire)
			})
			r := mustGet(t, client(t, Config{}), Request{URL: url, MaxBody: c.limit})
			defer r.Release()
			if string(r.Body) != c.want {
				t.Errorf("body of %d bytes, want %d; it begins with %.20q", len(r.Body), len(c.want), r.Body)
			}
			if r.Truncated != c.truncated || (r.Cut != nil) != c.cut || (r.Damage != nil) != c.damaged {
				t.Errorf("truncated %v, cut %v, damage %v, want %v, %v, %v", r.Truncated, r.Cut, r.Damage, c.truncated, c.cut, c.damaged)
			}
			if !c.truncated && r.WireBytes != int64(len(c.wire)) {
				t.Errorf("WireBytes %d, want %d", r.WireBytes, len(c.wire))
			}
		})
	}
}

// TestBodyEndsEarly: of a body that ends early, what arrived is kept.
func TestBodyEndsEarly(t *testing.T) {
	t.Parallel()
	const text = "<p>some text, "
	for encoding, body := range map[string]string{"": text, "gzip": string(zipped(text))[:20], "br": "", "zstd": ""} {
		for _, status := range []int{200, 404} {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				w.Header().Set("Content-Encoding", encoding)
				w.Header().Set("Content-Length", "1000")
				w.WriteHeader(status)
				io.WriteString(w, body)
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})
			r := mustGet(t, client(t, Config{}), Request{URL: url})
			if (r.Cut != nil) != (status == 200) || r.Truncated || r.Damage != nil || !strings.HasPrefix(text, string(r.Body)) ||
				len(r.Body) == 0 && body != "" {
				t.Errorf("encoding %q, status %d: body %q, cut %v, truncated %v, damage %v", encoding, status, r.Body, r.Cut, r.Truncated, r.Damage)
			}
			if outcome, retry := r.Outcome(); status == 200 && (outcome != frontier.OK || retry) {
				t.Errorf("encoding %q: Outcome() = %v, %v", encoding, outcome, retry)
			}
			r.Release()
		}
	}
}

func TestHeaderLimit(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Flood", strings.Repeat("x", 100<<10))
	})
	if r, err := client(t, Config{MaxHeaderBytes: 64 << 10}).Get(t.Context(), Request{URL: url}); err == nil {
		t.Errorf("100 KiB of header: status %d, want an error", r.Status)
	}
	mustGet(t, client(t, Config{}), Request{URL: url}).Release()
}

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]struct {
		outcome frontier.Outcome
		retry   bool
	}{
		200: {frontier.OK, false}, 204: {frontier.OK, false}, 301: {frontier.Redirect, false}, 304: {frontier.ServerError, true},
		404: {frontier.ClientError, false}, 410: {frontier.ClientError, false}, 408: {frontier.Throttled, true},
		425: {frontier.Throttled, true}, 429: {frontier.Throttled, true}, 500: {frontier.ServerError, true},
		503: {frontier.ServerError, true}, 599: {frontier.ServerError, true}, 999: {frontier.ClientError, false},
		101: {frontier.Network, true},
	} {
		if outcome, retry := OutcomeOf(status); outcome != want.outcome || retry != want.retry {
			t.Errorf("OutcomeOf(%d) = %v, %v, want %v", status, outcome, retry, want)
		}
	}
}

func TestStartedAndSent(t *testing.T) {
	t.Parallel()
	var order []string
	var mu sync.Mutex
	note := func(what string) func() {
		return func() { mu.Lock(); defer mu.Unlock(); order = append(order, what) }
	}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { note("request")(); page("x")(w, r) })
	c := client(t, Config{})
	for range 2 { // over a new connection, and over the same connection again
		order = nil
		mustGet(t, c, Request{URL: url, Started: note("started"), Sent: note("sent")}).Release()
		if got := fmt.Sprint(order); got != "[started sent request]" {
			t.Errorf("calls %s, want [started sent request]", got)
		}
	}
	order = nil
	if _, err := c.Get(t.Context(), Request{URL: "http://" + closedPort(t), Started: note("started"), Sent: note("sent")}); err == nil {
		t.Error("no error from a closed port")
	}
	if _, err := c.Get(t.Context(), Request{URL: "no URL", Started: note("never")}); !errors.Is(err, ErrURL) {
		t.Errorf("Get: %v, want ErrURL", err)
	}
	if got := fmt.Sprint(order); got != "[started]" {
		t.Errorf("calls %s, want [started]", got)
	}
}

// TestSentMayWait: the time that Sent waits counts neither towards the limit of the header
// nor towards the latency.
func TestSentMayWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := client(t, Config{Transport: fake(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, ContentLength: 0, Body: http.NoBody}, r.Context().Err()
		})})
		r := mustGet(t, c, Request{URL: "http://h/", Sent: func() { time.Sleep(DefaultHeaderTimeout + time.Second) }})
		defer r.Release()
		if r.Latency != 0 || r.Duration != DefaultHeaderTimeout+time.Second {
			t.Errorf("latency %v, duration %v, want 0 and the time of Sent", r.Latency, r.Duration)
		}
	})
}

// closedPort returns an address without a listener. No other program gets its port during the test.
func closedPort(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}

// dialError is the error of net.Dialer for a connection that was not made.
func dialError(to string, why syscall.Errno) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.ParseIP(to), Port: 80}, Err: os.NewSyscallError("connect", why)}
}

func TestFaultOfEachError(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	slow := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-hang:
		}
	})
	defer close(hang)
	secure := httptest.NewUnstartedServer(page("x"))
	secure.Config.ErrorLog = discard
	secure.StartTLS()
	defer secure.Close()
	aborted, abort := context.WithCancel(t.Context())
	abort()
	late, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()

	for name, c := range map[string]struct {
		ctx    context.Context
		config Config
		url    string
		want   Fault
	}{
		"refused":     {t.Context(), Config{}, "http://" + closedPort(t), Fault{Outcome: frontier.Network, Retry: true, Host: true}},
		"certificate": {t.Context(), Config{}, secure.URL, Fault{Outcome: frontier.Network, Lasting: true}},
		"no TLS":      {t.Context(), Config{}, strings.Replace(slow, "http://", "https://", 1), Fault{Outcome: frontier.Network, Lasting: true}},
		"timeout":     {t.Context(), Config{Timeout: time.Second}, slow, Fault{Outcome: frontier.Network, Retry: true}},
		"aborted":     {aborted, Config{}, slow, Fault{Aborted: true}},
		"too late":    {late, Config{}, slow, Fault{Aborted: true}},
		"no URL":      {t.Context(), Config{}, "ftp://h/", Fault{Outcome: frontier.Network}},
	} {
		response, err := client(t, c.config).Get(c.ctx, Request{URL: c.url})
		if err == nil {
			t.Errorf("%s: status %d, want an error", name, response.Status)
		}
		if got := Classify(err); got != c.want {
			t.Errorf("%s: Classify(%v) = %+v, want %+v", name, err, got, c.want)
		}
	}
	for err, local := range map[error]bool{
		fmt.Errorf("lookup: %w", resolve.ErrServer):     true,
		dialError("192.0.2.1", syscall.EMFILE):          true,
		dialError("192.0.2.1", syscall.ENFILE):          true,
		dialError("192.0.2.1", syscall.EADDRNOTAVAIL):   true,
		dialError("2001:db8::1", syscall.EADDRNOTAVAIL): false, // this machine may have no IPv6
		dialError("192.0.2.1", syscall.ECONNREFUSED):    false,
	} {
		want := Fault{Outcome: frontier.Network, Retry: true, Local: local, Host: !local}
		if got := Classify(&Error{Op: OpConnect, Err: err}); got != want {
			t.Errorf("Classify(%v) = %+v, want %+v", err, got, want)
		}
	}
	if got := Classify(nil); got != (Fault{}) {
		t.Errorf("Classify(nil) = %+v", got)
	}
}

func TestHeadersOfRequest(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	hosts := make(chan string, 1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { got <- r.Header; hosts <- r.Host; page("x")(w, r) })
	c := client(t, Config{UserAgent: "test/1", Headers: http.Header{"x-a": {"1", "2"}, "Host": {"h.test"}, "Accept": {"a/b"}}})
	mustGet(t, c, Request{URL: url, Private: true, Header: http.Header{"If-None-Match": {`"e"`}}}).Release()
	h, host := <-got, <-hosts
	if h.Get("User-Agent") != "test/1" || len(h["X-A"]) != 2 || h.Get("Accept") != "a/b" || h.Get("If-None-Match") != `"e"` || host != "h.test" {
		t.Errorf("headers %v, Host %q", h, host)
	}
	mustGet(t, c, Request{URL: url}).Release()
	if h := <-got; h.Get("If-None-Match") != "" {
		t.Error("a header of one request was sent with the next")
	}
}

// TestPrivateHeaders: a request has the private headers only if Request.Private is set.
// Every header that is not known to be harmless is private.
func TestPrivateHeaders(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	hosts := make(chan string, 1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { got <- r.Header; hosts <- r.Host; page("x")(w, r) })
	c := client(t, Config{Headers: http.Header{
		"authorization": {"secret"}, "Proxy-Authorization": {"secret"}, "COOKIE": {"secret"}, "X-Api-Key": {"secret"}, "X-Odd": {"secret"}, "Host": {"secret"},
		"accept-language": {"de"}, "dnt": {"1"}, "From": {"me@a.test"}, "Referer": {"http://a.test/"}, "User-Agent": {"b/2"},
	}})
	if want := []string{"Authorization", "Cookie", "Host", "Proxy-Authorization", "X-Api-Key", "X-Odd"}; !slices.Equal(c.PrivateHeaders(), want) {
		t.Errorf("PrivateHeaders() = %v, want %v", c.PrivateHeaders(), want)
	}
	for _, request := range []Request{{URL: url}, {URL: url, Header: http.Header{"X-Own": {"1"}}}, {URL: url, Private: true}} {
		mustGet(t, c, request).Release()
		h, host := <-got, <-hosts
		secrets := 0
		for _, values := range h {
			if values[0] == "secret" {
				secrets++
			}
		}
		if request.Private != (secrets == 5) || !request.Private && secrets > 0 || request.Private != (host == "secret") {
			t.Errorf("Private=%v: Host %q, headers %v", request.Private, host, h)
		}
		if h.Get("Accept-Language") != "de" || h.Get("Dnt") != "1" || h.Get("From") == "" || h.Get("Referer") == "" || h.Get("User-Agent") != "b/2" {
			t.Errorf("Private=%v: headers %v, want the harmless ones", request.Private, h)
		}
		if h.Get("X-Own") != request.Header.Get("X-Own") {
			t.Errorf("headers %v, want the request's own X-Own %q", h, request.Header.Get("X-Own"))
		}
	}
}

func TestNewNamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := New(Config{
		UserAgent: "a\nb", Headers: http.Header{"a b": {"x"}, "C": {"\r"}}, Timeout: -1, MaxBodyBytes: -1,
		Types: []string{"html", "Text/html"}, MaxIdleConns: -1,
	})
	if err == nil {
		t.Fatal("New with faulty fields returned no error")
	}
	for _, part := range []string{"UserAgent", `"a b"`, "header C", "Timeout", "MaxBodyBytes", `"html"`, `"Text/html"`, "MaxIdleConns"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s is not in the error %v", part, err)
		}
	}
	_, err = New(Config{Headers: http.Header{"Cookie": {"secret\r"}}})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("New: %v, want an error that does not show the value", err)
	}
}

// fake is a transport that needs no network.
type fake func(*http.Request) (*http.Response, error)

func (f fake) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestReplacedTransport(t *testing.T) {
	t.Parallel()
	calls := ""
	c := client(t, Config{Transport: fake(func(r *http.Request) (*http.Response, error) {
		calls += "request to " + r.URL.Host
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/html"}}, ContentLength: -1, Body: io.NopCloser(strings.NewReader("x"))}, nil
	})})
	r := mustGet(t, c, Request{URL: "http://h/", Started: func() { calls += "started " }, Sent: func() { calls += "sent " }})
	defer r.Release()
	if string(r.Body) != "x" || calls != "started sent request to h" {
		t.Errorf("body %q, calls %q, want x after Started, Sent and the request", r.Body, calls)
	}
}

// TestManyAtOnce: the buffers of bodies come from a pool, but no request gets the body of
// another.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		body := strings.Repeat(r.URL.Path, 2000)
		if r.URL.Query().Has("gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			body = string(zipped(body))
		}
		io.WriteString(w, body)
	})
	c := client(t, Config{})
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Go(func() {
			for i := range 50 {
				path := fmt.Sprintf("/%d-%d", worker, i)
				r, err := c.Get(t.Context(), Request{URL: url + path + []string{"", "?gzip"}[i%2]})
				if err != nil {
					t.Error(err)
					return
				}
				if string(r.Body) != strings.Repeat(path, 2000) {
					t.Errorf("%s: got the body of another request", path)
				}
				r.Release()
			}
		})
	}
	workers.Wait()
}
