package get

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Server is one connection of a server that writes raw frames.
type h2Server struct {
	*http2.Framer
	conn   net.Conn
	stream uint32 // of the last request that was read
}

// rawHTTP2 starts a server. On each connection the server reads a request, and then calls
// serve with the number of the connection. rawHTTP2 returns the server's address and a config
// that trusts the server.
func rawHTTP2(t *testing.T, serve func(n int, s *h2Server)) (addr string, config Config) {
	t.Helper()
	tlsServer, config := secure(t, page("unused"))
	addr = listen(t, func(l net.Listener) net.Listener {
		return tls.NewListener(l, &tls.Config{Certificates: tlsServer.TLS.Certificates, NextProtos: []string{"h2"}})
	}, func(n int, conn net.Conn) {
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		if tcp, ok := conn.(*tls.Conn).NetConn().(*net.TCPConn); ok { // a small buffer, so that the client has read nearly all written bytes
			_ = tcp.SetWriteBuffer(16 << 10)
		}
		s := &h2Server{Framer: http2.NewFramer(conn, conn), conn: conn}
		s.AllowIllegalWrites = true
		if s.WriteSettings() == nil && s.request() {
			serve(n, s)
		}
	})
	return addr, config
}

// request reads frames up to the header of a request.
func (s *h2Server) request() bool {
	for {
		frame, err := s.ReadFrame()
		if err != nil {
			return false
		}
		if frame, ok := frame.(*http2.HeadersFrame); ok {
			s.stream = frame.StreamID
			return true
		}
	}
}

// answer writes the header of an HTML page.
func (s *h2Server) answer() error {
	return s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.stream, BlockFragment: block(":status", "200", "content-type", "text/html"), EndHeaders: true})
}

// block returns header fields, encoded for a frame.
func block(fields ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.Bytes()
}

// drain reads the bytes that the client sends, so that its writes do not block.
func (s *h2Server) drain() { go io.Copy(io.Discard, s.conn) }

// maxFlood is the largest number of frames that a flood writes.
const maxFlood = 500_000

// flood writes frames until the connection fails, or until there are maxFlood of them, and
// returns their number. It writes many frames at once.
func (s *h2Server) flood(write func(*http2.Framer) error) int {
	var frames bytes.Buffer
	f := http2.NewFramer(&frames, nil)
	f.AllowIllegalWrites = true
	const batch = 100
	for range batch {
		if err := write(f); err != nil {
			panic(err)
		}
	}
	for n := 0; n < maxFlood; n += batch {
		if _, err := s.conn.Write(frames.Bytes()); err != nil {
			return n
		}
	}
	return maxFlood
}

// Each function in floods writes one frame that is not part of an answer.
var floods = map[string]func(f *http2.Framer, stream uint32) error{
	"PING":     func(f *http2.Framer, _ uint32) error { return f.WritePing(false, [8]byte{}) },
	"PING ack": func(f *http2.Framer, _ uint32) error { return f.WritePing(true, [8]byte{}) },
	"SETTINGS": func(f *http2.Framer, _ uint32) error { return f.WriteSettings() },
	"PRIORITY": func(f *http2.Framer, stream uint32) error {
		return f.WritePriority(stream, http2.PriorityParam{StreamDep: stream + 2})
	},
	"unknown":       func(f *http2.Framer, _ uint32) error { return f.WriteRawFrame(0xbe, 0, 0, nil) },
	"large unknown": func(f *http2.Framer, _ uint32) error { return f.WriteRawFrame(0xbe, 0, 0, make([]byte, 16<<10)) },
	"WINDOW_UPDATE": func(f *http2.Framer, _ uint32) error { return f.WriteWindowUpdate(0, 1) },
	"empty CONTINUATION": func(f *http2.Framer, stream uint32) error {
		return f.WriteContinuation(stream, false, nil)
	},
	"RST_STREAM of no request": func(f *http2.Framer, _ uint32) error { return f.WriteRSTStream(99, http2.ErrCodeCancel) },
	"GOAWAY":                   func(f *http2.Framer, _ uint32) error { return f.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil) },
	"HEADERS of no request": func(f *http2.Framer, stream uint32) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream - 2, BlockFragment: block(":status", "200"), EndHeaders: true})
	},
	"interim answers": func(f *http2.Framer, stream uint32) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block(":status", "103"), EndHeaders: true})
	},
	"empty DATA": func(f *http2.Framer, stream uint32) error { return f.WriteData(stream, false, nil) },
	"padded DATA": func(f *http2.Framer, stream uint32) error {
		return f.WriteDataPadded(stream, false, nil, make([]byte, 255))
	},
	"DATA of a request that was answered": func(f *http2.Framer, stream uint32) error {
		return f.WriteData(stream-2, false, make([]byte, 1000))
	},
}

