package canon

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// This file is the fast path of Join: one pass over the reference appends the canonical
// form to a buffer on the caller's stack. The fast path returns tooOdd for rare
// references, such as those with tabs or newlines inside, with "http:" but without
// "//", or with an empty or malformed host. Join leaves these references to the slow
// path, which is the method joinSlow. Fuzz targets compare the two paths.
//
// The functions of this file take the buffer and return it, as append does, because a
// buffer stored through a pointer would be moved to the heap.

// outcome is the result of an attempt to resolve a reference.
type outcome uint8

const (
	resolved    outcome = iota
	tooOdd              // left to the slow path
	otherScheme         // neither http nor https
)

// builder appends one canonical URL to a buffer.
type builder struct {
	c             *Canonicalizer
	hostEnd, path int // offsets in the buffer: the end of the host, the start of the path
}

// resolve appends the canonical form of ref, relative to base. ref is trimmed.
func (b *builder) resolve(buf []byte, base URL, ref string) ([]byte, outcome) {
	if scheme, rest, found := cutScheme(ref); found {
		switch {
		case !isHTTP(scheme):
			return buf, otherScheme
		case len(rest) < 3 || !isSlash(rest[0]) || !isSlash(rest[1]) || len(ref) > maxRef:
			return buf, tooOdd
		}
		return b.appendAuthority(append(buf, "https"[:len(scheme)]...), base, rest[2:])
	}
	if base.IsZero() || len(ref) > maxRef {
		return buf, tooOdd
	}
	b.hostEnd, b.path = int(base.hostEnd), int(base.path)
	switch {
	case ref == "" || ref[0] == '#':
		return append(buf, base.s...), resolved
	case ref[0] == '?':
		return b.appendQuery(append(buf, base.withoutQuery()...), ref[1:])
	case !isSlash(ref[0]):
		return b.appendPath(append(buf, base.directory()...), ref)
	case len(ref) > 1 && isSlash(ref[1]):
		return b.appendAuthority(append(buf, base.Scheme()...), base, ref[2:])
	default:
		buf = append(append(buf, base.Origin()...), '/')
		return b.appendPath(buf, ref[1:])
	}
}

// appendAuthority appends "://", host, port, path and query to buf, which holds
// the scheme. s begins with the authority.
func (b *builder) appendAuthority(buf []byte, base URL, s string) ([]byte, outcome) {
	scheme := string(buf) // "http" or "https"
	buf = append(buf, "://"...)
	host, done := len(buf), false
	if same := base.authority(); same != "" && strings.HasPrefix(s, same) &&
		endsAuthority(s[len(same):]) && scheme == base.Scheme() {
		buf = append(buf, same...)
		b.hostEnd = host + len(base.Host())
		s = s[len(same):]
	} else if buf, s, done = b.appendPlain(buf, scheme, s); !done {
		text := s[:authorityLen(s)]
		h, port, err := parseAuthority(scheme, text)
		if err != nil || text[len(text)-1] <= ' ' { // parseAuthority would trim a space at the end
			return buf, tooOdd
		}
		buf = append(buf[:host], h...)
		b.hostEnd = len(buf)
		if port != "" {
			buf = append(append(buf, ':'), port...)
		}
		s = s[len(text):]
	}
	b.path = len(buf)
	if s != "" && isSlash(s[0]) {
		s = s[1:]
	}
	return b.appendPath(append(buf, '/'), s)
}

// appendPlain appends host and port of the authority at the start of s. rest is the text
// after them. plain is false if the authority has userinfo, an unusual port, a host that
// parseName refuses, or a host with ASCII characters other than letters, digits, '-', '_'
// and '.'. In this case rest is s, and the caller must drop the bytes that were appended.
func (b *builder) appendPlain(buf []byte, scheme, s string) (_ []byte, rest string, plain bool) {
	host, i := len(buf), 0
	for i < len(s) && hostByte[s[i]] != 0 {
		buf = append(buf, hostByte[s[i]])
		i++
	}
	if i < len(s) && s[i] >= utf8.RuneSelf || !isPlainHost(buf[host:]) {
		i = nameLen(s)
		name, err := parseName(s[:i])
		if err != nil {
			return buf, s, false
		}
		buf = append(buf[:host], name...)
	}
	b.hostEnd = len(buf)
	if i < len(s) && s[i] == ':' {
		n, port := 0, 0
		for i++; i+n < len(s) && '0' <= s[i+n] && s[i+n] <= '9' && n < len("65535"); n++ {
			port = 10*port + int(s[i+n]-'0')
		}
		if port > 65535 || n > 1 && s[i] == '0' {
			return buf, s, false
		}
		if n > 0 && !(port == 80 && scheme == "http") && !(port == 443 && scheme == "https") {
			buf = append(append(buf, ':'), s[i:i+n]...)
		}
		i += n
	}
	if !endsAuthority(s[i:]) {
		return buf, s, false
	}
	return buf, s[i:], true
}

