package testweb

import (
	"net/netip"
	"slices"
	"strconv"
)

// addresses is a hardship: URLs, redirects, robots.txt files and sitemaps lead to private
// addresses. The URLs contain these addresses in many spellings, or contain names that
// resolve to them. Some names change their address between two look-ups. A crawler must
// not connect to any private address. Canaries, which report connections, listen on some of
// the loopback addresses, and Web.ServeDNS resolves the names.
//
// The crawler's --connect-to must not cover these names and addresses. So --connect-to
// covers only the other names ('*.test=ADDR' and '*.example=ADDR'), and the crawler uses
// Web.ServeDNS as its name server. A few names also have a harmless address. A test can
// allow the crawler to connect to the harmless address.
var addresses = hardship{
	bit: Addresses, name: "addresses",
	doc: "private addresses, names for them, redirects to them, names that change",
	corner: func(c *corners) {
		for _, name := range names {
			s := c.site(name.host + nameSuffix + c.canary)
			c.entry(s.at("/"))
			p := s.add("/", closed).html().expects("address", 0)
			if name.canBeHarmless() {
				p.role = sought
				p.alsoAccepts("ok", "network", "robots").with("Connection", "close") // so that the next page needs a new connection
				for _, path := range []string{"/2", "/3", "/4"} {
					c.entry(s.at(path))
					s.page(path).expects("address", 0).alsoAccepts("ok", "network", "robots").with("Connection", "close")
				}
			}
		}
		for _, host := range []string{"127.0.0.1", "[::1]", "0.0.0.0", "127.9.9.9", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"} {
			s := c.site(host + c.canary)
			c.entry(s.at("/"))
			s.add("/", closed).html().expects("address", 0)
		}
		for _, spelled := range []string{"2130706433", "0x7f.1", "127.1", "0177.0.0.01", "127.0.0.1.", "%31%32%37.0.0.1", "１２７.0.0.1"} {
			c.entry("http://" + spelled + c.canary + "/")
		}
		for _, host := range []string{"169.254.169.254", "10.0.0.1", "192.168.1.1", "100.64.0.1", "[fd00::1]", "[fe80::1]"} {
			s := c.site(host)
			c.entry(s.at("/latest/meta-data/"))
			s.add("/latest/meta-data/", closed).html().expects("address", 0)
		}
		local := c.site("localhost" + c.canary)
		c.entry(local.at("/"))
		local.add("/", closed).html().expects("address", 0).alsoAccepts("network", "host_dead", "robots") // some systems do not resolve localhost

		inward := c.site("inward.corner.test")
		literal, named := c.site("127.0.0.1"+c.canary), c.site("loopback"+nameSuffix+c.canary)
		inward.enter("/", "/literal", "/named")
		inward.redirect("/literal", literal.at("/secret"), literal.at("/secret"))
		inward.redirect("/named", "//"+named.host+"/secret", named.at("/secret"))
		literal.add("/secret", closed).html().expects("address", 0)
		named.add("/secret", closed).html().expects("address", 0)

		robots := c.site("robots-inward.corner.test") // its robots.txt cannot be fetched, so a crawler must not fetch its pages
		robots.movedRobots("/robots.txt", literal.at("/robots.txt"))
		c.entry(robots.at("/"))
		robots.add("/", closed).html().expects("address", 0).alsoAccepts("robots", "network", "host_dead")

		maps := c.site("maps-inward.corner.test")
		maps.robots("Sitemap: " + literal.at("/sitemap.xml") + "\nSitemap: " + named.at("/sitemap.xml") + "\n")
		maps.enter("/")
		if c.sitemaps {
			literal.add("/sitemap.xml", closed).html().expects("address", 0)
			named.add("/sitemap.xml", closed).html().expects("address", 0)
		}
	},
}

// portOf returns the suffix that a host in a URL has for a port: ":PORT", or nothing
// for port 80.
func portOf(port int) string {
	if port == 80 {
		return ""
	}
	return ":" + strconv.Itoa(port)
}

// nameSuffix is the end of each name that ServeDNS knows.
const nameSuffix = ".addresses.invalid"

// A name is a host name that ServeDNS resolves.
type name struct {
	host string // without nameSuffix
	// turns[i] are the addresses that look-up number i returns. All later look-ups
	// return the last element.
	turns [][]netip.Addr
}

// harmless is a loopback address without a canary. The web can be served there: see
// Canaries.Harmless.
var harmless = netip.MustParseAddr("127.8.0.1")

var names = []name{
	{"private", [][]netip.Addr{ips("10.0.0.1")}},
	{"loopback", [][]netip.Addr{ips("127.0.0.1")}},
	{"loopback6", [][]netip.Addr{ips("::1")}},
	{"both", [][]netip.Addr{ips("127.0.0.1", "::1")}},
	{"mapped", [][]netip.Addr{ips("::ffff:127.0.0.1")}},
	{"metadata", [][]netip.Addr{ips("169.254.169.254")}},
	{"unique-local", [][]netip.Addr{ips("fd12:3456::1")}},
	{"nat64", [][]netip.Addr{ips("64:ff9b::7f00:1")}},
	{"six-to-four", [][]netip.Addr{ips("2002:7f00:1::1")}},
	{"zero", [][]netip.Addr{ips("0.0.0.0")}},
	{"multicast", [][]netip.Addr{ips("224.0.0.1", "ff02::1")}},
	{"rebound", [][]netip.Addr{{harmless}, ips("127.0.0.1")}},
	{"rebound-late", [][]netip.Addr{{harmless}, {harmless}, {harmless}, ips("127.0.0.1", "::1")}},
	{"turned", [][]netip.Addr{ips("127.0.0.1"), {harmless}}},
	{"mixed", [][]netip.Addr{append(ips("127.0.0.1", "::1"), harmless)}},
}

func ips(all ...string) (addrs []netip.Addr) {
	for _, ip := range all {
		addrs = append(addrs, netip.MustParseAddr(ip))
	}
	return addrs
}

// canBeHarmless reports whether some look-up of the name returns the harmless address.
func (n *name) canBeHarmless() bool {
	return slices.Contains(slices.Concat(n.turns...), harmless)
}
