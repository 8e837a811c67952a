package canon

import (
	"strings"

	"github.com/nlnwa/whatwg-url/errors"
	"github.com/nlnwa/whatwg-url/url"
)

// parser is a parser of the WHATWG standard that does not change hosts: see
// carryName. It is safe for concurrent use.
var parser = url.NewParser(url.WithPreParseHostFunc(carryName))

var baseHTTP, baseHTTPS = emptyBase("http"), emptyBase("https")

// emptyBase returns a base URL for the reference "//authority". The parser reads
// such a reference three times as fast as a URL with a scheme, because the
// parser clones three bit sets for each byte of a scheme.
func emptyBase(scheme string) *url.Url {
	u, err := parser.Parse(scheme + "://h/")
	if err != nil {
		panic(err)
	}
	u.SearchParams() // builds the parameters now, because a first use by concurrent readers would be a data race
	return u
}

// joinSlow is Join for every kind of reference. It uses the standard's parser.
func (c *Canonicalizer) joinSlow(base URL, ref string) (URL, error) {
	s := trim(ref)
	if scheme, _, found := cutScheme(s); found && !isHTTP(scheme) {
		return URL{}, &Error{Ref: ref, Err: ErrScheme}
	}
	if len(s) > maxRef {
		return URL{}, &Error{Ref: ref, Err: ErrTooLong}
	}
	u, err := parser.ParseRef(base.s, s)
	if err != nil {
		return URL{}, &Error{Ref: ref, Err: ErrMalformed, Hint: string(errors.Type(err))}
	}
	if !isHTTP(u.Scheme()) {
		return URL{}, &Error{Ref: ref, Err: ErrScheme}
	}
	host, err := carriedHost(u)
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

// parseAuthority returns the canonical host and port of an authority that appendPlain
// cannot read, such as one with userinfo, escapes or an IPv6 address.
func parseAuthority(scheme, authority string) (host, port string, err error) {
	base := baseHTTP
	if scheme == "https" {
		base = baseHTTPS
	}
	u, err := base.Parse("//" + authority)
	if err != nil {
		return "", "", err
	}
	host, err = carriedHost(u)
	return host, u.Port(), err
}
