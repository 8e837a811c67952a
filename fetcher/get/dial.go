package get

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bloomfrontier/crawler/internal/resolve"
)

// dialer opens connections, directly or through a proxy. If a rule matches the host, dialer
// connects to the address of the rule. Otherwise it connects to an address of the host that
// the guard permits.
//
// A name is resolved only once for each connection. The checked addresses themselves are
// dialled or sent to the proxy. So the connection goes to a checked address, even if
// another look-up of the name would return another address. The address of a direct
// connection to the host is checked once more right before the socket connects.
type dialer struct {
	rules    []Rule
	guard    guard
	resolver *resolve.Resolver
	proxy    *proxy   // nil means none
	insecure []string // Config.InsecureHosts
	timeout  time.Duration
	guarded  net.Dialer
	open     net.Dialer   // for the proxy, and for addresses that rules name
	bind     []netip.Addr // Config.Bind
	bound    atomic.Uint32
	read     atomic.Int64
}

func newDialer(config Config) (*dialer, error) {
	resolver, err := resolve.New(config.DNS)
	proxy, proxyErr := parseProxy(config)
	d := &dialer{
		rules:    config.ConnectTo,
		guard:    newGuard(config),
		resolver: resolver,
		proxy:    proxy,
		insecure: config.InsecureHosts,
		timeout:  config.DialTimeout,
		bind:     config.Bind,
		open:     net.Dialer{KeepAlive: 30 * time.Second},
	}
	d.guarded = d.open
	d.guarded.Control = d.control
	return d, errors.Join(err, proxyErr)
}

// control is called for each socket of d.guarded before the socket connects.
func (d *dialer) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if !d.guard.permits(to.Addr()) {
		return &AddressError{Host: to.Addr().String(), Addr: to.Addr().String()}
	}
	return nil
}

// dialPlain connects to address, the host:port of an http URL.
func (d *dialer) dialPlain(ctx context.Context, _, address string) (net.Conn, error) {
	return d.dial(ctx, address, true)
}

// dial connects to address, the host:port of a URL. plain says that its scheme is http. The connection is a *gated.
func (d *dialer) dial(ctx context.Context, address string, plain bool) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if plain && d.isAbsolute(host) {
		return d.toProxy(ctx, host)
	}
	ips, via := []netip.Addr(nil), &d.guarded
	if rule, ok := ruleFor(d.rules, host); ok {
		host, port = rule.Addr, rule.port(port)
		ips, err = d.addresses(ctx, host)
		via = &d.open
	} else {
		ips, err = d.permitted(ctx, host)
	}
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%w: port %q", ErrURL, port)
	}
	conn, ip, err := d.toAny(ctx, ips, uint16(number), via, plain)
	if err != nil {
		return nil, err
	}
	return &gated{Conn: conn, read: &d.read, remote: ip}, nil
}

// dialTLS connects to address and makes a TLS handshake with its host.
func (d *dialer) dialTLS(ctx context.Context, address string, config *tls.Config) (net.Conn, error) {
	conn, err := d.dial(ctx, address, false)
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(address) // dial has checked it
	config = config.Clone()
	config.ServerName, config.InsecureSkipVerify = host, isInsecure(d.insecure, host)
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		if isNoCommonProtocol(err) {
			return nil, ErrHTTP2Only
		}
		return nil, err
	}
	return secure, nil
}

// isNoCommonProtocol reports whether err is the alert of a TLS server that does not speak
// HTTP/1.1, the only protocol that is offered to it. crypto/tls does not export the alert.
func isNoCommonProtocol(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" && op.Err.Error() == "tls: no application protocol"
}

// isInsecure reports whether one of patterns matches host. The certificate of such a host
// is not verified.
func isInsecure(patterns []string, host string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return MatchHost(pattern, strings.ToLower(host)) })
}

