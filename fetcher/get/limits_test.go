package get

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// drip is the body of an answer. It yields the first bytes at once, then one piece in each
// interval, until nothing is left or ctx ends.
type drip struct {
	ctx      context.Context
	first    int
	interval time.Duration
	piece    int
	left     int
}

func (d *drip) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	if n := min(d.first, len(p)); n > 0 {
		d.first, d.left = d.first-n, d.left-n
		return n, nil
	}
	select {
	case <-time.After(d.interval):
	case <-d.ctx.Done():
		return 0, context.Cause(d.ctx)
	}
	n := min(d.piece, d.left, len(p))
	d.left -= n
	return n, nil
}

func (d *drip) Close() error { return nil }

// answering returns a transport that answers each request after a time, without a network.
func answering(after time.Duration, header http.Header, body func(context.Context) io.ReadCloser) fake {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(after):
		case <-r.Context().Done():
			return nil, r.Context().Err() // an error that does not contain the cause
		}
		header := header.Clone()
		header.Set("Content-Type", "text/html")
		return &http.Response{StatusCode: 200, Header: header, ContentLength: -1, Body: body(r.Context())}, nil
	}
}

// TestLimitsInTime checks, in simulated time, with which error a slow answer ends, and when.
// The rate of a body must be 100 B/s over each 10 s, except with a MinRate of 0.
func TestLimitsInTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header time.Duration // until the answer's header is complete
		drip   drip
		rate   int64
		want   error
		took   time.Duration
	}{
		"fast":                   {0, drip{interval: time.Millisecond, piece: 1000, left: 5000}, 100, nil, 5 * time.Millisecond},
		"just fast enough":       {0, drip{interval: 999 * time.Millisecond, piece: 100, left: 5000}, 100, nil, 50 * 999 * time.Millisecond},
		"a little too slow":      {0, drip{interval: time.Second, piece: 99, left: 5000}, 100, ErrTooSlow, 10 * time.Second},
		"short and slow":         {0, drip{interval: 3 * time.Second, piece: 1, left: 3}, 100, nil, 9 * time.Second},
		"silent":                 {0, drip{interval: time.Hour, piece: 1, left: 1}, 100, ErrTooSlow, 10 * time.Second},
		"fast, then slow":        {0, drip{first: 90_000, interval: time.Second, piece: 1, left: 100_000}, 100, ErrTooSlow, 20 * time.Second},
		"slow without a MinRate": {0, drip{interval: time.Second, piece: 1, left: 50}, 0, nil, 50 * time.Second},
		"endless":                {0, drip{interval: time.Second, piece: 200, left: 1 << 30}, 100, ErrTimeout, 60 * time.Second},
		"slow header":            {19 * time.Second, drip{left: 0}, 100, nil, 19 * time.Second},
		"no header":              {time.Hour, drip{left: 0}, 100, ErrHeaderTimeout, 20 * time.Second},
		"slow header, fast body": {19 * time.Second, drip{interval: time.Millisecond, piece: 1, left: 3000}, 100, nil, 22 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := client(t, Config{
					Timeout: time.Minute, HeaderTimeout: 20 * time.Second, MinRate: c.rate, RateWindow: 10 * time.Second,
					Transport: answering(c.header, http.Header{}, func(ctx context.Context) io.ReadCloser { c.drip.ctx = ctx; return &c.drip }),
				})
				total, began := c.drip.left, time.Now()
				r, err := cl.Get(t.Context(), Request{URL: "http://h/"})
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				if !errors.Is(err, c.want) {
					t.Errorf("Get: %v, want %v", err, c.want)
				}
				if err != nil {
					if f := Classify(err); f != (Fault{Outcome: frontier.Network, Retry: true, Answered: c.want != ErrHeaderTimeout}) {
						t.Errorf("Classify(%v) = %+v", err, f)
					}
				} else if len(r.Body) != total {
					t.Errorf("body of %d bytes, want %d", len(r.Body), total)
				}
			})
		})
	}
}

