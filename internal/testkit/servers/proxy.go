package servers

import (
	"context"
	"net"
	"slices"
	"sync"
)

// ProxyServer is a TCP proxy in front of a Redis server without TLS. It forwards
// everything, unless Down or DropReply cause a fault. Its methods are safe for
// concurrent use.
type ProxyServer struct {
	upstream string
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	links map[*link]bool
	down  bool
	drops []drop // drops whose request has not come yet, oldest first
}

// drop is a call of DropReply.
type drop struct {
	match   func(request []byte) bool
	dropped chan struct{} // closed when the reply is lost
}

// Proxy starts a proxy in front of the server at the TCP address upstream. The proxy is
// closed at the end of the test.
func Proxy(t TB, upstream string) *ProxyServer {
	t.Helper()
	return started(t, &ProxyServer{upstream: upstream, links: make(map[*link]bool)})
}

func (p *ProxyServer) begin(context.Context) (err error) {
	if p.listener, err = net.Listen("tcp", loopback(0)); err == nil {
		p.serving.Go(p.accept)
	}
	return err
}

// Addr returns the address of the proxy, "127.0.0.1:port".
func (p *ProxyServer) Addr() string { return p.listener.Addr().String() }

// Close resets all connections and ends the proxy.
func (p *ProxyServer) Close() error {
	if p.listener == nil {
		return nil
	}
	err := p.listener.Close()
	p.Down()
	p.serving.Wait()
	return err
}

// Down resets all connections. Until Up is called, the proxy also resets every new
// connection.
func (p *ProxyServer) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for l := range p.links {
		l.abort()
	}
}

// Up ends the effect of Down: the proxy forwards new connections again.
func (p *ProxyServer) Up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// DropReply loses the reply to the next request for which the function match returns
// true. The server executes the request, and the client gets the replies to earlier
// requests. Then the proxy closes the connection and the returned channel. The server
// possibly also executes later requests of the connection.
//
// A request is a command in the encoding of the wire. match is called once for each
// request, never concurrently, until it returns true. If several calls of DropReply are
// pending, the match of the oldest is called first.
func (p *ProxyServer) DropReply(match func(request []byte) bool) (dropped <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := drop{match: match, dropped: make(chan struct{})}
	p.drops = append(p.drops, d)
	return d.dropped
}

// matching returns the first drop whose match returns true for request, and removes
// it from p.drops.
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

// serve forwards data between a client and the upstream until one of them closes its
// connection.
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
