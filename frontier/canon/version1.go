package canon

import (
	goerrors "errors"
	"strings"

	"github.com/nlnwa/whatwg-url/url"
	"golang.org/x/net/idna"
)

// Version 1 of the form remains for the crawls that were stored with it. It reads
// hosts as package url does, with its faults. testdata/version1.txt proves that
// it does not change.

// version1Tables is the Unicode version of all programs that stored version 1.
const version1Tables = "15.0.0"

var version1 = newRules(refuseBrackets, rules{name: nameByIDNA, host: canonicalHost})

// named reads every host but IPv6 as a name: one that ends in the label "a" is
// no number.
var named = url.NewParser(url.WithPreParseHostFunc(func(_ *url.Url, host string) string {
	if strings.HasPrefix(host, "[") {
		return host
	}
	return strings.TrimSuffix(host, ".") + ".a"
}))

// toASCII is what the parser does to a host name, without the rest of a URL
// around it, which takes three times as long.
var toASCII = idna.New(
	idna.MapForLookup(), idna.BidiRule(), idna.ValidateLabels(true), idna.StrictDomainName(true),
	idna.CheckJoiners(true), idna.CheckHyphens(false), idna.VerifyDNSLength(false), idna.Transitional(false),
).ToASCII

// nameByIDNA returns the canonical form of a name with IDNA labels. false: it
// is left to the slow path, for it has none, is an address or no name at all.
func nameByIDNA(name string) (host string, done bool) {
	for range 2 { // what IDNA returns it may refuse to read: the form must be a fixed point
		mapped, err := toASCII(name)
		mapped = strings.TrimSuffix(mapped, ".")
		switch {
		case err != nil || !isResolvable(mapped) || !isAlpha(mapped[strings.LastIndexByte(mapped, '.')+1]):
			return "", false
		case mapped == name || isPlainHost([]byte(mapped)) && !hasACE([]byte(mapped)):
			return mapped, true
		}
		name = mapped
	}
	return "", false
}

var errSign = goerrors.New("a signed number in an address")

// canonicalHost returns the host of u, parsed from ref with base, in the form
// that the parser reads back unchanged, without a dot at its end.
func canonicalHost(u *url.Url, base URL, ref string) (host string, err error) {
	host = u.Hostname()
	switch {
	case u.IsIPv6():
		return host, nil
	case u.IsIPv4():
		// The parser takes "-1" for 255.255.255.255.
		if name, err := named.ParseRef(base.s, ref); err != nil || strings.ContainsAny(name.Hostname(), "+-") {
			return "", errSign
		}
		return host, nil
	}
	for range 4 { // until IDNA's output is its own input
		host = strings.TrimSuffix(host, ".")
		if !isResolvable(host) || strings.ContainsAny(host, unreadable) {
			return "", errNoHost
		}
		if isPlainHost([]byte(host)) && !hasACE([]byte(host)) {
			return host, nil
		}
		again, err := u.Parse("//" + host)
		if err != nil || again.IsIPv4() {
			return "", errNoHost
		}
		if again.Hostname() == host {
			return host, nil
		}
		host = again.Hostname()
	}
	return "", errNoHost
}