// appendPath appends the path and the query that s begins with, and resolves the dot
// segments of the path. It stops at the fragment. buf must end with a "/" of the path.
func (b *builder) appendPath(buf []byte, s string) ([]byte, outcome) {
	for start, i := len(buf), 0; ; i++ {
		var ended bool
		if buf, i, ended = appendSegment(buf, s, i); !ended {
			return buf, tooOdd
		}
		slash := i < len(s) && isSlash(s[i])
		buf = b.endSegment(buf, start, slash)
		start = len(buf)
		switch {
		case slash:
		case i < len(s) && s[i] == '?':
			return b.appendQuery(buf, s[i+1:])
		default:
			return buf, resolved
		}
	}
}

// appendSegment appends the path segment that begins at s[i], and returns the
// offset of its end. ended is false if the segment has a byte that only the slow
// path handles.
func appendSegment(buf []byte, s string, i int) (_ []byte, end int, ended bool) {
	for {
		start := i
		for i < len(s) && pathByte[s[i]] == keep {
			i++
		}
		buf = append(buf, s[start:i]...)
		if i == len(s) || pathByte[s[i]] == stop {
			return buf, i, true
		}
		switch pathByte[s[i]] {
		case escape:
			buf, i = appendEscaped(buf, s, i)
		case percent:
			buf, i = appendPercent(buf, s, i)
		default:
			return buf, i, false
		}
	}
}

// endSegment resolves the segment buf[start:] if it is a dot segment. Otherwise it
// strips the segment's parameters and appends a slash if slash is true. Escaped
// dots are already unescaped.
func (b *builder) endSegment(buf []byte, start int, slash bool) []byte {
	switch segment := buf[start:]; {
	case isDots(segment, 1):
		return buf[:start]
	case isDots(segment, 2):
		parent := buf[b.path : start-1]
		if len(parent) == 0 { // the root is its own parent
			return buf[:start]
		}
		return buf[:b.path+bytes.LastIndexByte(parent, '/')+1]
	}
	buf = b.c.strip.pathParams(buf, start)
	if slash {
		buf = append(buf, '/')
	}
	return buf
}

// appendQuery appends "?" and the query s without its fragment. It appends nothing
// if s is empty or all its parameters are stripped.
func (b *builder) appendQuery(buf []byte, s string) ([]byte, outcome) {
	mark := len(buf)
	buf = append(buf, '?')
	for i := 0; ; {
		start := i
		for i < len(s) && queryByte[s[i]] == keep {
			i++
		}
		buf = append(buf, s[start:i]...)
		if i == len(s) || queryByte[s[i]] == stop {
			break
		}
		switch queryByte[s[i]] {
		case escape:
			buf, i = appendEscaped(buf, s, i)
		case percent:
			buf, i = appendPercent(buf, s, i)
		default:
			return buf, tooOdd
		}
	}
	buf = b.c.strip.queryParams(buf, mark+1)
	if b.c.sort {
		sortQuery(buf[mark+1:])
	}
	if len(buf) == mark+1 {
		buf = buf[:mark]
	}
	return buf, resolved
}

const upperHex = "0123456789ABCDEF"

// appendEscaped appends the character at s[i], escaped, and returns the offset of
// its end in s.
func appendEscaped(buf []byte, s string, i int) ([]byte, int) {
	r, size := utf8.DecodeRuneInString(s[i:])
	if r == utf8.RuneError { // also for a byte that is not UTF-8
		return append(buf, "%EF%BF%BD"...), i + size
	}
	for _, c := range []byte(s[i : i+size]) {
		buf = append(buf, '%', upperHex[c>>4], upperHex[c&15])
	}
	return buf, i + size
}

// appendPercent appends the escape at s[i], which is a '%', and returns the offset
// of its end in s.
func appendPercent(buf []byte, s string, i int) ([]byte, int) {
	if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
		return append(buf, "%25"...), i + 1
	}
	c := unhex(s[i+1])<<4 | unhex(s[i+2])
	if isUnreserved(c) {
		return append(buf, c), i + 3
	}
	return append(buf, '%', upperHex[c>>4], upperHex[c&15]), i + 3
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
