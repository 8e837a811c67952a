package canon

import "strings"

// URL is a canonical URL. The zero URL means that there is no URL. Two URLs are
// equal (==) exactly if their strings are equal.
type URL struct {
	s       string
	hostEnd uint16 // offset in s of the end of the host
	path    uint16 // offset in s of the path
}

// String returns the URL.
func (u URL) String() string { return u.s }

// IsZero reports whether u is the zero URL.
func (u URL) IsZero() bool { return u.s == "" }

// Scheme returns "http" or "https".
func (u URL) Scheme() string { return u.s[:max(0, u.host()-len("://"))] }

// Host returns the host name without port; an IPv6 address is in brackets.
func (u URL) Host() string { return u.s[u.host():u.hostEnd] }

// Port returns the port, or "" if it is the scheme's default.
func (u URL) Port() string {
	if u.hostEnd == u.path {
		return ""
	}
	return u.s[u.hostEnd+1 : u.path]
}

// Origin returns scheme, host and port, as in "https://example.org:8443". A
// robots.txt file applies to one origin.
func (u URL) Origin() string { return u.s[:u.path] }

// Path returns path and query. They are the request target and the text that
// robots rules match. Path begins with "/".
func (u URL) Path() string { return u.s[u.path:] }

// url returns the URL that b appended to buf. If buf and ref are equal, the URL uses the
// string ref instead of a copy of buf.
func (b *builder) url(buf []byte, ref string) (URL, error) {
	if len(buf) > MaxBytes {
		return URL{}, &Error{Ref: ref, Err: ErrTooLong}
	}
	u := URL{s: ref, hostEnd: uint16(b.hostEnd), path: uint16(b.path)}
	if string(buf) != ref {
		u.s = string(buf)
	}
	return u, nil
}

// host returns the offset in s of the host.
func (u URL) host() int {
	switch {
	case u.s == "":
		return 0
	case u.s[len("http")] == 's':
		return len("https://")
	default:
		return len("http://")
	}
}

// authority returns host and port, as they are in the URL.
func (u URL) authority() string { return u.s[u.host():u.path] }

// directory returns the URL up to and including the last "/" of its path.
func (u URL) directory() string {
	s := u.withoutQuery()
	return s[:strings.LastIndexByte(s, '/')+1]
}

func (u URL) withoutQuery() string {
	if i := strings.IndexByte(u.s[u.path:], '?'); i >= 0 {
		return u.s[:int(u.path)+i]
	}
	return u.s
}
