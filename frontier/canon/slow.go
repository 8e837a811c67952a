package canon

import (
	"strings"

	"github.com/nlnwa/whatwg-url/errors"
	"github.com/nlnwa/whatwg-url/url"
)

// parser is a parser of the WHATWG standard that does not change hosts: see
// carryName. It is safe for concurrent use.
var parser = url.NewParser(url.WithPreParseHostFunc(carryName))

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
