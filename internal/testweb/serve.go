package testweb

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Serve answers requests on listener until ctx is done. Then it aborts the requests in
// flight and closes listener. If Serve ended because ctx is done, it returns only an error
// that occurred while the request log was written.
func (w *Web) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				w.connections.Add(1)
			}
		},
		Handler:           w.Handler(),
		ReadHeaderTimeout: time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // ends answers that wait
		ErrorLog:          log.New(io.Discard, "", 0),                        // crawlers can abort requests
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	watching, endWatching := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { w.watchStalls(watching) })
	defer watch.Wait()
	defer endWatching()
	var err error
	if w.authority != nil {
		server.TLSConfig = w.tlsConfig()
		err = server.ServeTLS(listener, "", "")
	} else {
		err = server.Serve(listener)
	}
	if !stop() {
		err = nil
	}
	return errors.Join(err, w.logError())
}

// Traffic is the number of requests and connections that a Web has had so far.
type Traffic struct {
	Requests    uint64 // for all paths, including robots.txt
	Connections uint64 // accepted
}

// Traffic returns the number of requests and connections so far.
func (w *Web) Traffic() Traffic {
	return Traffic{w.requests.Load(), w.connections.Load()}
}

// Handler returns the handler of all hosts.
func (w *Web) Handler() http.Handler { return http.HandlerFunc(w.serve) }

func (w *Web) serve(rw http.ResponseWriter, r *http.Request) {
	host := bareHost(r.Host)
	w.requests.Add(1)
	a := w.take(host, r.RequestURI)
	if wait := a.wait + w.lateness(host); wait > 0 && !sleep(r.Context(), wait) {
		return
	}
	if a.cut == cutReset || a.cut == cutClose {
		hangUp(rw, a.cut)
		return
	}
	if a.raw != nil {
		sendRaw(rw, a.raw)
		return
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	body := (*buffer)[:0]
	if a.packed != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body = a.packed(body)
		a.header = http.Header{"Content-Encoding": {"gzip"}}
	} else if a.body != nil {
		body = a.body(body)
	}
	*buffer = body[:0]
	w.send(rw, r, a, body)
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// send writes an answer with its body, or with only the first half of its body if a.cut
// is cutBody.
func (w *Web) send(rw http.ResponseWriter, r *http.Request, a *answer, body []byte) {
	header := rw.Header()
	if header.Set("Content-Type", a.contentType); a.contentType == "" {
		header["Content-Type"] = nil // otherwise net/http guesses one
	}
	for name, values := range a.header {
		header[name] = values
	}
	if a.location != "" {
		header.Set("Location", a.location)
	}
	if a.stream != nil {
		rw.WriteHeader(a.status)
		_ = a.stream(&clientWriter{ctx: r.Context(), out: rw}) // returns when the client disconnects
		return
	}
	var out io.Writer = rw
	if a.gzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		packed := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(packed)
		packed.Reset(rw)
		defer packed.Close()
		out = packed
	} else {
		header.Set("Content-Length", strconv.FormatInt(max(a.size, int64(len(body))), 10))
	}
	rw.WriteHeader(a.status)
	if a.cut == cutBody {
		_, _ = rw.Write(body[:len(body)/2])
		hangUp(rw, cutBody)
		return
	}
	pieces := 1
	if a.slow {
		pieces = slowPieces
	}
	for piece := range pieces {
		if piece > 0 && !sleep(r.Context(), slowPause) {
			return
		}
		if _, err := out.Write(body[len(body)*piece/pieces : len(body)*(piece+1)/pieces]); err != nil {
			return
		}
		if a.slow {
			_ = http.NewResponseController(rw).Flush()
		}
	}
	_ = w.fill(out, a.size-int64(len(body)))
}

// clientWriter writes to a client. Write fails once the client has disconnected.
type clientWriter struct {
	ctx context.Context
	out http.ResponseWriter
}

func (l *clientWriter) Write(b []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	return l.out.Write(b)
}

// drip writes b without buffering, and then waits. It returns false if the client has
// disconnected. If out is not a client's connection, drip does not wait.
func drip(out io.Writer, b []byte, wait time.Duration) bool {
	if _, err := out.Write(b); err != nil {
		return false
	}
	l, isLive := out.(*clientWriter)
	if !isLive {
		return true // the body goes into a buffer or a hash
	}
	_ = http.NewResponseController(l.out).Flush()
	return sleep(l.ctx, wait)
}

// fill writes n bytes of text. The text is always the same.
func (w *Web) fill(out io.Writer, n int64) error {
	if n <= 0 {
		return nil
	}
	text := bytes.Repeat([]byte(w.corpus.paragraphs[0]), 1+(64<<10)/len(w.corpus.paragraphs[0]))
	for ; n > 0; n -= int64(len(text)) {
		if _, err := out.Write(text[:min(n, int64(len(text)))]); err != nil {
			return err
		}
	}
	return nil
}

// sleep waits for d. It returns false if ctx is done before that.
func sleep(ctx context.Context, d time.Duration) (elapsed bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// sendRaw writes a whole answer to the connection, and closes the connection.
func sendRaw(rw http.ResponseWriter, raw []byte) {
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // a test without a network
	}
	_, _ = conn.Write(raw) // the client can be gone
	_ = conn.Close()
}

// hangUp breaks off the answer. It panics with http.ErrAbortHandler, at which net/http
// closes the connection.
func hangUp(rw http.ResponseWriter, how cut) {
	controller := http.NewResponseController(rw)
	switch how {
	case cutBody:
		_ = controller.Flush()
	case cutReset:
		conn, _, err := controller.Hijack()
		if err != nil {
			break // a test without a network, or HTTP/2
		}
		if secure, is := conn.(*tls.Conn); is {
			conn = secure.NetConn()
		}
		if tcp, is := conn.(*net.TCPConn); is {
			_ = tcp.SetLinger(0) // an unclean close is a reset
		}
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}
