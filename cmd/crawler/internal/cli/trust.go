package cli

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// trustFlags declares the flags about certificates.
func (o *options) trustFlags(f *pflag.FlagSet) {
	f.StringVar(&o.crawl.CAFile, "ca", "", "trust the certificates in `FILE` (PEM) too, beside the system's")
	f.StringArrayVar(&o.crawl.Requests.InsecureHosts, "insecure-host", nil, "do not verify the certificates of hosts that match `PATTERN`, such as '*.test.example.org' (repeatable)")
	restrict.Check(f, "ca", parsed(get.RootCAs))
	restrict.Check(f, "insecure-host", func(pattern string) error {
		if pattern == "" || strings.Trim(strings.ToLower(pattern), seed.HostLetters+"*[:]") != "" || hasPort(pattern) {
			return errors.New("want a host without a port, in which * stands for any characters, such as *.test.example.org")
		}
		return nil
	})
}

// hasPort reports whether a host pattern ends with a port.
func hasPort(pattern string) bool {
	if _, err := netip.ParseAddr(strings.Trim(pattern, "[]")); err == nil {
		return false
	}
	colon := strings.LastIndexByte(pattern, ':')
	return colon >= 0 && colon > strings.LastIndexByte(pattern, ']')
}
