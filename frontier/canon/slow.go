package canon

import (
	"strings"

	"github.com/nlnwa/whatwg-url/errors"
	"github.com/nlnwa/whatwg-url/url"
)

// rules are how a version of the form reads hosts: versions differ in nothing else.
type rules struct {
	parser      url.Parser // of the WHATWG standard; it is safe for concurrent use
	http, https *url.Url   // see emptyBase
	plainACE    bool       // a label that begins with "xn--" is canonical as it stands

	// name returns the canonical form of a name that isPlain does not know.
	// false: it is left to the slow path.
	name func(name string) (host string, done bool)
	// host returns the canonical host of u, which parser made of ref and base.
	host func(u *url.Url, base URL, ref string) (string, error)
}

// newRules returns r with a parser that changes hosts by prepare before it reads
// them.
func newRules(prepare func(*url.Url, string) string, r rules) *rules {
	r.parser = url.NewParser(url.WithPreParseHostFunc(prepare))
	r.http, r.https = emptyBase(r.parser, "http"), emptyBase(r.parser, "https")
	return &r
}

// emptyBase returns a base for "//authority": three times as fast as with the
// scheme in front, which the parser compares by cloning three bit sets a byte.
func emptyBase(parser url.Parser, scheme string) *url.Url {
	u, err := parser.Parse(scheme + "://h/")
	if err != nil {
		panic(err)
	}
	u.SearchParams() // made on first use, which would be a write by concurrent readers
	return u
}

// isPlain reports whether host is canonical as it stands; see isPlainHost.
func (r *rules) isPlain(host []byte) bool {
	return isPlainHost(host) && (r.plainACE || !hasACE(host))
}

// refuseBrackets makes the parser fail on "[[::1]]", which it would accept.
func refuseBrackets(_ *url.Url, host string) string {
	if len(host) > 2 && host[0] == '[' && strings.ContainsAny(host[1:len(host)-1], "[]") {
		return "["
	}
	return host
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
	u, err := c.rules.parser.ParseRef(base.s, s)
	if err != nil {
		return URL{}, &Error{Ref: ref, Err: ErrMalformed, Hint: string(errors.Type(err))}
	}
	if !isHTTP(u.Scheme()) {
		return URL{}, &Error{Ref: ref, Err: ErrScheme}
	}
	host, err := c.rules.host(u, base, s)
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

// authority returns canonical host and port of an authority that is not plain:
// with userinfo, escapes, an IPv6 address.
func (r *rules) authority(scheme, authority string) (host, port string, err error) {
	base := r.http
	if scheme == "https" {
		base = r.https
	}
	u, err := base.Parse("//" + authority)
	if err != nil {
		return "", "", err
	}
	host, err = r.host(u, URL{}, "http://"+authority)
	return host, u.Port(), err
}
