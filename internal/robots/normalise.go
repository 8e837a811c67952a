package robots

import (
	"strconv"
	"strings"
)

// normalisePath returns a path with its query in the form in which it is compared with
// patterns (RFC 9309, 2.2.2). It undoes the escapes of unreserved characters, escapes
// characters that a URL cannot contain, and makes hex digits upper case. It also escapes
// * and $. In a pattern, these characters are special, and their escapes stand for the
// characters themselves (2.2.3).
func normalisePath(path string) string { return normalise(path, true) }

// normalisePattern returns the pattern of a rule in the form of normalisePath. A * stays
// as it is, and so does a $ at the end, because it is the anchor. Any other $ is an
// ordinary character and is escaped.
func normalisePattern(pattern string) string {
	pattern, end := strings.CutSuffix(pattern, "$")
	pattern = normalise(pattern, false)
	pattern = foldQuery(strings.ReplaceAll(pattern, "$", "%24"))
	if end {
		pattern += "$"
	}
	return pattern
}

func appendEscape(b []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(b, '%', digits[c>>4], digits[c&15])
}

// normalise does what normalisePath does. It escapes * and $ only if special is set.
func normalise(s string, special bool) string {
	clean := 0
	for clean < len(s) && byteClass[s[clean]] == asIs {
		clean++
	}
	if clean == len(s) {
		return s
	}
	b := make([]byte, clean, len(s)+16)
	copy(b, s)
	for i := clean; i < len(s); i++ {
		c := s[i]
		switch byteClass[c] {
		case escaped:
			b = appendEscape(b, c)
		case inPatterns:
			if !special {
				b = append(b, c)
				continue
			}
			b = appendEscape(b, c)
		case percent:
			v, ok := unhex(s[i+1:])
			switch {
			case !ok:
				b = append(b, c)
				continue
			case unreserved(v):
				b = append(b, v)
			default:
				b = appendEscape(b, v)
			}
			i += 2
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

// foldQuery undoes the escapes of characters that need no escape in a query. It changes only
// the query of s, which begins with the first question mark. According to RFC 9309,
// ?u=https://x and ?u=https%3A%2F%2Fx match.
func foldQuery(s string) string {
	query := strings.IndexByte(s, '?')
	if query < 0 || !strings.Contains(s[query:], "%") {
		return s
	}
	b := make([]byte, 0, len(s))
	b = append(b, s[:query]...)
	for i := query; i < len(s); i++ {
		if s[i] == '%' {
			if v, ok := unhex(s[i+1:]); ok && strings.IndexByte(":/?[]@", v) >= 0 {
				b = append(b, v)
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

const (
	asIs = iota
	escaped
	inPatterns
	percent
)

// byteClass says what normalise does with a byte.
var byteClass = func() (class [256]uint8) {
	for c := range class {
		switch {
		case c <= ' ', c >= 0x7f, strings.IndexByte("\"<>\\^`{|}#", byte(c)) >= 0:
			class[c] = escaped
		case c == '*', c == '$':
			class[c] = inPatterns
		case c == '%':
			class[c] = percent
		}
	}
	return class
}()

// unreserved reports whether c is unreserved in RFC 3986, so that it never needs an escape.
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}

// unhex decodes the two hex digits with which s begins.
func unhex(s string) (v byte, ok bool) {
	if len(s) < 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(s[:2], 16, 8)
	return byte(n), err == nil
}
