package get

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/resolve/resolvetest"
)

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of random tests")

// special4 are the entries of the IANA IPv4 Special-Purpose Address Registry,
// multicast, and the public address at which Azure's machines find their keys.
var special4 = prefixes(`
	0.0.0.0/8 0.0.0.0/32 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12
	192.0.0.0/24 192.0.0.0/29 192.0.0.8/32 192.0.0.9/32 192.0.0.10/32 192.0.0.170/32 192.0.0.171/32
	192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.88.99.2/32 192.168.0.0/16
	192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 255.255.255.255/32
	224.0.0.0/4 168.63.129.16/32`)

// special6 are the entries of the IANA IPv6 Special-Purpose Address Registry, the
// addresses outside of the global unicast range (2000::/3), and special addresses in that
// range, such as those that embed IPv4 addresses.
var special6 = prefixes(`
	::1/128 ::/128 ::ffff:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32
	2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28
	2001:20::/28 2001:30::/28 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16
	fc00::/7 fe80::/10
	::/96 fec0::/10 ff00::/8 fd00:ec2::254/128 200::/7 4000::/3 e000::/4`)

// public are the last addresses before special ranges, the first addresses after
// them, and some well-known addresses.
var public = strings.Fields(`
	1.0.0.0 1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
	168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255
	192.0.1.0 192.0.3.0 192.31.195.255 192.31.197.0 192.88.98.255 192.88.100.0 192.167.255.255 192.169.0.0
	198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255
	2001:200:: 2001:db7:ffff:ffff:ffff:ffff:ffff:ffff 2001:db9:: 2003:: 2606:4700:4700::1111 2620:4f:7fff::1
	2620:4f:8001:: 2a00:1450::1 3fff:1000::`)

func prefixes(s string) (all []netip.Prefix) {
	for _, field := range strings.Fields(s) {
		all = append(all, netip.MustParsePrefix(field))
	}
	return all
}

// ends returns the first and the last address of a range.
func ends(p netip.Prefix) (first, last netip.Addr) {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ = netip.AddrFromSlice(b)
	return p.Masked().Addr(), last
}

func TestGuardKnowsSpecialRanges(t *testing.T) {
	t.Parallel()
	g := newGuard(Config{})
	for _, p := range append(special4, special6...) {
		first, last := ends(p)
		for _, ip := range []netip.Addr{first, last, first.WithZone("eth0")} {
			if g.permits(ip) {
				t.Errorf("%s, in the special range %s, would be dialled", ip, p)
			}
		}
	}
	for _, text := range public {
		if ip := netip.MustParseAddr(text); !g.permits(ip) {
			t.Errorf("%s would not be dialled", ip)
		}
	}
}

// TestGuardKnowsNoOthers compares the guard with the lists above at random
// addresses: half of them from the whole space, half from special ranges.
func TestGuardKnowsNoOthers(t *testing.T) {
	t.Parallel()
	t.Logf("replay with -seed=%d", *seed)
	random := rand.New(rand.NewPCG(*seed, 4))
	g := newGuard(Config{})
	for _, family := range []struct {
		special []netip.Prefix
		bytes   int
	}{{special4, 4}, {special6, 16}} {
		for range 100_000 {
			b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, random.Uint64()), random.Uint64())[:family.bytes]
			if random.IntN(2) == 0 {
				p := family.special[random.IntN(len(family.special))]
				for i, fixed := range p.Addr().AsSlice() {
					keep := byte(0xff) >> min(8, max(0, p.Bits()-8*i))
					b[i] = fixed&^keep | b[i]&keep
				}
			}
			ip, _ := netip.AddrFromSlice(b)
			known := family.bytes == 16 && b[0]>>5 != 1 // not global unicast
			for _, p := range family.special {
				known = known || p.Contains(ip)
			}
			if g.permits(ip) == known {
				t.Fatalf("%s is special: %v, would be dialled: %v", ip, known, known)
			}
		}
	}
}

