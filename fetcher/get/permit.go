package get

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
)

// permission holds Request.Permit and its answer. The goroutine that writes the request
// calls Permit for the last time right before the write.
type permission struct {
	ask    func() error // nil means that the request is always permitted
	denied atomic.Pointer[error]
}

// err returns why the request must no longer be written, or nil.
func (p *permission) err() error {
	if p.ask == nil {
		return nil
	}
	err := p.ask()
	if err != nil {
		p.denied.Store(&err)
	}
	return err
}

// abort returns the error of a request that was not written because permission was
// refused, or nil.
func (p *permission) abort() error {
	if denied := p.denied.Load(); denied != nil {
		return fmt.Errorf("%w: %w", ErrAborted, *denied)
	}
	return nil
}

// gated is a connection that writes only while its request is permitted. The check is in
// Write, because getting a connection can take long, and net/http has no hook right before
// the write.
type gated struct {
	net.Conn
	permission atomic.Pointer[permission] // nil means that every write is permitted
	read       *atomic.Int64              // counts the bytes that all connections read
	remote     netip.Addr                 // address of the host, even if the connection goes through a proxy
}

func (g *gated) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	g.read.Add(int64(n))
	return n, err
}

func (g *gated) Write(p []byte) (int, error) {
	if permission := g.permission.Load(); permission != nil {
		if err := permission.err(); err != nil {
			return 0, err
		}
	}
	return g.Conn.Write(p)
}

// gateOf returns the gated connection within a connection from net/http, or nil.
func gateOf(conn net.Conn) *gated {
	for {
		switch c := conn.(type) {
		case *gated:
			return c
		case *mending:
			conn = c.Conn
		case *tapped:
			conn = c.Conn
		case *tls.Conn:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}
