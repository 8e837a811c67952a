package get

import (
	"context"
	"net"
	"net/netip"
	"time"
)

const (
	// fallbackDelay is how long the first family of addresses (IPv4 or IPv6) is tried alone.
	fallbackDelay = 300 * time.Millisecond
	// leastTry is the shortest time limit for an attempt to connect to one address.
	leastTry = 2 * time.Second
)

// connector connects to one address.
type connector func(ctx context.Context, ip netip.Addr) (net.Conn, error)

// attempt is the result of an attempt to connect.
type attempt struct {
	conn net.Conn
	ip   netip.Addr
	err  error
}

// race connects to one of ips. It tries the addresses of one family, that of ips[0], in
// turn. If they fail or take longer than fallbackDelay, race also tries the other family
// at the same time, as net.Dialer does. All attempts have ended when it returns.
func race(ctx context.Context, ips []netip.Addr, connect connector) (net.Conn, netip.Addr, error) {
	first, second := families(ips)
	if len(second) == 0 {
		return inTurn(ctx, first, connect)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan attempt, 2)
	begin := func(ips []netip.Addr) {
		conn, ip, err := inTurn(ctx, ips, connect)
		ended <- attempt{conn, ip, err}
	}
	go begin(first)
	running, long := 1, time.NewTimer(fallbackDelay)
	defer long.Stop()
	var won attempt
	var failed error
	for running > 0 {
		select {
		case <-long.C:
		case a := <-ended:
			running--
			switch {
			case a.err == nil && won.conn == nil:
				won, second = a, nil
				cancel() // ends the other attempt
			case a.err == nil:
				a.conn.Close()
			case failed == nil:
				failed = a.err
			}
		}
		if len(second) > 0 {
			go begin(second)
			running, second = running+1, nil
		}
	}
	if won.conn == nil {
		return nil, netip.Addr{}, failed
	}
	return won.conn, won.ip, nil
}

// families returns the addresses of the family of ips[0], and those of the other
// family.
func families(ips []netip.Addr) (first, second []netip.Addr) {
	for _, ip := range ips {
		if ip.Is4() == ips[0].Is4() {
			first = append(first, ip)
		} else {
			second = append(second, ip)
		}
	}
	return first, second
}

// inTurn tries ips one after the other until it is connected to one of them. Each address
// gets an equal share of the time until the deadline of ctx, but at least leastTry. If no
// attempt succeeds, inTurn returns the first error.
func inTurn(ctx context.Context, ips []netip.Addr, connect connector) (net.Conn, netip.Addr, error) {
	var failed error
	for i, ip := range ips {
		try, cancel := ctx, context.CancelFunc(func() {})
		if end, ok := ctx.Deadline(); ok {
			share := max(time.Until(end)/time.Duration(len(ips)-i), leastTry)
			try, cancel = context.WithTimeout(ctx, share)
		}
		conn, err := connect(try, ip)
		cancel()
		if err == nil {
			return conn, ip, nil
		}
		if failed == nil {
			failed = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, netip.Addr{}, failed
}