// TestHTTP2Flood: some thousands of frames that belong to no answer end a connection,
// long before the time limits. This holds while the client waits for an answer and in the
// middle of its body.
func TestHTTP2Flood(t *testing.T) {
	for name, write := range floods {
		for _, when := range []string{"before the header", "in the body"} {
			if when == "in the body" && name == "interim answers" {
				continue // in a body they are trailers, which end the stream
			}
			t.Run(name+" "+when, func(t *testing.T) {
				sent := make(chan int, 1)
				addr, config := rawHTTP2(t, func(_ int, s *h2Server) {
					_ = s.answer() // of the first request
					_ = s.WriteData(s.stream, true, []byte("x"))
					if !s.request() {
						return
					}
					if when == "in the body" {
						_ = s.answer()
						_ = s.WriteData(s.stream, false, []byte("<p>"))
					}
					if name == "empty CONTINUATION" {
						_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.stream, BlockFragment: block("a", "b")})
					}
					s.drain()
					sent <- s.flood(func(f *http2.Framer) error { return write(f, s.stream) })
				})
				c := client(t, config)
				mustGet(t, c, Request{URL: "https://" + addr}).Release()
				var err error
				for try := 0; err == nil && try < 10; try++ { // a request may get a new connection, on which it is the first request
					var r *Response
					if r, err = c.Get(t.Context(), Request{URL: "https://" + addr}); err == nil {
						r.Release()
					}
				}
				fault := new(Error)
				if !errors.As(err, &fault) {
					t.Fatalf("Get: %v, want an *Error", err)
				}
				select {
				case n := <-sent:
					if n > maxFlood/2 { // some of the frames are in the kernel's buffers
						t.Errorf("%d frames were sent before the connection failed, want at most %d", n, maxFlood/2)
					}
				case <-time.After(10 * time.Second):
					t.Errorf("no flood was sent; the request ended with %v", err)
				}
			})
		}
	}
}

// TestHTTP2FloodIsNamed: the error says that the server sent a flood, even on a reused
// connection.
func TestHTTP2FloodIsNamed(t *testing.T) {
	addr, config := rawHTTP2(t, func(_ int, s *h2Server) {
		_ = s.answer()
		_ = s.WriteData(s.stream, true, []byte("x"))
		if s.request() {
			s.drain()
			s.flood(func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) })
		}
	})
	c := client(t, config)
	mustGet(t, c, Request{URL: "https://" + addr}).Release()
	_, err := c.Get(t.Context(), Request{URL: "https://" + addr})
	if !errors.Is(err, errH2Flood) || errors.Is(err, ErrStale) {
		t.Errorf("second Get: %v, want errH2Flood and not ErrStale", err)
	}
}

