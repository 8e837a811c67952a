// Package resolve finds the addresses of host names and remembers them.
//
// It owns the choice of the DNS server and how long an answer is believed. It
// does not judge addresses and opens no connection to them (package get).
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

// Defaults of Config.
const (
	DefaultTTL         = 5 * time.Minute
	DefaultNegativeTTL = time.Minute
	DefaultMaxNames    = 200_000
	DefaultParallel    = 256
)

// ErrServer reports that the name server gives no answers, not even to the name
// that it answered last, or that this machine cannot ask it. Nothing is known about
// the name.
var ErrServer = errors.New("resolve: the name server gives no answers")

// maxAddrs is how many addresses of one name are kept: who answers with more
// wants something else than to be found.
const maxAddrs = 16

// Config says whom to ask and what to remember. The zero value works.
type Config struct {
	// Server is the DNS server to ask: an IP address, with or without a port.
	// Empty means as the system does it. The system's hosts file counts either way.
	Server      string
	TTL         time.Duration // how long addresses are kept; 0 means DefaultTTL
	NegativeTTL time.Duration // how long it is kept that a name has none; 0 means DefaultNegativeTTL
	MaxNames    int           // kept at once, some 150 bytes each; 0 means DefaultMaxNames
	Parallel    int           // look-ups under way at once; 0 means DefaultParallel
}

// Resolver looks names up. It is safe for concurrent use.
//
// What a name server says about how long its answer is good for is not known
// here, for neither the system's resolver nor net.Resolver tell: an answer is
// kept for TTL. That a server was not reached is not kept.
type Resolver struct {
	config  Config
	server  string // Config.Server with its port; empty means the system's
	ask     func(ctx context.Context, network, name string) ([]netip.Addr, error)
	asking  chan struct{} // holds one for each look-up under way
	waiting atomic.Int64

	undialled atomic.Pointer[undialled] // the last one; nil means that there was none

	mu sync.Mutex
	// What is remembered, in two generations: when the young one has half of
	// MaxNames it becomes the old one, and what was not asked for since is gone.
	young, old map[string]answer

	health
}

// Waiting returns how many callers wait for a look-up now.
func (r *Resolver) Waiting() int { return int(r.waiting.Load()) }

// answer is what is known of a name until expires.
type answer struct {
	addrs   []netip.Addr
	err     error
	expires time.Time
}

// New returns a Resolver. The error names every fault of config.
func New(config Config) (*Resolver, error) {
	var errs []error
	if config.TTL < 0 || config.NegativeTTL < 0 || config.MaxNames < 0 || config.Parallel < 0 {
		errs = append(errs, fmt.Errorf("TTL is %v, NegativeTTL %v, MaxNames %d, Parallel %d, want 0 or more",
			config.TTL, config.NegativeTTL, config.MaxNames, config.Parallel))
	}
	r := &Resolver{config: config, young: make(map[string]answer)}
	system := net.Resolver{Dial: r.dial}
	r.ask = system.LookupNetIP
	if config.Server != "" {
		server, err := parseServer(config.Server)
		errs = append(errs, err)
		r.server = server.String()
		system.PreferGo = true // the C library cannot be told whom to ask
	}
	r.config.TTL = cmp.Or(config.TTL, DefaultTTL)
	r.config.NegativeTTL = cmp.Or(config.NegativeTTL, DefaultNegativeTTL)
	r.config.MaxNames = cmp.Or(config.MaxNames, DefaultMaxNames)
	r.config.Parallel = cmp.Or(config.Parallel, DefaultParallel)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("resolve: %w", err)
	}
	r.asking = make(chan struct{}, r.config.Parallel)
	return r, nil
}

// dial opens a connection to the name server: that of Config, or else the
// system's, at address.
func (r *Resolver) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, cmp.Or(r.server, address))
	if err != nil && ctx.Err() == nil && strings.HasPrefix(network, "udp") {
		r.undialled.Store(&undialled{err, time.Now()})
	}
	return conn, err
}

// undialled is why no question could be sent. For UDP that lies with this
// machine: it has no descriptor left, or no network. net.DNSError has only the
// text of such an error.
type undialled struct {
	err  error
	when time.Time
}

// parseServer reads the address of a DNS server; its port is 53 unless it says
// another. A name would have to be looked up itself.
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

// Lookup returns the addresses of host, a name, in the order in which to try
// them: at least one, or an error. The caller does not change them.
//
// A name with a dot in it is a whole one: the search list of the system, which
// would find www.example.org.corp.test for a www.example.org that is gone, is
// for names that people type.
func (r *Resolver) Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if known, ok := r.known(name); ok {
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
	if known, ok := r.known(name); ok { // another caller asked meanwhile
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
		said := *dns // others may hold it too
		said.Name = host
		if said.IsNotFound {
			r.answered("")
			r.keep(name, answer{err: &said, expires: time.Now().Add(r.config.NegativeTTL)})
		} else if r.silent(ctx, r.lookup) {
			return nil, fmt.Errorf("%w: %w", ErrServer, &said)
		}
		return nil, &said
	}
	r.answered(name)
	addrs := make([]netip.Addr, min(len(found), maxAddrs))
	for i := range addrs {
		addrs[i] = found[i].Unmap() // net.Resolver may give IPv4 addresses in either form
	}
	r.keep(name, answer{addrs: addrs, expires: time.Now().Add(r.config.TTL)})
	return addrs, nil
}

// lookup asks the name server. Of callers that ask for one name at once,
// net.Resolver sends the question of one.
func (r *Resolver) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if strings.Contains(name, ".") {
		name += "."
	}
	found, err := r.ask(ctx, "ip", name)
	if err == nil && len(found) == 0 {
		err = &net.DNSError{Err: "no address", IsNotFound: true}
	}
	return found, err
}

// known returns what is known of name and still good.
func (r *Resolver) known(name string) (answer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.young[name]
	if !ok {
		if a, ok = r.old[name]; ok {
			delete(r.old, name)
			r.put(name, a)
		}
	}
	if ok && !time.Now().Before(a.expires) {
		delete(r.young, name)
		return answer{}, false
	}
	return a, ok
}

// keep remembers a.
func (r *Resolver) keep(name string, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(strings.Clone(name), a) // name may be part of a page
}

// put adds to the young generation; mu is held.
func (r *Resolver) put(name string, a answer) {
	if _, ok := r.young[name]; !ok && len(r.young) >= max(r.config.MaxNames/2, 1) {
		r.young, r.old = make(map[string]answer), r.young
	}
	r.young[name] = a
}
