package servers

import (
	"bufio"
	"errors"
	"net"
	"sync"
)

// link is a pair of connections: a client's connection to the proxy, and the proxy's
// connection to the upstream.
type link struct {
	proxy            *ProxyServer
	client, upstream net.Conn

	end sync.Once
	// lost has the requests whose replies must not reach the client. It maps the number of
	// such a request to the drop (a call of ProxyServer.DropReply) that chose the request.
	lost sync.Map
}

func (l *link) abort() {
	l.end.Do(func() {
		reset(l.client)
		reset(l.upstream)
	})
}

// finish closes both connections. The peers still get the data that was sent before.
func (l *link) finish() {
	l.end.Do(func() {
		_ = l.client.Close()
		_ = l.upstream.Close()
	})
}

// run forwards requests and replies, and returns when the link has ended.
func (l *link) run() {
	var replying sync.WaitGroup
	replying.Go(func() {
		defer l.finish()
		l.receive()
	})
	l.send()
	l.finish()
	replying.Wait()
}

// send forwards requests to the upstream, until one side closes its connection.
func (l *link) send() {
	from, to := bufio.NewReader(l.client), bufio.NewWriter(l.upstream)
	for number := 0; ; number++ {
		request, err := appendRESP(nil, from)
		if err == nil {
			if d, ok := l.proxy.matching(request); ok {
				l.lost.Store(number, d)
			}
		}
		_, _ = to.Write(request) // Flush returns its error
		if from.Buffered() == 0 || err != nil {
			err = errors.Join(err, to.Flush())
		}
		if err != nil {
			return
		}
	}
}

// receive forwards replies to the client, until one side closes its connection or a
// reply must be lost. Replies come in the order of the requests. A push (RESP3) is not
// a reply.
func (l *link) receive() {
	from, to := bufio.NewReader(l.upstream), bufio.NewWriter(l.client)
	for number := 0; ; {
		reply, err := appendRESP(nil, from)
		push := len(reply) > 0 && reply[0] == '>'
		if d, losing := l.lost.Load(number); losing && !push {
			_ = to.Flush()
			l.finish()
			close(d.(drop).dropped)
			return
		}
		if !push {
			number++
		}
		_, _ = to.Write(reply) // Flush returns its error
		if from.Buffered() == 0 || err != nil {
			err = errors.Join(err, to.Flush())
		}
		if err != nil {
			return
		}
	}
}

// reset closes a connection in such a way that its peer gets an error, not an end of
// file.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
