package canon

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// The fast path: one pass over the reference, no allocation but the result. It
// gives up (odd) on whatever needs the full standard: unusual hosts, userinfo,
// tabs and newlines inside, "http:" without "//". A fuzz target holds it to
// the slow path.

// outcome is what became of an attempt to resolve a reference.
type outcome uint8

const (
	resolved    outcome = iota
	odd                 // left to the slow path
	otherScheme         // neither http nor https
)

// builder writes a canonical URL.
type builder struct {
	c             *Canonicalizer
	buf           []byte
	hostEnd, path int
}

// resolve writes the canonical form of ref, which is trimmed, relative to base.
func (b *builder) resolve(base URL, ref string) outcome {
	if len(ref) > 4*MaxBytes {
		return odd // too long, or of another scheme: the slow path looks
	}
	if scheme, rest, found := cutScheme(ref); found {
		if !isHTTP(scheme) {
			return otherScheme
		}
		if len(rest) < 3 || !isSlash(rest[0]) || !isSlash(rest[1]) {
			return odd
		}
		b.buf = append(b.buf, "https"[:len(scheme)]...)
		return b.fromAuthority(base, rest[2:])
	}
	if base.IsZero() {
		return odd
	}
	b.hostEnd, b.path = int(base.hostEnd), int(base.path)
	switch {
	case ref == "" || ref[0] == '#':
		b.buf = append(b.buf, base.s...)
		return resolved
	case ref[0] == '?':
		b.buf = append(b.buf, base.withoutQuery()...)
		return b.query(ref[1:])
	case !isSlash(ref[0]):
		b.buf = append(b.buf, base.directory()...)
		return b.fromPath(ref)
	case len(ref) > 1 && isSlash(ref[1]):
		b.buf = append(b.buf, base.Scheme()...)
		return b.fromAuthority(base, ref[2:])
	default:
		b.buf = append(append(b.buf, base.Origin()...), '/')
		return b.fromPath(ref[1:])
	}
}

// fromAuthority writes "://", host, port and the rest; s begins with the host.
func (b *builder) fromAuthority(base URL, s string) outcome {
	secure := len(b.buf) == len("https")
	b.buf = append(b.buf, "://"...)
	host := len(b.buf)
	if same := base.authority(); same != "" && strings.HasPrefix(s, same) &&
		endsAuthority(s, len(same)) && secure == (base.Scheme() == "https") {
		b.buf = append(b.buf, same...)
		b.hostEnd = host + len(base.Host())
		s = s[len(same):]
	} else {
		n := 0
		for n < len(s) && hostByte[s[n]] != 0 {
			b.buf = append(b.buf, hostByte[s[n]])
			n++
		}
		b.hostEnd = len(b.buf)
		if !isPlainHost(b.buf[host:]) {
			return odd
		}
		s = s[n:]
		if s != "" && s[0] == ':' {
			if n = b.port(s[1:], secure); n < 0 {
				return odd
			}
			s = s[1+n:]
		}
		if !endsAuthority(s, 0) {
			return odd
		}
	}
	b.path = len(b.buf)
	b.buf = append(b.buf, '/')
	if s != "" && isSlash(s[0]) {
		s = s[1:]
	}
	return b.fromPath(s)
}

// port writes ":" and the digits that s begins with, unless they are the
// default or none, and returns how many there are; -1 for an odd port.
func (b *builder) port(s string, secure bool) int {
	n, port := 0, 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		port = 10*port + int(s[n]-'0')
		if n++; port > 65535 {
			return -1
		}
	}
	switch {
	case n > 1 && s[0] == '0':
		return -1
	case n > 0 && !(secure && port == 443) && !(!secure && port == 80):
		b.buf = append(append(b.buf, ':'), s[:n]...)
	}
	return n
}

// fromPath writes the rest of the path, s, with dot segments resolved, and the
// query; it stops at the fragment.
func (b *builder) fromPath(s string) outcome {
	for start, i := len(b.buf), 0; ; i++ {
		var ended bool
		if i, ended = b.segment(s, i); !ended {
			return odd
		}
		slash := i < len(s) && isSlash(s[i])
		start = b.endSegment(start, slash)
		switch {
		case slash:
		case i < len(s) && s[i] == '?':
			return b.query(s[i+1:])
		default:
			return resolved
		}
	}
}

