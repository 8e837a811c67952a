package testweb

import (
	"net/netip"
	"strconv"
)

// addresses: URLs, redirects, robots.txt and sitemaps that lead to private
// addresses, written in many ways or behind names, some of which change their
// address between two look-ups. No connection may be made to any of them: where
// they can be had there are Canaries, and the names are Web.ServeDNS's.
//
// The crawler must not be told to connect to the server for these names and
// addresses, so it is given the others only (--connect-to '*.test=ADDR', and
// '*.example'), and the name server. A few names have a harmless address as
// well, which the crawler may be allowed.
var addresses = hardship{
	bit: Addresses, name: "addresses",
	doc: "private addresses, names for them, redirects to them, names that change",
	corner: func(c *corners) {
		for _, name := range names {
			s := c.site(name.host + nameSuffix + c.canary)
			c.entry(s.at("/"))
			p := s.add("/", closed).html().fares("address", 0)
			if name.mayBeHad() {
				p.role = sought
				p.also("ok", "network", "robots").with("Connection", "close") // each page is a look-up, or a decision
				for _, path := range []string{"/2", "/3", "/4"} {
					c.entry(s.at(path))
					s.page(path).fares("address", 0).also("ok", "network", "robots").with("Connection", "close")
				}
			}
		}
		for _, host := range []string{"127.0.0.1", "[::1]", "0.0.0.0", "127.9.9.9", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"} {
			s := c.site(host + c.canary)
			c.entry(s.at("/"))
			s.add("/", closed).html().fares("address", 0)
		}
		for _, spelled := range []string{"2130706433", "0x7f.1", "127.1", "0177.0.0.01", "127.0.0.1.", "%31%32%37.0.0.1", "１２７.0.0.1"} {
			c.entry("http://" + spelled + c.canary + "/")
		}
		for _, host := range []string{"169.254.169.254", "10.0.0.1", "192.168.1.1", "100.64.0.1", "[fd00::1]", "[fe80::1]"} {
			s := c.site(host)
			c.entry(s.at("/latest/meta-data/"))
			s.add("/latest/meta-data/", closed).html().fares("address", 0)
		}
		local := c.site("localhost" + c.canary)
		c.entry(local.at("/"))
		local.add("/", closed).html().fares("address", 0).also("network", "host_dead", "robots") // not everywhere a name

		inward := c.site("inward.corner.test")
		literal, named := c.site("127.0.0.1"+c.canary), c.site("loopback"+nameSuffix+c.canary)
		inward.enter("/", "/literal", "/named")
		inward.redirect("/literal", literal.at("/secret"), literal.at("/secret"))
		inward.redirect("/named", "//"+named.host+"/secret", named.at("/secret"))
		literal.add("/secret", closed).html().fares("address", 0)
		named.add("/secret", closed).html().fares("address", 0)

		robots := c.site("robots-inward.corner.test") // what cannot be had allows nothing
		robots.movedRobots("/robots.txt", literal.at("/robots.txt"))
		c.entry(robots.at("/"))
		robots.add("/", closed).html().fares("address", 0).also("robots", "network", "host_dead")

		maps := c.site("maps-inward.corner.test")
		maps.robots("Sitemap: " + literal.at("/sitemap.xml") + "\nSitemap: " + named.at("/sitemap.xml") + "\n")
		maps.enter("/")
		if c.sitemaps {
			literal.add("/sitemap.xml", closed).html().fares("address", 0)
			named.add("/sitemap.xml", closed).html().fares("address", 0)
		}
	},
}

// portOf returns the end of a host with that port.
func portOf(port int) string {
	if port == 80 {
		return ""
	}
	return ":" + strconv.Itoa(port)
}

// nameSuffix ends the names that ServeDNS knows.
const nameSuffix = ".addresses.invalid"

// A name is one that ServeDNS knows.
type name struct {
	host string
	// turns are the addresses that the first look-up finds, the second one and
	// so on; the last ones hold for all that follow.
	turns [][]netip.Addr
}

// harmless is an address without a machine, where no service can be: the
// canaries leave it to the web.
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

// mayBeHad reports whether the name ever has the harmless address.
func (n *name) mayBeHad() bool {
	for _, turn := range n.turns {
		for _, ip := range turn {
			if ip == harmless {
				return true
			}
		}
	}
	return false
}
