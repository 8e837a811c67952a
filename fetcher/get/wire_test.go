package get

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

var discard = log.New(io.Discard, "", 0)

// listen starts a server and returns its address. The server calls serve for each connection,
// with the number of the connection, from 0.
func listen(t *testing.T, wrap func(net.Listener) net.Listener, serve func(n int, conn net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if wrap != nil {
		l = wrap(l)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				serve(n, conn)
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String()
}

// readHead reads a request up to its empty line.
func readHead(from *bufio.Reader) (string, error) {
	var head strings.Builder
	for {
		line, err := from.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String(), err
		}
	}
}

const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1\r\n\r\nx"

// TestOnTheWire checks that the URL is sent unchanged, that no header announces
// a body, and that no body follows.
func TestOnTheWire(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"":                        "/",
		"/a/b?c=d&e":              "/a/b?c=d&e",
		"?q":                      "/?q",
		"/100%?x=%zz#frag":        "/100%?x=%zz",
		"/%7Ea%2fb;p='(*)!$,@:[]": "/%7Ea%2fb;p='(*)!$,@:[]",
		"//double/slash":          "//double/slash",
		"/ü b?ü b":                "/%C3%BC%20b?%C3%BC%20b",
		"//100%":                  "http://HOST//100%",
	} {
		heads := make(chan string, 2)
		addr := listen(t, nil, func(_ int, conn net.Conn) {
			from := bufio.NewReader(conn)
			head, _ := readHead(from)
			heads <- head
			io.WriteString(conn, answer)
			rest, _ := io.ReadAll(from) // until the client closes the connection
			heads <- string(rest)
		})
		c := client(t, Config{UserAgent: "test/1"})
		r, err := c.Get(t.Context(), Request{URL: "http://" + addr + target})
		if err != nil {
			t.Errorf("%q: %v", target, err)
			continue
		}
		r.Release()
		c.Close()
		head := <-heads
		want = strings.Replace(want, "HOST", addr, 1)
		if line, _, _ := strings.Cut(head, "\r\n"); line != "GET "+want+" HTTP/1.1" {
			t.Errorf("%q: request line %q, want the target %q", target, line, want)
		}
		if strings.Count(head, "\r\n") != 6 || !strings.Contains(head, "Host: "+addr) || !strings.Contains(head, "User-Agent: test/1") {
			t.Errorf("%q: header %q", target, head)
		}
		if rest := <-heads; rest != "" {
			t.Errorf("%q: %q follows the header, want nothing", target, rest)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", "/a", "h", "ftp://h/", "http://", "http:///a", "http://h:x/", "http://h\x00/", "http://a b/", "HTTP:/x"} {
		if u, err := parseURL(raw); !errors.Is(err, ErrURL) {
			t.Errorf("parseURL(%q) = %v, %v, want ErrURL", raw, u, err)
		}
	}
	for raw, host := range map[string]string{"http://[::1]:80/": "[::1]:80", "http://u:p@h/": "h", "https://h.test:8080": "h.test:8080"} {
		if u, err := parseURL(raw); err != nil || u.Host != host || u.User != nil {
			t.Errorf("parseURL(%q) = %v, %v, want host %q", raw, u, err, host)
		}
	}
}

// FuzzParseURL: no part of a URL gets outside of the request line.
func FuzzParseURL(f *testing.F) {
	for _, raw := range []string{"http://h/a?b#c", "https://h:80//x", "http://[::1]/ü b", "http://h/\r\nX: y", "http://h?\x7f", "http://u@h/%zz", "http://0? "} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := parseURL(raw)
		if err != nil {
			return
		}
		target := u.RequestURI()
		if target == "" || strings.IndexFunc(target, func(r rune) bool { return r <= ' ' || r >= 0x7f }) >= 0 {
			t.Errorf("parseURL(%q) has the request target %q", raw, target)
		}
		if u.Host == "" || u.User != nil || strings.ContainsAny(u.Host, "/?#@\r\n ") {
			t.Errorf("parseURL(%q) has the host %q, user %v", raw, u.Host, u.User)
		}
	})
}

