package get

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// tap opens connections that can be listened to, above TLS: net/http would
// put TLS on top, and show no more than noise.
type tap struct {
	dialer *dialer
	tls    *tls.Config
}

func (t tap) dial(ctx context.Context, _, address string) (net.Conn, error) {
	conn, ip, err := t.dialer.connect(ctx, address)
	if err != nil {
		return nil, err
	}
	return &tapped{Conn: conn, remote: ip}, nil
}

func (t tap) dialTLS(ctx context.Context, _, address string) (net.Conn, error) {
	conn, ip, err := t.dialer.connectTLS(ctx, address, t.tls)
	if err != nil {
		return nil, err
	}
	return &tapped{Conn: conn, remote: ip}, nil
}

// tapped is a connection that one capture at a time listens to.
type tapped struct {
	net.Conn
	remote   netip.Addr
	listener atomic.Pointer[capture]
}

// listen lets c hear what goes over the connection from now on: the connection
// is another request's.
func (t *tapped) listen(c *capture) {
	c.begin(t.remote)
	t.listener.Store(c)
}

func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if c := t.listener.Load(); c != nil {
		c.received(p[:n])
	}
	return n, err
}

// Write notes p first: its answer may be there before the write returns.
func (t *tapped) Write(p []byte) (int, error) {
	if c := t.listener.Load(); c != nil {
		c.sent(p)
	}
	return t.Conn.Write(p)
}

// capture is what one request sends and receives. net/http reads ahead from a
// goroutine of its own: what comes after the end is not heard.
type capture struct {
	limit int64 // of what is received

	mu      sync.Mutex
	remote  netip.Addr
	request []byte
	answer  *buffer // nil once it ended
	over    bool    // more was received than limit
}

// maxCaptured returns what a capture may hold: the header, and what makes a
// body of the largest size where each byte is framed.
func (c *Client) maxCaptured(request Request) int64 {
	return c.config.MaxHeaderBytes + 2*maxPacked(c.maxBody(request))
}

func newCapture(limit int64) *capture { return &capture{limit: limit, answer: newBuffer()} }

// begin forgets what another connection brought that came to nothing.
func (c *capture) begin(remote netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remote, c.request, c.over = remote, nil, false
	if c.answer != nil {
		c.answer.bytes = c.answer.bytes[:0]
	}
}

func (c *capture) sent(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer != nil {
		c.request = append(c.request, p...)
	}
}

func (c *capture) received(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer == nil {
		return
	}
	room := c.limit - int64(len(c.answer.bytes))
	c.over = c.over || int64(len(p)) > room
	c.answer.bytes = append(c.answer.bytes, p[:min(int64(len(p)), room)]...)
}

// give hands what was heard to r, the response that was made of answer. whole:
// the body came to its end.
func (c *capture) give(r *Response, answer *http.Response, started time.Time, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.remote.IsValid() {
		return // a replaced network has no connections to listen to
	}
	r.wire, c.answer = c.answer, nil
	r.Wire = &Wire{
		Request: c.request, Response: finalAnswer(r.wire.bytes, answer),
		Remote: c.remote, Started: started, Truncated: !whole || c.over,
	}
}

// end gives back what nobody took.
func (c *capture) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer != nil {
		c.answer.release()
		c.answer = nil
	}
}
