package get

import (
	"fmt"
	"net/netip"

	"code.dny.dev/ssrf"
)

// AddressError reports that all addresses of a host are refused.
type AddressError struct {
	Host string // as in the URL
	Addr string // one of its addresses
}

func (e *AddressError) Error() string {
	kind, allow := "special", "--allow-private"
	if ip, err := netip.ParseAddr(e.Addr); err == nil {
		if ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
			kind = "private"
		}
		allow += ", or" + allowNet(ip.WithZone(""))
	}
	if e.Host == e.Addr {
		return fmt.Sprintf("%s is a %s address (%s)", e.Host, kind, allow)
	}
	return fmt.Sprintf("%s is %s, a %s address (%s)", e.Host, e.Addr, kind, allow)
}

// allowNet returns the flags that allow ip and nothing else. If ip embeds another address,
// that address needs a flag too.
func allowNet(ip netip.Addr) string {
	flags := " --allow-net " + netip.PrefixFrom(ip, ip.BitLen()).String()
	if inner, translated := embedded(ip); translated {
		flags += allowNet(inner)
	}
	return flags
}

// guard decides which addresses may be dialled. It refuses the ranges of the IANA
// special-purpose registries, and IPv6 addresses outside of 2000::/3, which are not
// assigned. No public web server has such an address. Some of these addresses can be
// reached from everywhere, such as those of AS112 servers, but they serve no pages.
type guard struct {
	public *ssrf.Guardian // nil permits every address
	nets   []netip.Prefix // permitted in addition
}

// platform is a public address at which Azure's machines find the service that returns
// their keys.
var platform = netip.MustParsePrefix("168.63.129.16/32")

// IPv6 prefixes whose addresses contain an IPv4 address: nat64 in the last four bytes,
// sixTo4 in the four bytes after the prefix.
var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
)

func newGuard(config Config) guard {
	if config.AllowPrivate {
		return guard{}
	}
	return guard{
		public: ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(platform)),
		nets:   config.AllowNet,
	}
}

// permits reports whether ip may be dialled. If ip embeds an IPv4 address, that address
// must be permitted too, even if nets contains ip. For example, 64:ff9b::7f00:1 leads to
// 127.0.0.1.
func (g guard) permits(ip netip.Addr) bool {
	if g.public == nil {
		return true
	}
	ip = ip.WithZone("")
	for _, prefix := range g.nets {
		if prefix.Contains(ip) {
			inner, translated := embedded(ip)
			return !translated || g.permits(inner)
		}
	}
	return g.public.SafeAddr(ip) == nil
}

// embedded returns the IPv4 address at which packets to ip arrive.
func embedded(ip netip.Addr) (inner netip.Addr, translated bool) {
	b := ip.As16()
	switch {
	case ip.Is4In6():
		return ip.Unmap(), true
	case nat64.Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixTo4.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}
