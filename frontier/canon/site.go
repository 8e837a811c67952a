package canon

import (
	_ "embed"
	"strings"
)

//go:embed platforms.txt
var platformsText string

// platforms are the domains of platforms.txt.
var platforms = func() map[string]bool {
	all := make(map[string]bool)
	for line := range strings.Lines(platformsText) {
		if domain, _, _ := strings.Cut(line, " "); domain != "#" {
			all[domain] = true
		}
	}
	return all
}()

// Site returns the domain whose hosts probably have the same owner and servers as a canonical host name. That is
// Domain, except on platforms such as wordpress.com, whose subdomains are sites of their own: there it has one more
// label. It returns "" for a host that has no siblings: an IP address or a single label.
func Site(host string) string {
	if isAddress(host) || !strings.Contains(host, ".") {
		return ""
	}
	domain := Domain(host)
	if !platforms[domain] || len(host) == len(domain) {
		return domain
	}
	labels := host[:len(host)-len(domain)-1]
	return host[strings.LastIndexByte(labels, '.')+1:]
}
