package get

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// tap returns a function that opens a connection with dial, so that a capture can read the
// bytes of the connection. For https, dial must make the TLS handshake. If net/http added
// TLS on top of a tapped connection, a capture would see encrypted bytes.
func tap(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &tapped{Conn: conn}, nil
	}
}

// tapped is a connection that passes its bytes to one capture at a time.
type tapped struct {
	net.Conn
	listener atomic.Pointer[capture]
}

// listen passes the bytes of the connection to c from now on. It is called when a request
// gets the connection.
func (t *tapped) listen(c *capture) {
	c.begin(gateOf(t.Conn).remote)
	t.listener.Store(c)
}

func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if c := t.listener.Load(); c != nil {
		c.received(p[:n])
	}
	return n, err
}

// Write passes p to the capture first, because the answer may arrive before Write
// returns.
func (t *tapped) Write(p []byte) (int, error) {
	if c := t.listener.Load(); c != nil {
		c.sent(p)
	}
	return t.Conn.Write(p)
}

// capture collects the bytes that one request sends and receives. net/http reads ahead in
// a goroutine of its own. Bytes that it reads after a call of give or end are not
// captured.
type capture struct {
	limit   int64    // of the received bytes
	secrets []string // see Client.secrets
	cookies bool     // Config.SaveCookies

	mu      sync.Mutex
	tapped  bool       // there was a connection
	remote  netip.Addr // invalid with a request in absolute form
	request []byte
	answer  *buffer // nil after the end
	over    bool    // more than limit bytes were received
}

// maxCaptured returns the largest number of received bytes that a capture holds: the
// header, and the largest body with some room for the headers of its chunks.
func (c *Client) maxCaptured(request Request) int64 {
	return c.config.MaxHeaderBytes + 2*maxPacked(c.maxBody(request))
}

func (c *Client) newCapture(request Request) *capture {
	return &capture{limit: c.maxCaptured(request), secrets: c.secrets(request), cookies: c.config.SaveCookies, answer: newBuffer()}
}

// begin drops the bytes of an earlier connection that failed.
func (c *capture) begin(remote netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tapped, c.remote, c.request, c.over = true, remote, nil, false
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

// give moves the captured bytes to r, the response that was made from answer. complete
// says whether the capture has the whole body.
func (c *capture) give(r *Response, answer *http.Response, started time.Time, complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.tapped {
		return // with Config.Transport there is no connection to capture
	}
	r.wire, c.answer = c.answer, nil
	request, names := redact(c.request, c.secrets)
	received := finalAnswer(r.wire.bytes, answer)
	r.Wire = &Wire{
		Request: request, Redacted: names, Response: received, CookiesRedacted: !c.cookies && redactCookies(received),
		Remote: c.remote, Started: started, Truncated: !complete || c.over, Cut: r.Cut != nil,
	}
}

// end frees the captured bytes, unless give has moved them to a Response.
func (c *capture) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer != nil {
		c.answer.release()
		c.answer = nil
	}
}