func TestAllowNet(t *testing.T) {
	t.Parallel()
	g := newGuard(Config{AllowNet: prefixes("10.1.0.0/16 fd00:1::/32 64:ff9b::/96 2002::/16 ::ffff:0:0/96")})
	for text, want := range map[string]bool{
		"10.1.2.3": true, "10.2.0.0": false, "127.0.0.1": false, "8.8.8.8": true,
		"fd00:1::1": true, "fd00:2::1": false, "fd00:1::1%eth0": true,
		"64:ff9b::808:808": true, "64:ff9b::7f00:1": false, "64:ff9b::a01:203": true, "64:ff9b::a9fe:a9fe": false,
		"2002:808:808::1": true, "2002:7f00:1::1": false,
		"::ffff:8.8.8.8": true, "::ffff:127.0.0.1": false, "::ffff:10.1.0.1": true,
		"64:ff9b:1::1": false,
	} {
		if got := g.permits(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s would be dialled: %v, want %v", text, got, want)
		}
	}
	if !newGuard(Config{AllowPrivate: true}).permits(netip.MustParseAddr("169.254.169.254")) {
		t.Error("with AllowPrivate, 169.254.169.254 would not be dialled")
	}
}

// TestAddressErrorSaysWhatAllows: the networks in the message allow the address, but not the
// whole special range.
func TestAddressErrorSaysWhatAllows(t *testing.T) {
	t.Parallel()
	for _, p := range append(special4, special6...) {
		first, last := ends(p)
		for _, ip := range []netip.Addr{first, last, first.WithZone("eth0")} {
			text := (&AddressError{Host: "a.test", Addr: ip.String()}).Error()
			var allow []netip.Prefix
			for _, flag := range strings.Split(strings.TrimSuffix(text, ")"), "--allow-net ")[1:] {
				allow = append(allow, netip.MustParsePrefix(strings.TrimSpace(flag)))
			}
			g := newGuard(Config{AllowNet: allow})
			if !g.permits(ip) {
				t.Errorf("%s: with these networks, %s would not be dialled", text, ip)
			}
			if first != last && g.permits(first) && g.permits(last) {
				t.Errorf("%s: with these networks, both ends of %s would be dialled", text, p)
			}
		}
	}
}

// dialled listens on a port of 127.0.0.1, and counts the connections.
func dialled(t *testing.T) (port string, count *atomic.Int32) {
	t.Helper()
	count = new(atomic.Int32)
	addr := listen(t, nil, func(_ int, conn net.Conn) { count.Add(1) })
	_, port, _ = net.SplitHostPort(addr)
	return port, count
}

// spellings returns the forms in which people and attackers write an IPv4 address.
func spellings(ip netip.Addr) []string {
	b := ip.As4()
	n := binary.BigEndian.Uint32(b[:])
	each := func(write func(part byte) string) string {
		return write(b[0]) + "." + write(b[1]) + "." + write(b[2]) + "." + write(b[3])
	}
	digits := func(write func(digit rune) string) func(byte) string {
		return func(part byte) (s string) {
			for _, digit := range fmt.Sprint(part) {
				s += write(digit)
			}
			return s
		}
	}
	percent := each(digits(func(digit rune) string { return fmt.Sprintf("%%%x", digit) }))
	wide := each(digits(func(digit rune) string { return string(digit - '0' + '0') }))
	return []string{
		ip.String(), ip.String() + ".", fmt.Sprint(n), fmt.Sprintf("0x%x", n), fmt.Sprintf("0X%X", n), fmt.Sprintf("0%o", n),
		fmt.Sprintf("%d.%d", b[0], n&0xffffff), fmt.Sprintf("0x%x.%d", b[0], n&0xffffff), fmt.Sprintf("%d.%d.%d", b[0], b[1], n&0xffff),
		each(func(part byte) string { return fmt.Sprintf("0%o", part) }), each(func(part byte) string { return fmt.Sprintf("0x%x", part) }),
		percent, strings.ReplaceAll(percent, ".", "%2e"), wide, strings.ReplaceAll(wide, ".", "。"),
		"[::ffff:" + ip.String() + "]", "[64:ff9b::" + ip.String() + "]", "[::" + ip.String() + "]",
		"user@" + ip.String(), "8.8.8.8@" + ip.String(),
	}
}

