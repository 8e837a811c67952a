package get

import (
	"fmt"
	"net/netip"

	"code.dny.dev/ssrf"
)

// AddressError reports a host that has only addresses which are not dialled.
type AddressError struct {
	Host string // as it stands in the URL
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

// allowNet returns the flags that let ip pass and nothing else: one for the
// address that it embeds too.
func allowNet(ip netip.Addr) string {
	flags := " --allow-net " + netip.PrefixFrom(ip, ip.BitLen()).String()
	if inner, translated := embedded(ip); translated {
		flags += allowNet(inner)
	}
	return flags
}

// guard judges addresses: nobody's public web server is in any range of the
// IANA special-purpose registries, nor outside of 2000::/3 where nothing is
// given out. What those registries call globally reachable (an AS112 server,
// a relay) is refused with the rest of its range, for it serves no pages.
type guard struct {
	public *ssrf.Guardian // nil lets every address pass
	nets   []netip.Prefix // let pass as well
}

// platform is a public address behind which Azure's machines find the service
// that gives out their keys.
var platform = netip.MustParsePrefix("168.63.129.16/32")

// Where an IPv4 address travels inside of an IPv6 address, in its last four
// bytes or in the four behind the prefix.
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

// permits reports whether ip may be dialled. Who is told to let a range of
// translated addresses pass means the public ones in it: 64:ff9b::7f00:1 is
// still 127.0.0.1.
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

// embedded returns the IPv4 address that packets to ip end up at.
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