// TestGrowIsAskedFirst: the client calls Grow before it takes memory. The sum of the bytes
// for which it calls Grow is at most MaxHeld. The time in Grow does not make a body too slow,
// but counts towards Config.Timeout.
func TestGrowIsAskedFirst(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("<p>some text ", 100_000)
	for name, header := range map[string]http.Header{"plain": {}, "gzip": {"Content-Encoding": {"gzip"}}, "br": {"Content-Encoding": {"br"}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wire := []byte(big)
				if coding := header.Get("Content-Encoding"); coding != "" {
					wire = packed(t, coding, big)
				}
				cl := client(t, Config{MaxBodyBytes: int64(len(big)), RateWindow: time.Second, Transport: answering(0, header, func(context.Context) io.ReadCloser {
					return io.NopCloser(bytes.NewReader(wire))
				})})
				var held int64
				request := Request{URL: "http://h/", Grow: func(_ context.Context, more int64) error {
					held += more
					time.Sleep(2 * time.Second)
					return nil
				}}
				r, err := cl.Get(t.Context(), request)
				if err != nil || string(r.Body) != big {
					t.Fatalf("Get: %v, want no error and the whole body", err)
				}
				most := cl.MaxHeld(request)
				if name == "plain" {
					most = int64(len(big))
				}
				if held < int64(len(big)) || held > most {
					t.Errorf("Grow was called for %d bytes in all, want %d to %d", held, len(big), most)
				}
				r.Release()
				none := errors.New("no memory")
				request.Grow = func(context.Context, int64) error { return none }
				if _, err := cl.Get(t.Context(), request); !errors.Is(err, none) {
					t.Errorf("Get: %v, want %v", err, none)
				}
				request.MaxBody = 100
				request.Grow = func(ctx context.Context, _ int64) error { <-ctx.Done(); return ctx.Err() }
				if _, err := cl.Get(t.Context(), request); !errors.Is(err, ErrTimeout) {
					t.Errorf("Get: %v, want %v", err, ErrTimeout)
				}
			})
		})
	}
}

