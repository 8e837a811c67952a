package canon

import (
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

// joinSlow is Join by the standard, for every kind of reference.
func (c *Canonicalizer) joinSlow(base URL, ref string) (URL, error) {
	s := trim(ref)
	if scheme, _, found := cutScheme(s); found && !isHTTP(scheme) {
		return URL{}, &Error{Ref: ref, Err: ErrScheme}
	}
	if len(s) > 4*MaxBytes {
		return URL{}, &Error{Ref: ref, Err: ErrTooLong}
	}
	u, err := standard.ParseRef(base.s, s)
	if err != nil {
		return URL{}, &Error{Ref: ref, Err: ErrMalformed, Hint: hint(err)}
	}
	if !isHTTP(u.Scheme()) {
		return URL{}, &Error{Ref: ref, Err: ErrScheme}
	}
	host, ok := canonicalHost(u.Hostname())
	if !ok || u.IsIPv4() && hasSign(base, s) {
		return URL{}, &Error{Ref: ref, Err: ErrMalformed, Hint: "no such host name can exist"}
	}
	var room [512]byte
	b := builder{c: c, buf: room[:0]}
	b.buf = append(append(append(b.buf, u.Scheme()...), "://"...), host...)
	b.hostEnd = len(b.buf)
	if port := u.Port(); port != "" {
		b.buf = append(append(b.buf, ':'), port...)
	}
	b.path = len(b.buf)
	b.buf = append(b.buf, '/')
	b.fromPath(strings.TrimPrefix(u.Pathname(), "/"))
	if query := u.Query(); query != "" {
		b.query(query)
	}
	return b.url(ref)
}

// hasSign reports whether the host of ref, read as an IPv4 address, has a signed
// number in it: the parser takes "-1" for 255.255.255.255.
func hasSign(base URL, ref string) bool {
	u, err := named.ParseRef(base.s, ref)
	return err != nil || strings.ContainsAny(u.Hostname(), "+-")
}

// canonicalHost returns host in the form that the parser reads back unchanged,
// without a dot at its end; false when there is none.
func canonicalHost(host string) (canonical string, ok bool) {
	for range 4 { // IDNA output that is input for other output, if there is any
		if host[0] == '[' {
			return host, true
		}
		host = strings.TrimSuffix(host, ".")
		if !isResolvable(host) || strings.ContainsAny(host, "`{}\"") {
			return "", false
		}
		if isPlainHost([]byte(host)) {
			return host, true
		}
		again, err := standard.Parse("http://" + host)
		if err != nil || again.Hostname() == "" {
			return "", false
		}
		if again.Hostname() == host {
			return host, true
		}
		host = again.Hostname()
	}
	return "", false
}

func hint(err error) string { return string(errors.Type(err)) }
