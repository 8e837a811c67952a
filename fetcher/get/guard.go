package get

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// AddressError reports a host that has only addresses which are not dialled.
type AddressError struct {
	Host string // as it stands in the URL
	Addr string // one of its addresses
}

func (e *AddressError) Error() string {
	kind := "special"
	if ip, err := netip.ParseAddr(e.Addr); err == nil && (ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast()) {
		kind = "private"
	}
	if e.Host == e.Addr {
		return fmt.Sprintf("%s is a %s address (--allow-private)", e.Host, kind)
	}
	return fmt.Sprintf("%s is %s, a %s address (--allow-private)", e.Host, e.Addr, kind)
}

// dialer opens connections: to where a rule says, else to the host itself if
// the guard lets it. The guard looks at the address of each socket right
// before it connects, so that a name that changes its address between two
// look-ups gains nothing.
type dialer struct {
	rules   []Rule
	guard   *ssrf.Guardian // nil: every address is dialled
	guarded net.Dialer
	open    net.Dialer // for addresses that rules name
}

func newDialer(config Config) *dialer {
	d := &dialer{
		rules: config.ConnectTo,
		open:  net.Dialer{Timeout: config.DialTimeout, KeepAlive: 30 * time.Second},
	}
	d.guarded = d.open
	if !config.AllowPrivate {
		d.guard = ssrf.New(ssrf.WithAnyPort())
		d.guarded.ControlContext = d.control
	}
	return d
}

// dial connects to address, the host:port of a URL.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if rule, ok := ruleFor(d.rules, host); ok {
		return d.open.DialContext(ctx, network, rule.address(port))
	}
	if d.guard == nil {
		return d.open.DialContext(ctx, network, address)
	}
	checked := new(addresses)
	conn, err := d.guarded.DialContext(context.WithValue(ctx, addressesKey{}, checked), network, address)
	if err != nil {
		if refused := checked.onlyRefused(); refused != "" {
			return nil, &AddressError{Host: host, Addr: refused}
		}
		return nil, err
	}
	return conn, nil
}

// control is called for each address of a host, at most once each, before its
// socket connects.
func (d *dialer) control(ctx context.Context, network, address string, raw syscall.RawConn) error {
	err := d.guard.Safe(network, address, raw)
	if checked, ok := ctx.Value(addressesKey{}).(*addresses); ok {
		checked.add(address, err != nil)
	}
	return err
}

// addresses counts what became of the addresses of one host. The dialer tries
// IPv4 and IPv6 at once and returns the first error, which need not be the
// guard's.
type addresses struct {
	mu      sync.Mutex
	dialled bool
	refused string
}

type addressesKey struct{}

func (a *addresses) add(address string, refused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !refused {
		a.dialled = true
		return
	}
	if ap, err := netip.ParseAddrPort(address); err == nil {
		address = ap.Addr().String()
	}
	a.refused = address
}

// onlyRefused returns a refused address if none was dialled.
func (a *addresses) onlyRefused() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dialled {
		return ""
	}
	return a.refused
}

// checkHost is Client.CheckHost.
func (d *dialer) checkHost(ctx context.Context, resolver *net.Resolver, host string) error {
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, ok := ruleFor(d.rules, host); ok || d.guard == nil {
		return nil
	}
	found, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return &Error{Op: OpConnect, Err: err}
	}
	if len(found) == 0 {
		return &Error{Op: OpConnect, Err: errors.New("lookup " + host + ": no address")}
	}
	for _, ip := range found {
		if d.guard.SafeAddr(ip.Unmap()) == nil {
			return nil
		}
	}
	return &AddressError{Host: host, Addr: found[0].Unmap().String()}
}
