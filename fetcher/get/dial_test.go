package get

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/resolve"
	"github.com/bloomfrontier/crawler/internal/resolve/resolvetest"
)

// In these tests 127.0.0.1 stands for a public address and 127.0.0.2 for an
// internal one: AllowNet allows only 127.0.0.1.
var (
	outside = netip.MustParseAddr("127.0.0.1")
	inside  = netip.MustParseAddr("127.0.0.2")
)

// street has two servers on one port: a web server at the address outside, and a server
// at the address inside, which no connection may reach.
type street struct {
	port     string
	requests atomic.Int32
	intruded atomic.Int32
}

func newStreet(t *testing.T) *street {
	t.Helper()
	s := new(street)
	for range 100 { // the port may be in use on the other address
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.requests.Add(1)
			page(r.Host)(w, r)
		}))
		_, s.port, _ = net.SplitHostPort(server.Listener.Addr().String())
		l, err := net.Listen("tcp", net.JoinHostPort(inside.String(), s.port))
		if err != nil {
			server.Listener.Close()
			continue
		}
		server.Start()
		t.Cleanup(server.Close)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				s.intruded.Add(1)
				conn.Close()
			}
		}()
		t.Cleanup(func() { l.Close(); <-done })
		return s
	}
	if os.Getenv("CRAWLER_TEST_SERVERS") == "require" {
		t.Fatal("found no port that is free on both 127.0.0.1 and 127.0.0.2")
	}
	t.Skip("found no port that is free on both 127.0.0.1 and 127.0.0.2")
	return nil
}

// rebinding are name servers that try to lead the client to the address inside.
var rebinding = map[string]resolvetest.Answer{
	"first outside, then inside": func(_ string, asked int) []netip.Addr {
		if asked == 0 {
			return []netip.Addr{outside}
		}
		return []netip.Addr{inside}
	},
	"in turn": func(_ string, asked int) []netip.Addr {
		return []netip.Addr{[]netip.Addr{outside, inside}[asked%2]}
	},
	"both at once": func(string, int) []netip.Addr { return []netip.Addr{inside, outside} },
	"mapped":       func(string, int) []netip.Addr { return []netip.Addr{netip.MustParseAddr("::ffff:127.0.0.2")} },
	"only inside":  func(string, int) []netip.Addr { return []netip.Addr{inside} },
}

// forgetful makes c query the name server for each look-up, also for a second one within a
// connection.
func forgetful(t *testing.T, c *Client, server string) {
	t.Helper()
	resolver, err := resolve.New(server)
	if err != nil {
		t.Fatal(err)
	}
	resolver.TTL = 1
	c.dialer.resolver = resolver
}

// TestRebindingStaysOutside: whatever a name server answers, no connection reaches the
// address inside. This holds with and without a cache of names, with each kind of proxy,
// and without a proxy.
func TestRebindingStaysOutside(t *testing.T) {
	t.Parallel()
	for name, answer := range rebinding {
		for _, scheme := range []string{"", "http", "socks5"} {
			for _, remember := range []bool{false, true} {
				t.Run(name+"/proxy="+scheme, func(t *testing.T) {
					place := newStreet(t)
					config := Config{AllowNet: []netip.Prefix{netip.PrefixFrom(outside, 32)}, MaxIdleConnsPerHost: 1, IdleTimeout: 1}
					var p *testProxy
					if scheme != "" {
						p = newTestProxy(t, scheme, "", "")
						config.Proxy = p.url
					}
					server := resolvetest.Serve(t, answer)
					config.DNS = server.Addr
					c := guarded(t, config)
					if !remember {
						forgetful(t, c, server.Addr)
					}
					came := 0
					if err := c.CheckHost(t.Context(), "rebind.test"); (err == nil) == strings.Contains("only inside mapped", name) {
						t.Errorf("CheckHost: %v, want an error exactly if all addresses are inside", err)
					}
					for range 6 {
						r, err := c.Get(t.Context(), Request{URL: "http://rebind.test:" + place.port})
						refused := new(AddressError)
						if err == nil {
							came++
							r.Release()
						} else if !errors.As(err, &refused) || refused.Addr != inside.String() {
							t.Errorf("Get: %v, want an *AddressError for %v", err, inside)
						}
					}
					if place.intruded.Load() != 0 || int(place.requests.Load()) != came {
						t.Errorf("%d connections to the address inside, want 0; %d requests and %d answers, want as many",
							place.intruded.Load(), place.requests.Load(), came)
					}
					if mayCome := name != "only inside" && name != "mapped" && (remember || name != "first outside, then inside"); mayCome && came == 0 {
						t.Error("no request reached the address outside")
					}
					if p != nil {
						p.hasOnly(t, outside.String()+":"+place.port)
					}
				})
			}
		}
	}
}

