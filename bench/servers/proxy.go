package servers

import (
	"net"
	"slices"
	"sync"
)

// ProxyServer is a TCP proxy in front of a Redis without TLS. It passes everything
// until it is told otherwise. Its methods are safe for concurrent use.
type ProxyServer struct {
	upstream string
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	links map[*link]bool
	down  bool
	drops []drop
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
	p := &ProxyServer{upstream: upstream, listener: listener, links: make(map[*link]bool)}
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

// Down resets all connections, and every new one, until Up.
func (p *ProxyServer) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for l := range p.links {
		l.abort()
	}
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
// A request is a command as it is on the wire. Each is shown to match once, one at
// a time, until one matches; of several DropReply that wait the oldest is asked
// first.
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
	l := &link{proxy: p, client: client, upstream: upstream}
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
