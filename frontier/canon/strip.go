package canon

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// DefaultStrip returns the patterns of the parameters that are removed by default:
// parameters that track campaigns and clicks, and session ids.
//
// A pattern is a parameter's name, in upper or lower case. "utm_*" matches every
// name that begins with "utm_". "sid=16" matches sid only if its value has the form of a
// session id of 16 bytes or more (see isID), because other sites use the same name for
// articles or for talks. If these values were removed, all articles of such a site would
// have the same URL. Names that only one program uses need no such condition.
func DefaultStrip() []string {
	return []string{
		"utm_*", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "fbclid", "msclkid",
		"yclid", "ysclid", "twclid", "ttclid", "igshid", "mc_cid", "mc_eid", "_ga", "_gl",
		"_hsenc", "_hsmi", "mkt_tok",
		"phpsessid", "jsessionid", "aspsessionid*", "cfid", "cftoken", "oscsid", "zenid", "xtcsid",
		"sid=16", "sessid=16", "session=16", "sessionid=16", "session_id=16", "s=32",
	}
}

// StripList returns Options.StripParams for the names that a user gives: they are added to DefaultStrip, and
// "-" turns DefaultStrip off.
func StripList(names []string) []string {
	strip := DefaultStrip()
	if slices.Contains(names, "-") {
		strip = []string{}
	}
	for _, name := range names {
		if name != "-" {
			strip = append(strip, name)
		}
	}
	return strip
}

// pattern matches parameters by name, and by the form of their value.
type pattern struct {
	name     string // lower case
	prefix   bool   // match every parameter that begins with name
	minValue int    // the least number of bytes of the value, which must be an id; 0 means any value
}

// stripList says which parameters are removed.
type stripList struct {
	strip, keep []pattern
	first       [256]bool // first bytes of names that strip could match
}

func newStripList(strip, keep []string) (stripList, error) {
	var (
		l    stripList
		errs []error
	)
	parse := func(field string, list []string) (patterns []pattern) {
		for _, s := range list {
			p, err := parsePattern(s)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s has %q: %w", field, s, err))
			}
			patterns = append(patterns, p)
		}
		return patterns
	}
	l.strip, l.keep = parse("StripParams", strip), parse("KeepParams", keep)
	for _, p := range l.strip {
		for c := range 256 {
			if p.name == "" || p.name[0] == lower(byte(c)) {
				l.first[c] = true
			}
		}
	}
	return l, errors.Join(errs...)
}

func parsePattern(s string) (p pattern, err error) {
	name, length, limited := strings.Cut(s, "=")
	if limited {
		p.minValue, err = strconv.Atoi(length)
		if err != nil || p.minValue < 1 {
			return p, errors.New("want a number of bytes after =")
		}
	}
	p.name, p.prefix = strings.CutSuffix(strings.ToLower(name), "*")
	if p.name == "" && !p.prefix {
		return p, errors.New("want a name")
	}
	if strings.ContainsAny(p.name, "*&;/?#") {
		return p, errors.New("want a name, * only at its end")
	}
	return p, nil
}

// removes reports whether l removes param, which is "name" or "name=value".
func (l *stripList) removes(param []byte) bool {
	if len(param) == 0 || !l.first[param[0]] {
		return false
	}
	name, value, _ := bytes.Cut(param, []byte{'='})
	return matchAny(l.strip, name, value) && !matchAny(l.keep, name, value)
}

func matchAny(patterns []pattern, name, value []byte) bool {
	for i := range patterns {
		p := &patterns[i]
		if len(name) < len(p.name) || !p.prefix && len(name) > len(p.name) || p.minValue > 0 && !isID(value, p.minValue) {
			continue
		}
		if equalLower(name[:len(p.name)], p.name) {
			return true
		}
	}
	return false
}

// isID reports whether a value has the form of a random id of at least n bytes. Ids are
// hexadecimal or decimal numbers (also with hyphens, as in a UUID), or change so often
// between letters and digits, or between upper and lower case, as words do not.
func isID(value []byte, n int) bool {
	if len(value) < n {
		return false
	}
	isNumber, hasDigit := true, false
	mixed, changes := 0, 0 // number of changes between letters and digits, and of all changes
	before := kindOther
	for _, c := range value {
		kind := kindOf(c)
		if kind == kindOther && bytes.IndexByte([]byte("-_.,!~"), c) < 0 {
			return false
		}
		isNumber = isNumber && (isHex(c) || c == '-')
		hasDigit = hasDigit || kind == kindDigit
		if kind != before && kind != kindOther && before != kindOther {
			changes++
			if kind == kindDigit || before == kindDigit {
				mixed++
			}
		}
		before = kind
	}
	return isNumber && hasDigit || 4*mixed >= len(value) || 2*changes >= len(value)
}

// The kinds of characters of an id.
const (
	kindOther = iota
	kindDigit
	kindLower
	kindUpper
)

func kindOf(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return kindDigit
	case c >= 'a' && c <= 'z':
		return kindLower
	case c >= 'A' && c <= 'Z':
		return kindUpper
	}
	return kindOther
}

// equalLower reports whether the lower case of name is equal to want.
func equalLower(name []byte, want string) bool {
	for i, c := range name {
		if lower(c) != want[i] {
			return false
		}
	}
	return true
}

// queryParams removes parameters from the query buf[start:].
func (l *stripList) queryParams(buf []byte, start int) []byte {
	buf, _ = l.filter(buf, start, '&')
	return buf
}

// pathParams removes parameters from the path segment buf[start:]. The parameters
// begin after its first ';'. pathParams does not change a segment that would
// become the dot segment "." or "..".
func (l *stripList) pathParams(buf []byte, start int) []byte {
	n := bytes.IndexByte(buf[start:], ';')
	if n < 0 || isDots(buf[start:start+n], 1) || isDots(buf[start:start+n], 2) {
		return buf
	}
	rest, kept := l.filter(buf, start+n+1, ';')
	if kept == 0 {
		return buf[:start+n]
	}
	return rest
}

// filter removes parameters from buf[start:], in which separator divides the
// parameters, and returns how many it kept.
func (l *stripList) filter(buf []byte, start int, separator byte) (rest []byte, kept int) {
	end := start // the end of the kept parameters
	for from := start; from <= len(buf); {
		to := len(buf)
		if n := bytes.IndexByte(buf[from:], separator); n >= 0 {
			to = from + n
		}
		if param := buf[from:to]; !l.removes(param) {
			if kept > 0 {
				buf[end] = separator
				end++
			}
			end += copy(buf[end:], param)
			kept++
		}
		from = to + 1
	}
	return buf[:end], kept
}
