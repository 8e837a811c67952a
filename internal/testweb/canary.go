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

// Canaries listen where a crawl must not connect: on loopback addresses, at the port
// Config.CanaryPort. A web with the hardship Addresses has links to these addresses.
type Canaries struct {
	// Harmless listens on the same port of 127.8.0.1. For crawlers that are allowed to
	// connect to this address, the web must be served there too. Harmless is nil on
	// systems with only one loopback address.
	Harmless net.Listener
	Port     int // the value for Config.CanaryPort

	listeners []net.Listener
	accepting sync.WaitGroup
	mu        sync.Mutex
	dialled   []string
}

// ListenCanaries returns canaries that listen until Close, on a free port.
func ListenCanaries() (*Canaries, error) {
	var err error
	for range 20 { // until a port is free on all addresses
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
		case errors.Is(err, syscall.EADDRINUSE): // another process uses it
			return nil, errors.Join(err, c.Close())
		case err != nil: // this machine does not have the address, so no client can connect to it
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

// Err returns nil if no client has connected, or an error with the number of
// connections and the address of the first.
func (c *Canaries) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.dialled) == 0 {
		return nil
	}
	return fmt.Errorf("%d connections to private addresses, the first to %s", len(c.dialled), c.dialled[0])
}

// Close closes all listeners, including Harmless.
func (c *Canaries) Close() error {
	var errs []error
	for _, l := range c.listeners {
		errs = append(errs, l.Close())
	}
	c.accepting.Wait()
	if c.Harmless != nil {
		if err := c.Harmless.Close(); !errors.Is(err, net.ErrClosed) { // Serve also closes it
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ListenDNS returns a socket on a free port of the loopback interface, for ServeDNS.
func ListenDNS(ctx context.Context) (net.PacketConn, error) {
	return new(net.ListenConfig).ListenPacket(ctx, "udp", "127.0.0.1:0")
}
