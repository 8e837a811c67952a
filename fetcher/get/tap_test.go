package get

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/resolve/resolvetest"
)

// TestCaptureOfExchange checks that Wire has the exact octets of each request and
// its answer, even on a reused connection.
func TestCaptureOfExchange(t *testing.T) {
	t.Parallel()
	const html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	zip := string(zipped("<p>some text"))
	answers := []struct {
		path, wire string
		before     string // interim answers
		behind     string // bytes that the server sends after the answer, without a request
		body       string
		truncated  bool
	}{
		{path: "/length", wire: html + "Content-Length: 5\r\n\r\nhello", body: "hello"},
		{path: "/odd-header", wire: "HTTP/1.1 200 all  right\r\ncontent-TYPE:text/html;charset=x\r\nX-A:  1 \r\nX-a: 2\r\nContent-Length:5\r\n\r\nhello", body: "hello"},
		{path: "/empty", wire: html + "Content-Length: 0\r\n\r\n"},
		{path: "/chunked", wire: html + "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n02\r\nlo\r\n0\r\nTrailer: t\r\n\r\n", body: "hello"},
		{path: "/gzip", wire: fmt.Sprintf("%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", html, len(zip), zip), body: "<p>some text"},
		{path: "/404", wire: "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone", body: "gone"},
		{path: "/304", wire: "HTTP/1.1 304 Not Modified\r\nContent-Length: 400\r\n\r\n"},
		{path: "/interim", before: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n", wire: html + "Content-Length: 5\r\n\r\nhello", body: "hello"},
		{path: "/type", wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"},
		{path: "/odd", wire: "HTTP/1.1 200 OK\nContent-Type: text/html\nX[0]: y\r\n: z\nContent-Length: 5\n\nhello", body: "hello"},
		{path: "/oddchunks", wire: html + "Transfer-Encoding: chunked, chunked\r\n\r\n05 \nhello\n0\r\nno colon\r\n\n", body: "hello"},
		{path: "/cut", wire: html + "Content-Length: 500\r\n\r\n" + strings.Repeat("hello", 100), body: strings.Repeat("hello", 20), truncated: true},
		{path: "/behind", wire: html + "Content-Length: 5\r\n\r\nhello", behind: "junk", body: "hello"},
		{path: "/chunks-behind", wire: html + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", behind: "HTTP/1.1 200 OK\r\n\r\n", body: "hello"},
		{path: "/close", wire: "HTTP/1.0 200 OK\nContent-Type: text/html\n\nhello", body: "hello"},
	}
	heads := make(chan string, len(answers))
	addr := listen(t, nil, func(_ int, conn net.Conn) {
		from := bufio.NewReader(conn)
		for {
			head, err := readHead(from)
			if err != nil {
				return
			}
			heads <- head
			for _, a := range answers {
				if strings.HasPrefix(head, "GET "+a.path+" ") {
					io.WriteString(conn, a.before+a.wire+a.behind)
					if a.path == "/close" {
						return
					}
				}
			}
		}
	})
	c := client(t, Config{Capture: true, MaxBodyBytes: 1000})
	for _, a := range answers {
		request := Request{URL: "http://" + addr + a.path}
		if a.truncated {
			request.MaxBody = 100
		}
		c := c
		if a.behind != "" { // the next request on this connection would get these bytes
			c = client(t, Config{Capture: true})
		}
		before := time.Now()
		r, err := c.Get(t.Context(), request)
		if err != nil {
			t.Errorf("%s: %v", a.path, err)
			continue
		}
		head := <-heads
		switch w := r.Wire; {
		case w == nil:
			t.Errorf("%s: no Wire", a.path)
		case string(w.Request) != head || !strings.Contains(head, "Accept-Encoding: gzip\r\n"):
			t.Errorf("%s: request %q, want %q", a.path, w.Request, head)
		case a.truncated && (!strings.HasPrefix(a.wire, string(w.Response)) || len(w.Response) < 100) || !a.truncated && string(w.Response) != a.wire:
			t.Errorf("%s: answer %q, want %q", a.path, w.Response, a.wire)
		case w.Truncated != a.truncated || w.Remote != outside || w.Started.Before(before) || w.Started.After(time.Now()):
			t.Errorf("%s: Wire with Truncated %v, Remote %v, Started %v", a.path, w.Truncated, w.Remote, w.Started)
		}
		if string(r.Body) != a.body {
			t.Errorf("%s: body %q, want %q", a.path, r.Body, a.body)
		}
		r.Release()
		if r.Wire != nil {
			t.Error("Wire is not nil after Release")
		}
	}
}

// TestCaptureIsOff checks that there is no capture unless the caller asks for
// it.
func TestCaptureIsOff(t *testing.T) {
	t.Parallel()
	r := mustGet(t, client(t, Config{}), Request{URL: serve(t, page("x"))})
	defer r.Release()
	if r.Wire != nil {
		t.Errorf("without Capture: Wire = %+v, want nil", r.Wire)
	}
}

// TestCaptureTLS: the capture of a TLS connection has the plain text. Wire.Remote
// is the address of the server, also behind a proxy.
func TestCaptureTLS(t *testing.T) {
	t.Parallel()
	s, config := secure(t, func(w http.ResponseWriter, r *http.Request) { page(r.Proto+" "+r.TLS.ServerName)(w, r) })
	names := resolvetest.Serve(t, func(string, int) []netip.Addr { return []netip.Addr{outside} })
	config.Capture, config.DNS = true, names.Addr
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "https://"))
	for _, scheme := range append(proxySchemes, "") {
		if config.Proxy = ""; scheme != "" {
			config.Proxy = newTestProxy(t, scheme, "", "").url
		}
		c := client(t, config)
		for range 2 {
			r := mustGet(t, c, Request{URL: "https://example.com:" + port + "/a?b"})
			if string(r.Body) != "HTTP/1.1 example.com" || !strings.HasPrefix(string(r.Wire.Request), "GET /a?b HTTP/1.1\r\nHost: example.com:"+port+"\r\n") ||
				!strings.HasPrefix(string(r.Wire.Response), "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(string(r.Wire.Response), "\r\n\r\nHTTP/1.1 example.com") || r.Wire.Remote != outside {
				t.Errorf("proxy %q: body %q, Wire %+v", scheme, r.Body, r.Wire)
			}
			r.Release()
		}
	}
	config.Proxy, config.RootCAs = "", nil
	if _, err := client(t, config).Get(t.Context(), Request{URL: s.URL}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("Get: %v, want an error about the certificate", err)
	}
	if c := client(t, Config{Capture: true, Transport: fake(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})}); mustGet(t, c, Request{URL: "http://h/"}).Wire != nil {
		t.Error("Wire is not nil, although the transport makes no connection")
	}
}

