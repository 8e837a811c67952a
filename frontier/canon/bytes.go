package canon

import (
	"bytes"
	"net/netip"
	"strings"
	"unicode/utf8"
)

// Classes of bytes in a path or a query.
const (
	keep    = iota
	escape  // percent-encode
	percent // '%'
	stop    // ends the segment or the query
	unknown // tab, CR, LF: joinSlow removes them
)

// pathByte and queryByte classify bytes as the package comment says. hostByte
// maps each byte of a plain host to its canonical form, and every other byte to
// 0.
var pathByte, queryByte, hostByte = classify()

func classify() (path, query, host [256]byte) {
	for i := range 256 {
		switch c := byte(i); {
		case c == '\t' || c == '\n' || c == '\r':
			path[i], query[i] = unknown, unknown
		case c <= ' ' || c >= 0x7f:
			path[i], query[i] = escape, escape
		case c == '%':
			path[i], query[i] = percent, percent
		default:
			path[i] = oneOf(c, "\"<>^`{|}", escape) + oneOf(c, "/\\?#", stop)
			query[i] = oneOf(c, "\"'<>", escape) + oneOf(c, "#", stop)
			if c == '.' || c == '-' || c == '_' || isAlphanumeric(c) {
				host[i] = lower(c)
			}
		}
	}
	return path, query, host
}

func oneOf(c byte, set string, class byte) byte {
	if strings.IndexByte(set, c) < 0 {
		return keep
	}
	return class
}

// trim removes the white space and control characters around a reference.
func trim(s string) string {
	for s != "" && s[0] <= ' ' {
		s = s[1:]
	}
	for s != "" && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	return s
}

// cutScheme splits "scheme:rest".
func cutScheme(s string) (scheme, rest string, found bool) {
	if s == "" || !isAlpha(s[0]) {
		return "", s, false
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == ':':
			return s[:i], s[i+1:], true
		case !isAlphanumeric(c) && c != '+' && c != '-' && c != '.':
			return "", s, false
		}
	}
	return "", s, false
}

func isHTTP(scheme string) bool {
	return (len(scheme) == 4 || len(scheme) == 5) && strings.EqualFold(scheme, "https"[:len(scheme)])
}

// endsAuthority reports whether an authority ends where s begins.
func endsAuthority(s string) bool {
	return s == "" || isSlash(s[0]) || s[0] == '?' || s[0] == '#'
}

// authorityLen returns the length of the authority at the beginning of s.
func authorityLen(s string) int {
	if n := strings.IndexAny(s, "/\\?#"); n >= 0 {
		return n
	}
	return len(s)
}

// isPlainHost reports whether host is canonical already: a dotted quad, or a name
// that is possible in DNS and that no parser reads as a number. host is in lower
// case and consists of letters, digits, '-', '_' and '.'.
func isPlainHost(host []byte) bool {
	if !isResolvable(host) {
		return false
	}
	last := host[bytes.LastIndexByte(host, '.')+1:]
	if !isAlpha(last[0]) {
		addr, err := netip.ParseAddr(string(host))
		return err == nil && addr.Is4()
	}
	return true
}

// isResolvable reports whether host is within the length limits of DNS.
func isResolvable[S string | []byte](host S) bool {
	label := 0
	for i := range len(host) {
		if host[i] != '.' {
			label++
			continue
		}
		if label == 0 || label > 63 {
			return false
		}
		label = 0
	}
	return label > 0 && label <= 63 && len(host) <= 253
}

// isAddress reports whether a canonical host is an IP address.
func isAddress(host string) bool {
	if host == "" || host[0] == '[' {
		return host != ""
	}
	last := host[len(host)-1]
	return '0' <= last && last <= '9' && strings.Trim(host, ".0123456789") == ""
}

func isDots(segment []byte, n int) bool {
	return len(segment) == n && segment[0] == '.' && segment[n-1] == '.'
}

func isSlash(c byte) bool { return c == '/' || c == '\\' }

func isAlpha(c byte) bool { return 'a' <= lower(c) && lower(c) <= 'z' }

func isAlphanumeric(c byte) bool { return isAlpha(c) || '0' <= c && c <= '9' }

func isUnreserved(c byte) bool {
	return isAlphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~'
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= lower(c) && lower(c) <= 'f' }

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return lower(c) - 'a' + 10
}

// lower returns the lower case of an ASCII letter, and c otherwise.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}