func TestNamesAreRemembered(t *testing.T) {
	t.Parallel()
	place := newStreet(t)
	server := resolvetest.Serve(t, func(string, int) []netip.Addr { return []netip.Addr{outside} })
	c := client(t, Config{DNS: server.Addr, IdleTimeout: 1})
	for range 3 {
		mustGet(t, c, Request{URL: "http://h.test:" + place.port}).Release()
	}
	if asked := server.Asked("h.test"); asked != 1 {
		t.Errorf("the name server was asked %d times for 3 requests, want once", asked)
	}
	_, err := c.Get(t.Context(), Request{URL: "http://127.1:" + place.port})
	if !errors.Is(err, ErrURL) {
		t.Errorf("127.1: %v, want ErrURL", err)
	}
	if _, err := New(Config{DNS: "dns.test", Proxy: "x", MinRate: -2, AllowNet: []netip.Prefix{{}}, HeaderTimeout: -1}); err == nil {
		t.Error("New with faulty fields returned no error")
	} else {
		for _, part := range []string{`DNS server "dns.test"`, "Proxy", "MinRate", "AllowNet", "HeaderTimeout"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s is not in the error %v", part, err)
			}
		}
	}
}

// TestHyphensAreAskedFor: a label of a host may begin or end with a hyphen. Such a URL is canonical, and
// the name server decides whether the host exists, as in browsers.
func TestHyphensAreAskedFor(t *testing.T) {
	t.Parallel()
	place := newStreet(t)
	canonical, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{
		"-a.example.test", "a-.example.test", "-a-.example.test", "a.-example.test", "a.example-.test", "-.example.test", "--.example.test",
		"a--b.example.test", "a.example.test-", "-a_.example.test", "xn--bcher-kva-.test", "-1.example.test",
	} {
		for _, exists := range []bool{true, false} {
			names := resolvetest.Serve(t, func(name string, _ int) []netip.Addr {
				if !exists {
					return nil
				}
				return []netip.Addr{outside}
			})
			c := client(t, Config{DNS: names.Addr, IdleTimeout: 1})
			address := "http://" + host + ":" + place.port + "/"
			if url, err := canonical.Parse(address); err != nil || url.String() != address {
				t.Errorf("%s: canonical form %s (%v), want the same", address, url, err)
			}
			answer, err := c.Get(t.Context(), Request{URL: address})
			if exists && err == nil {
				answer.Release()
			} else if dns, ok := errors.AsType[*net.DNSError](err); exists || !ok || !dns.IsNotFound {
				t.Errorf("%s, which exists: %t: %v", address, exists, err)
			}
			if asked := names.Asked(host); asked < 1 || asked > 2 { // see resolve.New
				t.Errorf("%s, which exists: %t: the name server was asked %d times, want 1 or 2", address, exists, asked)
			}
		}
	}
}

// behaviour is what happens to a connection to an address.
type behaviour struct {
	after time.Duration
	fails bool
}

