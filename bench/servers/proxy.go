package servers

import (
	"net"
	"slices"
	"sync"
	"time"
)

// ProxyServer is a TCP proxy that does to connections what networks do. It
// passes everything until it is told otherwise; clients speak first. Its methods
// are safe for concurrent use.
//
// DropReply understands Redis and Postgres without TLS; other bytes pass, and it
// sees no requests in them.
type ProxyServer struct {
	upstream string
	listener net.Listener
	serving  sync.WaitGroup

	mu      sync.Mutex
	links   map[*link]bool
	latency time.Duration
	down    bool
	flow    chan struct{} // closed when bytes may pass
	drops   []drop
}

// drop waits for the request whose reply gets lost.
type drop struct {
	match   func(request []byte) bool
	dropped chan struct{}
}

// Proxy starts a proxy in front of the server at a TCP address. It ends with
// the test.
func Proxy(t TB, upstream string) *ProxyServer {
	t.Helper()
	p, err := StartProxy(upstream)
	return started(t, p, err)
}

// StartProxy starts a proxy in front of the server at a TCP address. The caller
// calls Close.
func StartProxy(upstream string) (*ProxyServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &ProxyServer{upstream: upstream, listener: listener, links: make(map[*link]bool), flow: make(chan struct{})}
	close(p.flow)
	p.serving.Go(p.accept)
	return p, nil
}

// Addr returns the address of the proxy, "127.0.0.1:port".
func (p *ProxyServer) Addr() string { return p.listener.Addr().String() }

// Close cuts all connections and ends the proxy.
func (p *ProxyServer) Close() error {
	err := p.listener.Close()
	p.Down()
	p.serving.Wait()
	return err
}

// SetLatency delays every reply by d from now on, without holding up those that
// come after it; 0 delays nothing.
func (p *ProxyServer) SetLatency(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency = d
}

// Stall lets nothing pass in either direction until Flow; connections stay, and
// new ones are accepted.
func (p *ProxyServer) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flow:
		p.flow = make(chan struct{})
	default: // it is stalled
	}
}

// Flow ends a Stall.
func (p *ProxyServer) Flow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flow:
	default:
		close(p.flow)
	}
}

// Cut resets all connections; new ones are welcome.
func (p *ProxyServer) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

func (p *ProxyServer) cut() {
	for l := range p.links {
		l.abort()
	}
}

// Down resets all connections, and every new one, until Up.
func (p *ProxyServer) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	p.cut()
}

// Up ends a Down.
func (p *ProxyServer) Up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// DropReply loses the reply to one request, the next one of which match says
// true: the server gets the request and executes it, the replies to requests
// before it are delivered, then the connection ends. The channel is closed when
// that happened. Requests sent after it on the connection may be executed too.
//
// A request is a Redis command or a Postgres message, as it is on the wire. Each
// is shown to match once, one at a time, until one matches; of several
// DropReply that wait the oldest is asked first.
func (p *ProxyServer) DropReply(match func(request []byte) bool) (dropped <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := drop{match: match, dropped: make(chan struct{})}
	p.drops = append(p.drops, d)
	return d.dropped
}

// matching returns the drop that a request is for, and forgets it.
func (p *ProxyServer) matching(request []byte) (drop, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, d := range p.drops {
		if d.match(request) {
			p.drops = slices.Delete(p.drops, i, i+1)
			return d, true
		}
	}
	return drop{}, false
}

// passage returns what a message meets now: the channel that is closed when it
// may pass, and by how much it is late.
func (p *ProxyServer) passage() (flow <-chan struct{}, latency time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flow, p.latency
}

// accept serves connections until the listener is closed.
func (p *ProxyServer) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.serving.Go(func() { p.serve(client) })
	}
}

// serve passes what a client and the upstream say to each other.
func (p *ProxyServer) serve(client net.Conn) {
	upstream, err := net.Dial("tcp", p.upstream)
	if err != nil {
		reset(client)
		return
	}
	l := &link{proxy: p, client: client, upstream: upstream, over: make(chan struct{})}
	p.mu.Lock()
	if p.down {
		l.abort()
	} else {
		p.links[l] = true
	}
	p.mu.Unlock()
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}