// TestDripOnTheWire tests the limits over connections, with short times. Headers and bodies
// arrive in small pieces, in each coding.
func TestDripOnTheWire(t *testing.T) {
	t.Parallel()
	dripping := func(header string) string {
		return "http://" + listen(t, nil, func(_ int, conn net.Conn) {
			conn.Read(make([]byte, 1<<10))
			io.WriteString(conn, header)
			for {
				if _, err := io.WriteString(conn, "a"); err != nil {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	s, config := secure(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for r.URL.Path == "/header" {
			select {
			case <-r.Context().Done():
				panic(http.ErrAbortHandler) // a return would end the body, which could still reach the client
			case <-time.After(5 * time.Millisecond):
			}
		}
		for {
			if _, err := io.WriteString(w, "a"); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				panic(http.ErrAbortHandler) // a return would end the body, which could still reach the client
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	const html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	config.RateWindow, config.MinRate = 100*time.Millisecond, 1<<20
	for name, c := range map[string]struct {
		url  string
		want error
		op   Op
	}{
		"header":          {dripping(html + "X: "), ErrHeaderTimeout, OpHeader},
		"body":            {dripping(html + "\r\n"), ErrTooSlow, OpBody},
		"known length":    {dripping(html + "Content-Length: 1000000\r\n\r\n"), ErrTooSlow, OpBody},
		"gzip":            {dripping(html + "Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\xff"), ErrTooSlow, OpBody},
		"br":              {dripping(html + "Content-Encoding: br\r\n\r\n"), ErrTooSlow, OpBody},
		"zstd":            {dripping(html + "Content-Encoding: zstd\r\n\r\n"), ErrTooSlow, OpBody},
		"no type":         {dripping("HTTP/1.1 200 OK\r\n\r\n"), ErrTooSlow, OpBody},
		"unwanted, short": {dripping("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 9999\r\n\r\n"), nil, ""},
		"error page":      {dripping("HTTP/1.1 404 No\r\n\r\n"), ErrTooSlow, OpBody},
		"header over TLS": {s.URL + "/header", ErrHeaderTimeout, OpRequest},
		"body over TLS":   {s.URL + "/", ErrTooSlow, OpBody},
	} {
		t.Run(name, func(t *testing.T) {
			config := config
			if c.want == ErrHeaderTimeout {
				config.HeaderTimeout = 100 * time.Millisecond
			}
			r, err := client(t, config).Get(t.Context(), Request{URL: c.url})
			if err == nil {
				r.Release()
			}
			fault := new(Error)
			if !errors.Is(err, c.want) || err != nil && (!errors.As(err, &fault) || fault.Op != c.op) {
				t.Errorf("Get: %v, want %v with the Op %q", err, c.want, c.op)
			}
		})
	}
}

// TestHeaderTimeoutIsNotStale: if the server does not answer a request on a reused connection,
// the error is ErrHeaderTimeout and not ErrStale.
func TestHeaderTimeoutIsNotStale(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 2 {
			<-r.Context().Done()
		}
		page("x")(w, r)
	})
	c := client(t, Config{})
	mustGet(t, c, Request{URL: url}).Release()
	c.limits.header = 100 * time.Millisecond
	_, err := c.Get(t.Context(), Request{URL: url})
	if !errors.Is(err, ErrHeaderTimeout) || errors.Is(err, ErrStale) {
		t.Errorf("second Get: %v, want ErrHeaderTimeout and not ErrStale", err)
	}
	if requests.Load() != 2 {
		t.Errorf("%d requests, want 2", requests.Load())
	}
}

// TestHeaderFlood: if a header has no end, Get returns an error and closes the connection,
// whatever the header consists of.
func TestHeaderFlood(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ begin, again string }{
		"one long value":  {"HTTP/1.1 200 OK\r\nX: ", strings.Repeat("x", 1000)},
		"one long name":   {"HTTP/1.1 200 OK\r\n", strings.Repeat("x", 1000)},
		"many lines":      {"HTTP/1.1 200 OK\r\n", "X: y\r\n"},
		"continued lines": {"HTTP/1.1 200 OK\r\nX: y\r\n", " y\r\n"},
		"interim answers": {"", "HTTP/1.1 103 Early\r\nX: y\r\n\r\n"},
		"status line":     {"HTTP/1.1 200 ", "O"},
		"empty":           {"", "\r\n"},
		"NUL":             {"", "\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan int, 1)
			addr := listen(t, nil, func(_ int, conn net.Conn) {
				conn.Read(make([]byte, 1<<10))
				io.WriteString(conn, c.begin)
				total, flood := 0, []byte(strings.Repeat(c.again, 10_000/len(c.again)))
				for {
					n, err := conn.Write(flood)
					if total += n; err != nil || total > 100<<20 {
						sent <- total
						return
					}
				}
			})
			cl := client(t, Config{MaxHeaderBytes: 64 << 10})
			_, err := cl.Get(t.Context(), Request{URL: "http://" + addr})
			fault := new(Error)
			op := OpHeader
			if strings.Trim(c.again, "\x00\r\n") == "" {
				op = OpRequest // no answer of HTTP
			}
			if !errors.As(err, &fault) || fault.Op != op {
				t.Errorf("Get: %v, want an *Error with the Op %q", err, op)
			}
			if total := <-sent; total > 50<<20 { // the kernel buffers some of the bytes
				t.Errorf("%d bytes were sent before the connection failed, want at most 50 MiB", total)
			}
		})
	}
}

// TestEndlessBody: an endless body is cut at the limit, and no more of it is
// read.
func TestEndlessBody(t *testing.T) {
	t.Parallel()
	for _, framing := range []string{"", "Transfer-Encoding: chunked\r\n", "Content-Length: 1000000000000\r\n"} {
		addr := listen(t, nil, func(_ int, conn net.Conn) {
			conn.Read(make([]byte, 1<<10))
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n%s\r\n", framing)
			piece := bytes.Repeat([]byte("5\r\nhello\r\n"), 1000)
			for {
				if _, err := conn.Write(piece); err != nil {
					return
				}
			}
		})
		r := mustGet(t, client(t, Config{MaxBodyBytes: 1 << 20}), Request{URL: "http://" + addr})
		if len(r.Body) != 1<<20 || !r.Truncated || r.Damage != nil || r.WireBytes > maxPacked(1<<20) {
			t.Errorf("%q: body of %d bytes, %d bytes on the wire, truncated %v, damage %v",
				framing, len(r.Body), r.WireBytes, r.Truncated, r.Damage)
		}
		r.Release()
	}
}