// TestCaptureLimit: the limit of a capture also counts the chunk headers of a body, which can
// be longer than the content.
func TestCaptureLimit(t *testing.T) {
	t.Parallel()
	addr := listen(t, nil, func(_ int, conn net.Conn) {
		conn.Read(make([]byte, 1<<10))
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n")
		piece := bytes.Repeat([]byte("000000000001\r\nx\r\n"), 1000)
		for {
			if _, err := conn.Write(piece); err != nil {
				return
			}
		}
	})
	c := client(t, Config{Capture: true, MaxBodyBytes: 1 << 20, MaxHeaderBytes: 1 << 10})
	request := Request{URL: "http://" + addr}
	r := mustGet(t, c, request)
	defer r.Release()
	if int64(len(r.Wire.Response)) > c.maxCaptured(request) || len(r.Wire.Response) < 1<<20 || !r.Wire.Truncated || !r.Truncated {
		t.Errorf("captured %d bytes, body of %d bytes, Wire.Truncated %v, want at least 1 MiB of both, truncated",
			len(r.Wire.Response), len(r.Body), r.Wire.Truncated)
	}
}

// TestCaptureManyAtOnce: no capture contains octets of another connection.
func TestCaptureManyAtOnce(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { page(strings.Repeat(r.URL.Path, 2000))(w, r) })
	c := client(t, Config{Capture: true, MaxIdleConnsPerHost: 3})
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Go(func() {
			for i := range 50 {
				path := fmt.Sprintf("/%d-%d", worker, i)
				r, err := c.Get(t.Context(), Request{URL: url + path})
				if errors.Is(err, ErrStale) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				sent, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(r.Wire.Request)))
				if err != nil || sent.URL.Path != path {
					t.Errorf("%s: Wire has another request: %.100q", path, r.Wire.Request)
				}
				answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(r.Wire.Response)), nil)
				if err != nil {
					t.Errorf("%s: read the answer in Wire: %v", path, err)
					return
				}
				if body, err := io.ReadAll(answer.Body); err != nil || string(body) != strings.Repeat(path, 2000) {
					t.Errorf("%s: Wire has another body: %d bytes, %v", path, len(body), err)
				}
				r.Release()
			}
		})
	}
	workers.Wait()
}

// FuzzFinalAnswer: finalAnswer returns a part of its input. From this part, the same answer and
// body are read as from the whole input.
func FuzzFinalAnswer(f *testing.F) {
	for _, wire := range []string{
		"HTTP/1.1 103 a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabcd",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nA: b\r\n\r\nrest",
		"HTTP/1.0 200\n\nx", "HTTP/1.1 204 No\r\n\r\nx", "HTTP/1.1 100 a\r\n", "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
	} {
		f.Add([]byte(wire))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		want := readMended(string(wire), 1<<20)
		if want.answer == nil {
			return
		}
		part := finalAnswer(wire, want.answer)
		if !bytes.Contains(wire, part) {
			t.Fatalf("finalAnswer = %q, which is no part of %q", part, wire)
		}
		got := readMended(string(part), 1<<20)
		if got.answer == nil || got.body != want.body || (got.err == nil) != (want.err == nil) || got.answer.StatusCode != want.answer.StatusCode {
			t.Errorf("finalAnswer(%q) = %q: %+v, want %+v", wire, part, got, want)
		}
	})
}

func BenchmarkCapture(b *testing.B) {
	url := httptest.NewServer(page(strings.Repeat("<p>some text", (14<<10)/12)))
	b.Cleanup(url.Close)
	for _, capture := range []bool{false, true} {
		b.Run(fmt.Sprintf("capture=%v", capture), func(b *testing.B) {
			c := client(b, Config{Capture: capture})
			b.ReportAllocs()
			for b.Loop() {
				mustGet(b, c, Request{URL: url.URL}).Release()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
