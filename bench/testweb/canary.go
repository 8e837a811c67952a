package testweb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// Canaries listen where no crawl may connect: on the loopback addresses, at the
// port that Config.CanaryPort tells the web.
type Canaries struct {
	// Harmless is at the same port of 127.8.0.1: the web must be served there,
	// too, for crawlers that are allowed this address. nil where it cannot be
	// listened to, on systems with one loopback address.
	Harmless net.Listener
	Port     int

	listeners []net.Listener
	accepting sync.WaitGroup
	mu        sync.Mutex
	dialled   []string
}

// ListenCanaries opens them, until Close.
func ListenCanaries() (*Canaries, error) {
	var err error
	for range 20 { // until one port is free on all addresses
		var c *Canaries
		if c, err = listenCanaries(); err == nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("listen for canaries: %w", err)
}

func listenCanaries() (*Canaries, error) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Canaries{Port: first.Addr().(*net.TCPAddr).Port, listeners: []net.Listener{first}}
	for _, host := range []string{"::1", "127.9.9.9", harmless.String()} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(c.Port)))
		switch {
		case errors.Is(err, syscall.EADDRINUSE): // by another process
			return nil, errors.Join(err, c.Close())
		case err != nil: // this machine has no such address, so no client can connect
		case host == harmless.String():
			c.Harmless = l
		default:
			c.listeners = append(c.listeners, l)
		}
	}
	for _, l := range c.listeners {
		c.accepting.Go(func() { c.accept(l) })
	}
	return c, nil
}

// accept notes who connects, and hangs up.
func (c *Canaries) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		c.dialled = append(c.dialled, fmt.Sprintf("%v from %v", conn.LocalAddr(), conn.RemoteAddr()))
		c.mu.Unlock()
		_ = conn.Close()
	}
}

// Err returns nil if no client ever connected, or an error that says where one did.
func (c *Canaries) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.dialled) == 0 {
		return nil
	}
	return fmt.Errorf("%d connections to private addresses, the first to %s", len(c.dialled), c.dialled[0])
}

// Close closes all listeners, Harmless too.
func (c *Canaries) Close() error {
	var errs []error
	for _, l := range c.listeners {
		errs = append(errs, l.Close())
	}
	c.accepting.Wait()
	if c.Harmless != nil {
		if err := c.Harmless.Close(); !errors.Is(err, net.ErrClosed) { // Serve closes it as well
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ListenDNS returns a socket on a free port of the loopback interface, for ServeDNS.
func ListenDNS(ctx context.Context) (net.PacketConn, error) {
	return new(net.ListenConfig).ListenPacket(ctx, "udp", "127.0.0.1:0")
}
