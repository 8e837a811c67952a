package canon

import (
	"encoding/hex"
	"strings"
)

// Spell returns the spelling of ref, a reference in the answer to a request for base: the URL
// that a browser would request. It is written as the URL standard serializes it, without userinfo
// and fragment. Unlike the canonical form, it keeps all parameters and their order, the "?" of an
// empty query, escapes, and a dot at the end of the host. base is a spelling or a canonical URL.
// The error is an *Error.
func Spell(base, ref string) (string, error) {
	s := trim(ref)
	if len(s) > maxRef {
		return "", &Error{Ref: ref, Err: ErrTooLong}
	}
	u, err := parser.ParseRef(base, s)
	if err != nil {
		return "", &Error{Ref: ref, Err: ErrMalformed, Hint: err.Error()}
	}
	if !isHTTP(u.Scheme()) {
		return "", &Error{Ref: ref, Err: ErrScheme}
	}
	host, err := carriedHost(u)
	if err != nil {
		return "", &Error{Ref: ref, Err: ErrMalformed, Hint: err.Error()}
	}
	if name, _ := hex.DecodeString(strings.TrimPrefix(u.Hostname(), "x")); strings.HasSuffix(string(name), ".") && !isAddress(host) {
		host += "."
	}
	if port := u.Port(); port != "" {
		host += ":" + port
	}
	origin := u.Scheme() + "://"
	rest := strings.TrimPrefix(u.Href(true), origin)
	spelling := origin + host + rest[authorityLen(rest):]
	if len(spelling) > MaxBytes {
		return "", &Error{Ref: ref, Err: ErrTooLong}
	}
	return spelling, nil
}

// SpelledPath returns the path and the query of a spelling: the text that robots rules match.
func SpelledPath(spelling string) string {
	_, rest, _ := strings.Cut(spelling, "://")
	return rest[authorityLen(rest):]
}