// TestNeverRepeats: a server reads a second request on a connection, and closes or resets
// the connection without an answer. net/http would repeat such a request, but the server
// gets the request only once.
func TestNeverRepeats(t *testing.T) {
	t.Parallel()
	for name, hangUp := range map[string]func(net.Conn){
		"closed": func(conn net.Conn) { conn.Close() },
		"reset":  func(conn net.Conn) { conn.(*net.TCPConn).SetLinger(0); conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			addr := listen(t, nil, func(_ int, conn net.Conn) {
				from := bufio.NewReader(conn)
				for n := 0; ; n++ {
					if _, err := readHead(from); err != nil {
						return
					}
					requests.Add(1)
					if n == 1 {
						hangUp(conn)
						return
					}
					io.WriteString(conn, answer)
				}
			})
			c := client(t, Config{})
			mustGet(t, c, Request{URL: "http://" + addr}).Release()
			starts := 0
			_, err := c.Get(t.Context(), Request{URL: "http://" + addr, Started: func() { starts++ }})
			if !errors.Is(err, ErrStale) {
				t.Errorf("second Get: %v, want ErrStale", err)
			}
			if f := Classify(err); !f.Stale || !f.Retry || f.Host {
				t.Errorf("Classify(%v) = %+v", err, f)
			}
			if requests.Load() != 2 || starts != 1 {
				t.Errorf("%d requests, want 2; the second called Started %d times, want once", requests.Load(), starts)
			}
			mustGet(t, c, Request{URL: "http://" + addr}).Release() // over a new connection
		})
	}
}

// TestEmptyAnswer: a new connection that the server closes without an answer is not stale.
func TestEmptyAnswer(t *testing.T) {
	t.Parallel()
	addr := listen(t, nil, func(_ int, conn net.Conn) { readHead(bufio.NewReader(conn)) })
	_, err := client(t, Config{}).Get(t.Context(), Request{URL: "http://" + addr})
	var fault *Error
	if errors.Is(err, ErrStale) || !errors.As(err, &fault) || fault.Op != OpRequest {
		t.Errorf("Get: %v, want an *Error with OpRequest and not ErrStale", err)
	}
}

// TestKeptConnectionIsNotToBlame: an error on a reused connection is a fault of the server
// if the answer has begun, or if the client timed out.
func TestKeptConnectionIsNotToBlame(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]func(net.Conn, *bufio.Reader){
		"half a header": func(conn net.Conn, _ *bufio.Reader) { io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-") },
		"silence":       func(_ net.Conn, from *bufio.Reader) { from.ReadByte() },
		"other bytes":   func(conn net.Conn, _ *bufio.Reader) { io.WriteString(conn, "SSH-2.0-x\r\n") },
	} {
		addr := listen(t, nil, func(_ int, conn net.Conn) {
			from := bufio.NewReader(conn)
			readHead(from)
			io.WriteString(conn, answer)
			if _, err := readHead(from); err == nil {
				second(conn, from)
			}
		})
		c := client(t, Config{})
		mustGet(t, c, Request{URL: "http://" + addr}).Release()
		c.config.Timeout = 200 * time.Millisecond
		_, err := c.Get(t.Context(), Request{URL: "http://" + addr})
		if f := Classify(err); f != (Fault{Outcome: frontier.Network, Retry: true, Answered: name == "half a header"}) {
			t.Errorf("%s: Classify(%v) = %+v", name, err, f)
		}
	}
}

// TestConnectionsAreKept: requests with different kinds of answers, such as chunked ones and
// unwanted ones, all use the same connection.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	var opened atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		switch r.URL.Path {
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(zipped("<p>x"))
		case "/404":
			http.NotFound(w, r)
		case "/302":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/chunked":
			w.(http.Flusher).Flush()
			fallthrough
		default:
			io.WriteString(w, "<p>x")
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c := client(t, Config{})
	for range 3 {
		for _, path := range []string{"/?type=text/html", "/gzip?type=text/html", "/404", "/302", "/chunked?type=text/html", "/?type=image/png"} {
			mustGet(t, c, Request{URL: s.URL + path}).Release()
		}
	}
	if opened.Load() != 1 {
		t.Errorf("%d connections, want 1", opened.Load())
	}
}

