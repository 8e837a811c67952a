package servers

import (
	"bufio"
	"net"
	"sync"
	"time"
)

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

// reset closes a connection so that its peer gets an error, not an end.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
