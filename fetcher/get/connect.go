package get

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Rule directs connections for some hosts to a fixed address. The address guard allows
// this address. The URL, the Host header and the TLS name remain those of the host.
type Rule struct {
	Pattern string // host name in lower case, with * for any characters
	Addr    string // IP address or name
	Port    string // empty means the port of the URL
}

func (r Rule) String() string {
	if r.Port == "" {
		return r.Pattern + "=" + r.Addr
	}
	return r.Pattern + "=" + net.JoinHostPort(r.Addr, r.Port)
}

// ParseConnectTo parses PATTERN=ADDR[:PORT], for example *.example.org=127.0.0.1:8080. An
// IPv6 address with a port must be in brackets.
func ParseConnectTo(s string) (Rule, error) {
	pattern, to, found := strings.Cut(s, "=")
	if !found || pattern == "" || to == "" || strings.ContainsAny(s, " \t/@") {
		return Rule{}, fmt.Errorf("connect-to %q, want PATTERN=ADDR[:PORT]", s)
	}
	r := Rule{Pattern: strings.ToLower(strings.Trim(pattern, "[]")), Addr: to}
	if host, port, err := net.SplitHostPort(to); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
			return Rule{}, fmt.Errorf("connect-to %q, want an address and a port from 1 to 65535 after =", s)
		}
		r.Addr, r.Port = host, port
	}
	r.Addr = strings.Trim(r.Addr, "[]")
	if strings.Contains(r.Addr, ":") && net.ParseIP(r.Addr) == nil {
		return Rule{}, fmt.Errorf("connect-to %q: %q is not an address", s, r.Addr)
	}
	return r, nil
}

// port returns the port to dial for a URL with the given port.
func (r Rule) port(port string) string { return cmp.Or(r.Port, port) }

// ruleFor returns the first of rules whose pattern matches host.
func ruleFor(rules []Rule, host string) (Rule, bool) {
	if len(rules) == 0 {
		return Rule{}, false
	}
	host = strings.ToLower(host)
	for _, r := range rules {
		if MatchHost(r.Pattern, host) {
			return r, true
		}
	}
	return Rule{}, false
}

// MatchHost reports whether a pattern matches the whole host. A * in the pattern stands for any
// characters. Both are in lower case.
func MatchHost(pattern, host string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == host
	}
	host, ok := strings.CutPrefix(host, head)
	if !ok {
		return false
	}
	for {
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(host, part)
		}
		i := strings.Index(host, part) // the leftmost match leaves the longest text for the other parts
		if i < 0 {
			return false
		}
		host, rest = host[i+len(part):], more
	}
}
