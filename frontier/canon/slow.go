package canon

import (
	goerrors "errors"
	"strings"

	"github.com/nlnwa/whatwg-url/errors"
	"github.com/nlnwa/whatwg-url/url"
)

// standard is the parser of the WHATWG standard. It is safe for concurrent use.
var standard = url.NewParser(url.WithPreParseHostFunc(refuseBrackets))

// named reads every host but IPv6 as a name: one that ends in the label "a" is
// no number.
var named = url.NewParser(url.WithPreParseHostFunc(func(_ *url.Url, host string) string {
	if strings.HasPrefix(host, "[") {
		return host
	}
	return strings.TrimSuffix(host, ".") + ".a"
}))

// refuseBrackets makes the parser fail on "[[::1]]", which it would accept.
func refuseBrackets(_ *url.Url, host string) string {
	if len(host) > 2 && host[0] == '[' && strings.ContainsAny(host[1:len(host)-1], "[]") {
		return "["
	}
	return host
}

// Bases for "//authority": three times as fast as with the scheme in front,
// which the parser compares by cloning three bit sets a byte.
var httpBase, httpsBase = emptyBase("http"), emptyBase("https")

func emptyBase(scheme string) *url.Url {
	u, err := standard.Parse(scheme + "://h/")
	if err != nil {
		panic(err)
	}
	u.SearchParams() // made on first use, which would be a write by concurrent readers
	return u
}

// joinSlow is Join by the standard's parser, for every kind of reference.
func (c *Canonicalizer) joinSlow(base URL, ref string) (URL, error) {
	s := trim(ref)
	if scheme, _, found := cutScheme(s); found && !isHTTP(scheme) {
		return URL{}, &Error{Ref: ref, Err: ErrScheme}
	}
	if len(s) > maxRef {
		return URL{}, &Error{Ref: ref, Err: ErrTooLong}
	}
	u, err := standard.ParseRef(base.s, s)
	if err != nil {
		return URL{}, &Error{Ref: ref, Err: ErrMalformed, Hint: string(errors.Type(err))}
	}
	if !isHTTP(u.Scheme()) {
		return URL{}, &Error{Ref: ref, Err: ErrScheme}
	}
	host, err := canonicalHost(u, base, s)
	if err != nil {
		return URL{}, &Error{Ref: ref, Err: ErrMalformed, Hint: err.Error()}
	}
	buf := append([]byte(u.Scheme()+"://"), host...)
	b := builder{c: c, hostEnd: len(buf)}
	if port := u.Port(); port != "" {
		buf = append(append(buf, ':'), port...)
	}
	b.path = len(buf)
	buf, _ = b.appendPath(append(buf, '/'), strings.TrimPrefix(u.Pathname(), "/"))
	if query := u.Query(); query != "" {
		buf, _ = b.appendQuery(buf, query)
	}
	return b.url(buf, ref)
}

// oddAuthority returns canonical host and port of an authority that is not
// plain: with userinfo, IDNA labels, an address in an odd spelling.
func oddAuthority(scheme, authority string) (host, port string, err error) {
	base := httpBase
	if scheme == "https" {
		base = httpsBase
	}
	u, err := base.Parse("//" + authority)
	if err != nil {
		return "", "", err
	}
	host, err = canonicalHost(u, URL{}, "http://"+authority)
	return host, u.Port(), err
}

var (
	errNoHost = goerrors.New("no such host name can exist")
	errSign   = goerrors.New("a signed number in an address")
)

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
		if !isResolvable(host) || strings.ContainsAny(host, "`{}\"") {
			return "", errNoHost
		}
		if isPlainHost([]byte(host)) {
			return host, nil
		}
		again, err := httpBase.Parse("//" + host)
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