// TestSpellingsDoNotPassGuard requests special addresses in each spelling, once with the
// canonical URL, as for a link of a page, and once with the URL as it is.
func TestSpellingsDoNotPassGuard(t *testing.T) {
	t.Parallel()
	port, count := dialled(t)
	names := resolvetest.Serve(t, func(string, int) []netip.Addr { return nil })
	c := guarded(t, Config{DNS: names.Addr})
	form, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	judge := func(url string, needsURL bool) {
		t.Helper()
		_, err := c.Get(t.Context(), Request{URL: url})
		refused := new(AddressError)
		switch {
		case errors.As(err, &refused) && Classify(err) == Fault{Outcome: frontier.Address}:
		case !needsURL && errors.Is(err, ErrURL):
		default:
			t.Errorf("%s: %v, want an *AddressError", url, err)
		}
	}
	for _, p := range special4 {
		first, last := ends(p)
		for _, ip := range []netip.Addr{first, last} {
			for _, host := range spellings(ip) {
				raw := "http://" + host + ":" + port + "/"
				judge(raw, false)
				if url, err := form.Parse(raw); err != nil {
					t.Errorf("parse %s: %v", raw, err)
				} else {
					judge(url.String(), true)
				}
			}
		}
	}
	for _, p := range special6 {
		first, last := ends(p)
		for _, ip := range []netip.Addr{first, last} {
			judge("http://["+ip.String()+"]:"+port+"/", true)
			judge("http://["+ip.StringExpanded()+"]:"+port+"/", true)
		}
	}
	if count.Load() != 0 {
		t.Errorf("%d connections were made, want 0", count.Load())
	}
	names.Each(func(name string) { t.Errorf("the name server was asked for %q", name) })
}

// TestNamesOfSpecialAddresses looks up names whose addresses are in the special
// ranges. No connection is made.
func TestNamesOfSpecialAddresses(t *testing.T) {
	t.Parallel()
	port, count := dialled(t)
	all := append(special4, special6...)
	names := resolvetest.Serve(t, func(name string, _ int) []netip.Addr {
		i, err := strconv.Atoi(strings.TrimSuffix(name[1:], ".test"))
		if err != nil {
			return nil
		}
		first, last := ends(all[i])
		return []netip.Addr{first, last}
	})
	c := guarded(t, Config{DNS: names.Addr})
	for i, p := range all {
		host := fmt.Sprintf("n%d.test", i)
		refused := new(AddressError)
		if err := c.CheckHost(t.Context(), host); !errors.As(err, &refused) {
			t.Errorf("%s: CheckHost: %v, want an *AddressError", p, err)
		}
		if _, err := c.Get(t.Context(), Request{URL: "http://" + host + ":" + port}); !errors.As(err, &refused) || refused.Host != host {
			t.Errorf("%s: %v, want an *AddressError", p, err)
		}
	}
	if count.Load() != 0 {
		t.Errorf("%d connections were made, want 0", count.Load())
	}
}

// TestRedirectIntoTheHouse: Get returns a redirect to a special address like any other
// answer. A request for the target of the redirect is refused.
func TestRedirectIntoTheHouse(t *testing.T) {
	t.Parallel()
	port, count := dialled(t)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
	})
	rule, err := ParseConnectTo("outside.test=" + strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	c := guarded(t, Config{ConnectTo: []Rule{rule}})
	for _, target := range []string{"http://127.0.0.1:" + port + "/", "http://[::1]:" + port, "http://169.254.169.254/latest/meta-data/", "http://localhost:" + port} {
		r := mustGet(t, c, Request{URL: "http://outside.test/?to=" + target})
		refused := new(AddressError)
		if _, err := c.Get(t.Context(), Request{URL: r.RedirectTo}); r.RedirectTo != target || !errors.As(err, &refused) {
			t.Errorf("%s: %v, want an *AddressError", r.RedirectTo, err)
		}
		r.Release()
	}
	if count.Load() != 0 {
		t.Errorf("%d connections were made, want 0", count.Load())
	}
}