// TestHTTP2ErrorClosesConnection: after an error the client reads nothing more from the
// server, even if the server sends very slowly. The next request gets a new connection.
func TestHTTP2ErrorClosesConnection(t *testing.T) {
	tooSlow := func(c *Client) {
		c.limits.window, c.limits.least = 100*time.Millisecond, 1<<20
	}
	for name, test := range map[string]struct {
		answer func(s *h2Server)
		hasten func(c *Client)
		reads  bool // the server reads the bytes that the client sends
		want   error
	}{
		"no header":                       {func(*h2Server) {}, func(c *Client) { c.limits.header = 100 * time.Millisecond }, true, ErrHeaderTimeout},
		"no header, server reads nothing": {func(*h2Server) {}, func(c *Client) { c.limits.header = 100 * time.Millisecond }, false, ErrHeaderTimeout},
		"slow body":                       {func(s *h2Server) { _ = s.answer() }, tooSlow, true, ErrTooSlow},
		"slow body, server reads nothing": {func(s *h2Server) { _ = s.answer() }, tooSlow, false, ErrTooSlow},
		"reset before the header":         {func(s *h2Server) { _ = s.WriteRSTStream(s.stream, http2.ErrCodeInternal) }, func(*Client) {}, true, nil},
		"reset in the body": {func(s *h2Server) {
			_ = s.answer()
			_ = s.WriteData(s.stream, false, []byte("<p>"))
			_ = s.WriteRSTStream(s.stream, http2.ErrCodeInternal)
		}, func(*Client) {}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan struct{})
			addr, config := rawHTTP2(t, func(n int, s *h2Server) {
				if n > 0 {
					_ = s.answer()
					_ = s.WriteData(s.stream, true, []byte("x"))
					s.drain()
					return
				}
				defer close(closed)
				test.answer(s)
				if test.reads {
					s.drain()
				}
				for range 3000 { // this takes 30 s
					if s.WritePing(false, [8]byte{}) != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
			c := client(t, config)
			test.hasten(c)
			_, err := c.Get(t.Context(), Request{URL: "https://" + addr})
			if err == nil || !errors.Is(err, test.want) && test.want != nil {
				t.Errorf("Get: %v, want the error %v, or any error if that is nil", err, test.want)
			}
			select {
			case <-closed:
			case <-time.After(10 * time.Second):
				t.Error("the connection is still open after 10 s")
			}
			c.limits = newLimits(c.config)
			mustGet(t, c, Request{URL: "https://" + addr}).Release()
		})
	}
}

// TestHTTP2OthersGoOn: a request that fails does not end the other requests on its
// connection, but no new request uses that connection.
func TestHTTP2OthersGoOn(t *testing.T) {
	begun, reset := make(chan struct{}), make(chan struct{})
	addr, config := rawHTTP2(t, func(n int, s *h2Server) {
		_ = s.answer()
		_ = s.WriteData(s.stream, true, []byte{'0' + byte(n)})
		if !s.request() {
			return
		}
		first := s.stream
		close(begun)
		if !s.request() {
			return
		}
		_ = s.WriteRSTStream(s.stream, http2.ErrCodeInternal)
		<-reset
		s.stream = first
		_ = s.answer()
		_ = s.WriteData(first, true, []byte("first"))
		s.request()
	})
	c := client(t, config)
	get := func() string {
		r, err := c.Get(t.Context(), Request{URL: "https://" + addr})
		if err != nil {
			return err.Error()
		}
		defer r.Release()
		return string(r.Body)
	}
	if got := get(); got != "0" {
		t.Fatalf("the opening request: %s, want 0, the number of the first connection", got)
	}
	first := make(chan string, 1)
	go func() { first <- get() }()
	<-begun
	if got := get(); !strings.Contains(got, "INTERNAL_ERROR") {
		t.Errorf("the second request: %s, want INTERNAL_ERROR", got)
	}
	close(reset)
	if got := <-first; got != "first" {
		t.Errorf("the first request: %s, want first", got)
	}
	if got := get(); got != "1" {
		t.Errorf("the third request: %s, want 1, the number of the second connection", got)
	}
}

// sendBody sends a body of size bytes. Each frame has the given numbers of bytes
// of data and padding. sendBody sends as fast as the client's window for the
// stream allows.
func (s *h2Server) sendBody(size, data, padding int) {
	var frames bytes.Buffer
	f := http2.NewFramer(&frames, nil)
	flush := func() bool {
		_, err := frames.WriteTo(s.conn)
		return err == nil
	}
	window := 4 << 20 // from the client's SETTINGS
	for left := size; left > 0; left -= data {
		for frame := data + padding + 1; window < frame; {
			if !flush() {
				return
			}
			got, err := s.ReadFrame()
			if err != nil {
				return
			}
			if update, ok := got.(*http2.WindowUpdateFrame); ok && update.StreamID == s.stream {
				window += int(update.Increment)
			}
		}
		window -= data
		piece := bytes.Repeat([]byte("x"), min(data, left))
		if padding == 0 {
			_ = f.WriteData(s.stream, left <= data, piece)
		} else {
			window -= padding + 1
			_ = f.WriteDataPadded(s.stream, left <= data, piece, make([]byte, padding))
		}
		if frames.Len() > 64<<10 && !flush() {
			return
		}
	}
	flush()
}

// TestHTTP2Bodies: bodies of well-behaved servers do not count as floods.
func TestHTTP2Bodies(t *testing.T) {
	for name, b := range map[string]struct{ size, data, padding int }{
		"large":        {40 << 20, 16 << 10, 0},
		"small frames": {20 << 20, 100, 0},
		"tiny frames":  {1 << 20, 8, 0},
		"padded":       {20 << 20, 1000, 200},
	} {
		t.Run(name, func(t *testing.T) {
			addr, config := rawHTTP2(t, func(_ int, s *h2Server) {
				_ = s.answer()
				s.sendBody(b.size, b.data, b.padding)
				s.request()
			})
			config.MaxBodyBytes = 64 << 20
			r := mustGet(t, client(t, config), Request{URL: "https://" + addr})
			if len(r.Body) != b.size {
				t.Errorf("%d bytes, want %d", len(r.Body), b.size)
			}
			r.Release()
		})
	}
}

// TestHTTP2KeepsConnection: answers that are not read to their end do not count as
// errors. The connection is kept after twenty of them.
func TestHTTP2KeepsConnection(t *testing.T) {
	addr, config := rawHTTP2(t, func(n int, s *h2Server) {
		if n > 0 {
			t.Error("the client made a second connection")
		}
		for more := true; more; more = s.request() {
			_ = s.answer()
			for range 3 << 10 { // less than the client's window
				if s.WriteData(s.stream, false, make([]byte, 1<<10)) != nil {
					return
				}
			}
		}
	})
	config.MaxBodyBytes = 1 << 10
	c := client(t, config)
	for range 20 {
		mustGet(t, c, Request{URL: "https://" + addr}).Release()
	}
}