// TestAddressesInTurn checks which address inTurn connects to, and how long this takes in
// simulated time. No other connection may stay open.
func TestAddressesInTurn(t *testing.T) {
	t.Parallel()
	const slow = 20 * time.Second
	for name, c := range map[string]struct {
		behave map[string]behaviour
		order  string
		want   string // the address of the connection; empty means an error
		took   time.Duration
	}{
		"IPv4 first":           {map[string]behaviour{"1.1.1.1": {after: 50 * time.Millisecond}, "::1": {after: slow}}, "::1 1.1.1.1", "1.1.1.1", 50 * time.Millisecond},
		"IPv4 fails":           {map[string]behaviour{"1.1.1.1": {fails: true}}, "::1 1.1.1.1", "::1", 0},
		"second of a family":   {map[string]behaviour{"1.1.1.1": {fails: true}}, "1.1.1.1 1.1.1.2", "1.1.1.2", 0},
		"one of two is silent": {map[string]behaviour{"1.1.1.1": {after: slow}}, "1.1.1.1 1.1.1.2", "1.1.1.2", 5 * time.Second},
		"all of IPv4 is silent": {map[string]behaviour{"1.1.1.1": {after: slow}, "1.1.1.2": {after: slow}, "1.1.1.3": {after: slow}, "1.1.1.4": {after: slow}, "1.1.1.5": {after: slow}},
			"1.1.1.1 1.1.1.2 1.1.1.3 1.1.1.4 1.1.1.5 ::1", "::1", 2 * time.Second},
		"all fail":       {map[string]behaviour{"::1": {fails: true}, "1.1.1.1": {fails: true}}, "::1 1.1.1.1", "", 0},
		"all are silent": {map[string]behaviour{"::1": {after: slow}, "1.1.1.1": {after: slow}}, "::1 1.1.1.1", "", 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ips []netip.Addr
				for _, text := range strings.Fields(c.order) {
					ips = append(ips, netip.MustParseAddr(text))
				}
				var open atomic.Int32
				connect := func(ctx context.Context, ip netip.Addr) (net.Conn, error) {
					b := c.behave[ip.String()]
					select {
					case <-time.After(b.after):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					if b.fails {
						return nil, errors.New("refused by " + ip.String())
					}
					open.Add(1)
					return counted{&open}, nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				began := time.Now()
				conn, ip, err := inTurn(ctx, ips, connect)
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				switch {
				case c.want == "" && (err == nil || conn != nil):
					t.Errorf("inTurn connected to %v, want an error", ip)
				case c.want != "" && (err != nil || ip.String() != c.want):
					t.Errorf("inTurn connected to %v, %v, want %s", ip, err, c.want)
				case c.want != "" && open.Load() != 1, c.want == "" && open.Load() != 0:
					t.Errorf("%d connections are open, want 1, or 0 after an error", open.Load())
				}
			})
		})
	}
}

// counted is a connection that decrements open when it is closed.
type counted struct{ open *atomic.Int32 }

func (c counted) Close() error                     { c.open.Add(-1); return nil }
func (c counted) Read([]byte) (int, error)         { return 0, io.EOF }
func (c counted) Write([]byte) (int, error)        { return 0, io.EOF }
func (c counted) LocalAddr() net.Addr              { return nil }
func (c counted) RemoteAddr() net.Addr             { return nil }
func (c counted) SetDeadline(time.Time) error      { return nil }
func (c counted) SetReadDeadline(time.Time) error  { return nil }
func (c counted) SetWriteDeadline(time.Time) error { return nil }

func TestEndsInNumber(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"1": true, "a.1": true, "0x": true, "a.0x7F": true, "0X1": true, "08": true, "1.2.3.4": true,
		"": false, "a": false, "1a": false, "0xg": false, "1.a": false, "x1": false, "a.0y1": false,
	} {
		if got := endsInNumber(name); got != want {
			t.Errorf("endsInNumber(%q) = %v", name, got)
		}
	}
}
