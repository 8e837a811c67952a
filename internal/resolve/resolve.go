// Package resolve finds the addresses of host names and remembers them.
//
// It chooses the DNS server and decides how long an answer is used. It does not check
// addresses and does not connect to them (package get does).
package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultTTL         = 5 * time.Minute
	defaultNegativeTTL = time.Minute // how long the answer "this name does not exist" is kept
	defaultMaxNames    = 200_000     // names that are kept at once, about 150 bytes for each
	defaultParallel    = 256         // look-ups at the same time
)

// ErrServer reports that the name server does not answer, even for a name that it
// answered before. It is also the error if this machine cannot send queries to the name
// server. It says nothing about the name that was looked up.
var ErrServer = errors.New("resolve: the name server does not answer")

// maxAddrs is the number of addresses of one name that are kept. No host needs more.
const maxAddrs = 16

// Resolver looks names up. It is safe for concurrent use.
//
// It keeps an answer for some minutes, because neither the system's resolver nor net.Resolver
// returns the time to live from the name server. The only error that it keeps is that a name
// does not exist.
type Resolver struct {
	// TTL is how long the addresses of a name are kept. New sets it to 5 minutes. It may be
	// changed before the first look-up.
	TTL         time.Duration
	negativeTTL time.Duration
	maxNames    int

	server  string // with its port; empty means the system's
	ask     func(ctx context.Context, network, name string) ([]netip.Addr, error)
	asking  chan struct{} // has one value for each look-up that is running
	waiting atomic.Int64

	undialled atomic.Pointer[undialled] // the last one; nil means that there was none

	mu sync.Mutex
	// The kept answers, in two generations. When young has half of maxNames answers, it
	// replaces old. An answer in old moves to young when it is used.
	young, old map[string]answer

	health
}

// Waiting returns how many callers wait for a look-up now.
func (r *Resolver) Waiting() int { return int(r.waiting.Load()) }

// answer is the result of a look-up. It is used until the time expiry.
type answer struct {
	addrs  []netip.Addr
	err    error
	expiry time.Time
}

// New returns a Resolver that asks a DNS server. server is its IP address, with or without a
// port. If it is empty, the settings of the system are used. The system's hosts file is used
// in both cases, except for names in which a label begins or ends with a hyphen.
func New(server string) (*Resolver, error) {
	r := &Resolver{
		TTL: defaultTTL, negativeTTL: defaultNegativeTTL, maxNames: defaultMaxNames,
		asking: make(chan struct{}, defaultParallel), young: make(map[string]answer),
	}
	if server != "" {
		address, err := parseServer(server)
		if err != nil {
			return nil, fmt.Errorf("resolve: %w", err)
		}
		r.server = address.String()
	}
	preferGo := server != "" // the C library cannot ask a given server
	usual := net.Resolver{PreferGo: preferGo, Dial: r.dial}
	strict := net.Resolver{PreferGo: preferGo, Dial: r.dial, StrictErrors: true}
	r.ask = func(ctx context.Context, network, name string) ([]netip.Addr, error) {
		found, err := usual.LookupNetIP(ctx, network, name)
		if dns, is := errors.AsType[*net.DNSError](err); !is || !dns.IsNotFound {
			return found, err
		}
		// It says so, too, if there is no IPv6 address and the query for IPv4 addresses failed.
		return strict.LookupNetIP(ctx, "ip4", name)
	}
	return r, nil
}

// dial opens a connection to the name server of New. If New was given none, it uses
// address, a name server of the system.
func (r *Resolver) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, cmp.Or(r.server, address))
	if err != nil && ctx.Err() == nil && strings.HasPrefix(network, "udp") {
		r.undialled.Store(&undialled{err, time.Now()})
	}
	return conn, err
}

// undialled is the error of a failed attempt to open a UDP socket to the name server. The
// cause is in this machine: no file descriptor is left, or there is no network. A
// Resolver records it because net.DNSError has only the text of such an error.
type undialled struct {
	err  error
	when time.Time
}

// parseServer parses the IP address of a DNS server. The default port is 53. It accepts no
// name, because a name would have to be looked up itself.
func parseServer(s string) (netip.AddrPort, error) {
	if ip, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return netip.AddrPortFrom(ip, 53), nil
	}
	server, err := netip.ParseAddrPort(s)
	if err != nil || server.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("DNS server %q, want an IP address, with or without a port", s)
	}
	return server, nil
}

// Lookup returns the addresses of host, a name, in the order in which the caller should try
// them. It returns at least one address or an error. The caller must not change the
// addresses. If the name server does not answer at all, the error is an ErrServer.
//
// Lookup uses the search list of the system only for a name without a dot. For other names,
// the list could find www.example.org.corp.test if www.example.org does not exist.
func (r *Resolver) Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if known, ok := r.cached(name); ok {
		return known.addrs, known.err
	}
	r.waiting.Add(1)
	defer r.waiting.Add(-1)
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %d look-ups are under way: %w", ErrServer, cap(r.asking), ctx.Err())
	}
	if known, ok := r.cached(name); ok { // another caller asked meanwhile
		return known.addrs, known.err
	}
	began := time.Now()
	found, err := r.lookup(ctx, name)
	if err != nil {
		if last := r.undialled.Load(); last != nil && !last.when.Before(began) {
			return nil, fmt.Errorf("%w: look up %q: %w", ErrServer, host, last.err)
		}
		dns, ok := errors.AsType[*net.DNSError](err)
		if !ok {
			return nil, err
		}
		own := *dns // a copy, because other callers may have got the same error
		own.Name = host
		if own.IsNotFound {
			r.recordAnswer("")
			r.storeAnswer(name, answer{err: &own, expiry: time.Now().Add(r.negativeTTL)})
		} else if r.recordFailure(ctx, r.lookup) {
			return nil, fmt.Errorf("%w: %w", ErrServer, &own)
		}
		return nil, &own
	}
	r.recordAnswer(name)
	addrs := make([]netip.Addr, min(len(found), maxAddrs))
	for i := range addrs {
		addrs[i] = found[i].Unmap() // net.Resolver may return IPv4 addresses as IPv6 addresses
	}
	r.storeAnswer(name, answer{addrs: addrs, expiry: time.Now().Add(r.TTL)})
	return addrs, nil
}

// lookup asks the name server. If several callers ask for one name at the same time,
// net.Resolver sends only one query.
func (r *Resolver) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if strings.Contains(name, ".") {
		name += "."
	}
	var found []netip.Addr
	var err error
	if isRefused(name) {
		found, err = r.query(ctx, strings.TrimSuffix(name, ".")+".")
	} else {
		found, err = r.ask(ctx, "ip", name)
	}
	if err == nil && len(found) == 0 {
		err = &net.DNSError{Err: "no address", IsNotFound: true}
	}
	return found, err
}

// cached returns the kept answer for name, if there is one that has not expired.
func (r *Resolver) cached(name string) (answer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.young[name]
	if !ok {
		if a, ok = r.old[name]; ok {
			delete(r.old, name)
			r.put(name, a)
		}
	}
	if ok && !time.Now().Before(a.expiry) {
		delete(r.young, name)
		return answer{}, false
	}
	return a, ok
}

// storeAnswer stores the answer for name.
func (r *Resolver) storeAnswer(name string, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(strings.Clone(name), a) // name may be part of a page
}

// put adds an answer to the young generation. The caller must hold mu.
func (r *Resolver) put(name string, a answer) {
	if _, ok := r.young[name]; !ok && len(r.young) >= max(r.maxNames/2, 1) {
		r.young, r.old = make(map[string]answer), r.young
	}
	r.young[name] = a
}
