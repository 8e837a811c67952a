package servers

import (
	"bufio"
	"net"
	"slices"
	"sync"
	"testing"
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
func Proxy(t testing.TB, upstream string) *ProxyServer {
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

// reset closes a connection so that its peer gets an error, not an end.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// link is a client's connection and ours to the upstream.
type link struct {
	proxy            *ProxyServer
	client, upstream net.Conn

	end  sync.Once
	over chan struct{} // closed when both connections are

	mu   sync.Mutex
	lost map[int]drop // by the number of the request
}

// abort resets the link, finish closes it behind what was delivered.
func (l *link) abort() {
	l.end.Do(func() {
		reset(l.client)
		reset(l.upstream)
		close(l.over)
	})
}

func (l *link) finish() {
	l.end.Do(func() {
		_ = l.client.Close()
		_ = l.upstream.Close()
		close(l.over)
	})
}

// run returns when the link is over.
func (l *link) run() {
	defer l.finish()
	from := bufio.NewReader(l.client)
	requests, replies, err := framersOf(from)
	if err != nil {
		return
	}
	queue := make(chan reply, 256)
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Go(func() { l.deliver(queue) })
	serving.Go(func() {
		defer close(queue)
		l.receive(replies, queue)
	})
	l.send(requests, from)
	l.finish()
}

// send passes requests to the upstream, until one side ends.
func (l *link) send(next framer, from *bufio.Reader) {
	to := bufio.NewWriter(l.upstream)
	for number := 0; ; {
		message, ends, err := next(from)
		if err == nil {
			if d, ok := l.proxy.matching(message); ok {
				l.lose(number, d)
			}
		}
		flow, _ := l.proxy.passage()
		if !l.wait(flow) {
			return
		}
		_, _ = to.Write(message) // Flush has its error
		if ends {
			number++
		}
		if from.Buffered() == 0 || err != nil {
			if to.Flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// lose marks the reply to a request as one that gets lost.
func (l *link) lose(number int, d drop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = make(map[int]drop)
	}
	l.lost[number] = d
}

func (l *link) losing(number int) (drop, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, ok := l.lost[number]
	return d, ok
}

// reply is a message for the client, or the news that one was lost.
type reply struct {
	message []byte
	due     time.Time
	lost    chan struct{} // nil for a message
}

// receive queues what the upstream says, until it ends or a reply is lost.
func (l *link) receive(next framer, queue chan<- reply) {
	from := bufio.NewReader(l.upstream)
	for number := 0; ; {
		message, ends, err := next(from)
		_, latency := l.proxy.passage()
		r := reply{message: message, due: time.Now().Add(latency)}
		d, losing := l.losing(number)
		if losing {
			r = reply{due: r.due, lost: d.dropped}
		}
		if !losing || ends {
			select {
			case queue <- r:
			case <-l.over:
				return
			}
		}
		if ends {
			number++
		}
		if err != nil || losing && ends {
			return
		}
	}
}

// deliver passes replies to the client when they are due, and ends the link
// when there are no more.
func (l *link) deliver(queue <-chan reply) {
	defer l.finish()
	to := bufio.NewWriter(l.client)
	for r := range queue {
		flow, _ := l.proxy.passage()
		if !l.wait(flow) || !l.sleep(time.Until(r.due), to) {
			return
		}
		if r.lost != nil {
			_ = to.Flush()
			l.finish()
			close(r.lost)
			return
		}
		_, _ = to.Write(r.message) // Flush has its error
		if len(queue) == 0 && to.Flush() != nil {
			return
		}
	}
	_ = to.Flush()
}

// sleep waits, with everything delivered that is due. It returns false when the
// link is over before.
func (l *link) sleep(d time.Duration, to *bufio.Writer) bool {
	if d <= 0 {
		return true
	}
	if to.Flush() != nil {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.over:
		return false
	}
}

// wait returns true when the channel is closed, false when the link is over
// before.
func (l *link) wait(open <-chan struct{}) bool {
	select {
	case <-open:
		return true
	case <-l.over:
		return false
	}
}
