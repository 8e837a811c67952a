package canon

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// DefaultStrip returns the parameters that are removed unless the user says
// otherwise: marks of campaigns and clicks, and session ids.
//
// A pattern is a parameter's name, whatever its case. "utm_*" stands for every
// name that begins with "utm_". "sid=16" removes sid only when its value has 16
// bytes or more: some sites number their articles so, and dropping a short sid
// would merge them.
func DefaultStrip() []string {
	return []string{
		"utm_*", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "fbclid", "msclkid",
		"yclid", "ysclid", "twclid", "ttclid", "igshid", "mc_cid", "mc_eid", "_ga", "_gl",
		"_hsenc", "_hsmi", "mkt_tok",
		"phpsessid", "jsessionid", "aspsessionid*", "cfid", "cftoken", "sessionid",
		"session_id", "oscsid", "zenid", "sid=16",
	}
}

// pattern matches parameters by name, and by the length of their value.
type pattern struct {
	name     string // lower case
	prefix   bool   // matches what begins with name
	minValue int    // bytes of the value, at least
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

// removes reports whether param, "name" or "name=value", is to go.
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
		if len(name) < len(p.name) || !p.prefix && len(name) > len(p.name) || len(value) < p.minValue {
			continue
		}
		if equalLower(name[:len(p.name)], p.name) {
			return true
		}
	}
	return false
}

// equalLower reports whether the lower case of name is want.
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

// pathParams removes parameters from the path segment buf[start:]: all that
// follows its first ';' are parameters. A segment that would become "." or
// ".." is left alone, because it would turn into a dot segment.
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

// filter removes parameters from buf[start:], where separator divides them, and
// returns how many it kept.
func (l *stripList) filter(buf []byte, start int, separator byte) (rest []byte, kept int) {
	end := start // of what is kept
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