// toAny connects to one of ips, which the caller has checked.
func (d *dialer) toAny(ctx context.Context, ips []netip.Addr, port uint16, via *net.Dialer, plain bool) (net.Conn, netip.Addr, error) {
	return inTurn(ctx, ips, func(ctx context.Context, ip netip.Addr) (net.Conn, error) {
		if d.proxy != nil {
			return d.proxy.connect(ctx, &d.open, netip.AddrPortFrom(ip, port), plain)
		}
		from, err := d.from(via, ip)
		if err != nil {
			return nil, err
		}
		return from.DialContext(ctx, "tcp", netip.AddrPortFrom(ip, port).String())
	})
}

// from returns via with the local address for a connection to ip.
func (d *dialer) from(via *net.Dialer, ip netip.Addr) (*net.Dialer, error) {
	if len(d.bind) == 0 {
		return via, nil
	}
	first := int(d.bound.Add(1) % uint32(len(d.bind)))
	for i := range d.bind {
		local := d.bind[(first+i)%len(d.bind)]
		if local.Is4() == ip.Unmap().Is4() {
			from := *via
			from.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
			return &from, nil
		}
	}
	return nil, fmt.Errorf("no address of Bind has the family of %s", ip)
}

// leastTry is the shortest time limit for an attempt to connect to one address.
const leastTry = 2 * time.Second

// inTurn tries ips one after the other until it is connected to one of them. IPv4 and IPv6
// addresses alternate, so that the second attempt helps where one of the two does not work at
// all. An IPv4 address is first, because many machines have IPv6 addresses but no way to the
// IPv6 internet. Each address gets an equal share of the time until the deadline of ctx, but
// at least leastTry. If no attempt succeeds, inTurn returns the first error.
func inTurn(ctx context.Context, ips []netip.Addr, connect func(context.Context, netip.Addr) (net.Conn, error)) (net.Conn, netip.Addr, error) {
	ips = alternate(ips)
	deadline, _ := ctx.Deadline() // dial has set one
	var failed error
	for i, ip := range ips {
		share := max(time.Until(deadline)/time.Duration(len(ips)-i), leastTry)
		try, cancel := context.WithTimeout(ctx, share)
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

// alternate returns ips with IPv4 and IPv6 addresses by turns, as long as there are both. The
// first is an IPv4 address if there is one.
func alternate(ips []netip.Addr) []netip.Addr {
	var ipv4, ipv6, all []netip.Addr
	for _, ip := range ips {
		if ip.Is4() {
			ipv4 = append(ipv4, ip)
		} else {
			ipv6 = append(ipv6, ip)
		}
	}
	next, other := ipv4, ipv6
	for len(next) > 0 {
		all = append(all, next[0])
		next, other = other, next[1:]
	}
	return append(all, other...)
}

// permitted returns the addresses of host that may be dialled. If there is none, it
// returns an error.
func (d *dialer) permitted(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := d.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	var ips []netip.Addr
	for _, ip := range found {
		if d.guard.permits(ip) {
			ips = append(ips, ip)
		}
	}
	if len(ips) == 0 {
		return nil, &AddressError{Host: host, Addr: found[0].String()}
	}
	return ips, nil
}

// addresses returns the addresses of host. If host is itself an address, the result is
// this address.
func (d *dialer) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	name := strings.TrimSuffix(host, ".")
	if ip, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{ip}, nil
	}
	if endsInNumber(name) {
		return nil, fmt.Errorf("%w: %q is neither a name nor an address", ErrURL, host)
	}
	return d.resolver.Lookup(ctx, name)
}

// endsInNumber reports whether the last label of name is a number, as the URL standard
// defines it. 127.1, 0x7f.1 and 2130706433 are spellings of addresses. They are not names
// to look up, and a canonical URL contains none of them.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" || last[0] < '0' || last[0] > '9' {
		return false
	}
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	hex, found := strings.CutPrefix(strings.ToLower(last), "0x")
	return found && strings.Trim(hex, "0123456789abcdef") == ""
}

// checkHost implements Client.CheckHost.
func (d *dialer) checkHost(ctx context.Context, host string) error {
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, ok := ruleFor(d.rules, host); ok || d.guard.public == nil {
		return nil
	}
	_, err := d.permitted(ctx, host)
	if _, ok := errors.AsType[*AddressError](err); err == nil || ok || errors.Is(err, ErrURL) {
		return err
	}
	return &Error{Op: OpConnect, Err: err}
}
