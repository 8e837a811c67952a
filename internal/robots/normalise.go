package robots

import "strings"

// normalisePath brings a path with its query to the form in which patterns are
// compared (RFC 9309, 2.2.2): escapes of unreserved characters undone, what no
// URL contains escaped, hex digits in upper case; and * and $ escaped, which a
// pattern cannot name otherwise (2.2.3).
func normalisePath(path string) string { return normalise(path, true) }

// normalisePattern brings the pattern of a rule to that form. A $ at its end is
// the anchor and stays; any other is a character like those around it.
func normalisePattern(pattern string) string {
	pattern, end := strings.CutSuffix(pattern, "$")
	pattern = normalise(pattern, false)
	pattern = foldQuery(strings.ReplaceAll(pattern, "$", "%24"))
	if end {
		pattern += "$"
	}
	return pattern
}

const upperHex = "0123456789ABCDEF"

// normalise is normalisePath; unless special, * and $ stay as they are.
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
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		case inPatterns:
			if special {
				b = append(b, '%', upperHex[c>>4], upperHex[c&15])
			} else {
				b = append(b, c)
			}
		case percent:
			v, ok := unhex(s[i+1:])
			switch {
			case !ok:
				b = append(b, c)
				continue
			case unreserved(v):
				b = append(b, v)
			default:
				b = append(b, '%', upperHex[v>>4], upperHex[v&15])
			}
			i += 2
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

// foldQuery undoes, after the first ?, the escapes of characters that need
// none there: RFC 9309 wants ?u=https://x and ?u=https%3A%2F%2Fx to match.
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

// unreserved is RFC 3986's: never in need of an escape.
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}

// unhex reads the two hex digits that s starts with.
func unhex(s string) (v byte, ok bool) {
	if len(s) < 2 {
		return 0, false
	}
	high, low := hexDigit(s[0]), hexDigit(s[1])
	return high<<4 | low, high < 16 && low < 16
}

// hexDigit returns the value of c, 16 if it has none.
func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}