// secure starts a TLS server that speaks HTTP/1.1 and HTTP/2, and returns a config that trusts it.
func secure(t *testing.T, handler http.HandlerFunc) (*httptest.Server, Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = discard
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s, Config{RootCAs: roots}
}

// TestHTTP2Only: a TLS server that does not accept HTTP/1.1 is named as such.
func TestHTTP2Only(t *testing.T) {
	t.Parallel()
	s, config := secure(t, page("unused"))
	onlyHTTP2 := &tls.Config{
		Certificates: s.TLS.Certificates, NextProtos: []string{"h2", "h2c"},
		// Like most servers, but unlike crypto/tls, which makes an exception for HTTP/1.1.
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if slices.Contains(hello.SupportedProtos, "h2") {
				return nil, nil
			}
			return &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"other"}}, nil
		},
	}
	addr := listen(t, func(l net.Listener) net.Listener { return tls.NewListener(l, onlyHTTP2) },
		func(_ int, conn net.Conn) { io.Copy(io.Discard, conn) })
	_, err := client(t, config).Get(t.Context(), Request{URL: "https://" + addr})
	if !errors.Is(err, ErrHTTP2Only) || err.Error() != "connect: the host speaks only HTTP/2" {
		t.Errorf("Get: %v, want ErrHTTP2Only", err)
	}
	if f := Classify(err); f != (Fault{Outcome: frontier.Network, Retry: true, Host: true}) {
		t.Errorf("Classify(%v) = %+v", err, f)
	}
}

// TestRequestsAtOnce: requests to one host at once have a connection each. All of them are kept
// if MaxIdleConnsPerHost allows it, also with a server that speaks HTTP/2 too.
func TestRequestsAtOnce(t *testing.T) {
	t.Parallel()
	const workers = 8
	var addrs sync.Map
	var together sync.WaitGroup
	s, config := secure(t, func(w http.ResponseWriter, r *http.Request) {
		addrs.Store(r.RemoteAddr, true)
		together.Done()
		together.Wait()
		page(r.Proto)(w, r)
	})
	config.MaxIdleConnsPerHost = workers
	c := client(t, config)
	for range 3 {
		together.Add(workers)
		var running sync.WaitGroup
		for range workers {
			running.Go(func() {
				r, err := c.Get(t.Context(), Request{URL: s.URL})
				if err != nil {
					t.Error(err)
					together.Done()
					return
				}
				if string(r.Body) != "HTTP/1.1" {
					t.Errorf("protocol %s, want HTTP/1.1", r.Body)
				}
				r.Release()
			})
		}
		running.Wait()
	}
	count := 0
	addrs.Range(func(any, any) bool { count++; return true })
	if count != workers {
		t.Errorf("%d connections, want %d", count, workers)
	}
}

func BenchmarkGet(b *testing.B) {
	for _, size := range []int{14 << 10} {
		url := serve(b, page(strings.Repeat("<p>some text", size/12)))
		b.Run(fmt.Sprintf("client=get/bytes=%d", size), func(b *testing.B) {
			c := client(b, Config{})
			b.ReportAllocs()
			for b.Loop() {
				mustGet(b, c, Request{URL: url + "/"}).Release()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
		b.Run(fmt.Sprintf("client=nethttp/bytes=%d", size), func(b *testing.B) {
			plain := &http.Client{Transport: &http.Transport{}}
			defer plain.CloseIdleConnections()
			b.ReportAllocs()
			for b.Loop() {
				r, err := plain.Get(url + "/")
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadAll(r.Body); err != nil {
					b.Fatal(err)
				}
				r.Body.Close()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