// segment writes a path segment of s from i on, and returns where it ended;
// false: on a byte that the fast path does not know.
func (b *builder) segment(s string, i int) (end int, ended bool) {
	for i < len(s) {
		start := i
		for i < len(s) && pathByte[s[i]] == keep {
			i++
		}
		b.buf = append(b.buf, s[start:i]...)
		if i == len(s) {
			break
		}
		switch pathByte[s[i]] {
		case escape:
			i = b.escape(s, i)
		case percent:
			i = b.percent(s, i)
		case stop:
			return i, true
		default:
			return i, false
		}
	}
	return i, true
}

// endSegment resolves the segment b.buf[segment:] if it is a dot segment, else
// strips its parameters, and writes the slash after it. It returns where the
// next segment begins. Escaped dots are plain ones by now.
func (b *builder) endSegment(segment int, slash bool) int {
	switch last := b.buf[segment:]; {
	case isDots(last, 1):
		b.buf = b.buf[:segment]
	case isDots(last, 2):
		b.buf = b.buf[:segment]
		if parent := b.buf[b.path : segment-1]; len(parent) > 0 { // else it is the root
			b.buf = b.buf[:b.path+lastSlash(parent)+1]
		}
	default:
		b.buf = b.c.strip.pathParams(b.buf, segment)
		if slash {
			b.buf = append(b.buf, '/')
		}
	}
	return len(b.buf)
}

// query writes "?" and the query s, up to its fragment; nothing if it is empty.
func (b *builder) query(s string) outcome {
	mark := len(b.buf)
	b.buf = append(b.buf, '?')
scan:
	for i := 0; i < len(s); {
		start := i
		for i < len(s) && queryByte[s[i]] == keep {
			i++
		}
		b.buf = append(b.buf, s[start:i]...)
		if i == len(s) {
			break
		}
		switch queryByte[s[i]] {
		case escape:
			i = b.escape(s, i)
		case percent:
			i = b.percent(s, i)
		case stop:
			break scan
		default:
			return odd
		}
	}
	b.buf = b.c.strip.queryParams(b.buf, mark+1)
	if b.c.sort {
		sortQuery(b.buf[mark+1:])
	}
	if len(b.buf) == mark+1 {
		b.buf = b.buf[:mark]
	}
	return resolved
}

const upperHex = "0123456789ABCDEF"

// escape writes the character at s[i], escaped, and returns where it ends.
func (b *builder) escape(s string, i int) int {
	r, size := utf8.DecodeRuneInString(s[i:])
	if r == utf8.RuneError { // also for a byte that is not UTF-8
		b.buf = append(b.buf, "%EF%BF%BD"...)
		return i + size
	}
	for _, c := range []byte(s[i : i+size]) {
		b.buf = append(b.buf, '%', upperHex[c>>4], upperHex[c&15])
	}
	return i + size
}

// percent writes the escape at s[i], a '%', and returns where it ends.
func (b *builder) percent(s string, i int) int {
	if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
		b.buf = append(b.buf, "%25"...)
		return i + 1
	}
	c := unhex(s[i+1])<<4 | unhex(s[i+2])
	if isUnreserved(c) {
		b.buf = append(b.buf, c)
	} else {
		b.buf = append(b.buf, '%', upperHex[c>>4], upperHex[c&15])
	}
	return i + 3
}

// url returns what was written as a URL. ref, if it is already canonical, is
// shared, not copied.
func (b *builder) url(ref string) (URL, error) {
	if len(b.buf) > MaxBytes {
		return URL{}, &Error{Ref: ref, Err: ErrTooLong}
	}
	u := URL{hostEnd: uint16(b.hostEnd), path: uint16(b.path)}
	if string(b.buf) == ref {
		u.s = ref
	} else {
		u.s = string(b.buf)
	}
	return u, nil
}

// sortQuery sorts the parameters of query in place, by name.
func sortQuery(query []byte) {
	if !slices.Contains(query, '&') {
		return
	}
	params := strings.Split(string(query), "&")
	slices.SortStableFunc(params, func(x, y string) int {
		x, _, _ = strings.Cut(x, "=")
		y, _, _ = strings.Cut(y, "=")
		return strings.Compare(x, y)
	})
	copy(query, strings.Join(params, "&"))
}
