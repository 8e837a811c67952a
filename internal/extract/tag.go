package extract

import (
	"bytes"

	"golang.org/x/net/html/atom"
)

// This file has the grammar of a tag, as html.Tokenizer reads it.

// tagName returns the name of a tag such as "<a href=x>", or 0 if the name is unknown. It
// avoids the copy that the tokenizer makes of every name.
func tagName(tag []byte) atom.Atom {
	name := tag[1:skipTo(tag, 1, afterName)]
	if hasUpper(name) {
		name = lower(name)
	}
	return atom.Lookup(name)
}

// attributeName returns the name of an attribute in lower case. It returns "" if the type
// collector does not read this attribute of any element.
func attributeName(key []byte) string {
	if hasUpper(key) {
		key = lower(key)
	}
	return readAttributes[string(key)]
}

// readAttributes are the names of the attributes that the type collector reads.
var readAttributes = map[string]string{
	"href": "href", "src": "src", "rel": "rel", "name": "name", "content": "content", "http-equiv": "http-equiv",
	"type": "type", "srcset": "srcset", "imagesrcset": "imagesrcset", "poster": "poster", "data": "data",
	"background": "background", "xlink:href": "xlink:href", "charset": "charset",
	"data-src": "data-src", "data-lazy-src": "data-lazy-src", "data-original": "data-original", "data-src-retina": "data-src-retina",
	"data-echo": "data-echo", "data-cfsrc": "data-cfsrc", "data-lazy": "data-lazy", "data-lazyload": "data-lazyload",
	"data-flickity-lazyload": "data-flickity-lazyload", "data-flickity-lazyload-src": "data-flickity-lazyload-src", "data-srcset": "data-srcset", "data-lazy-srcset": "data-lazy-srcset",
	"data-flickity-lazyload-srcset": "data-flickity-lazyload-srcset", "data-poster": "data-poster",
}

// scanTag returns the length of the tag that b begins with, and the number of its
// attributes. Attributes with the same name are all counted. If the tag does not end, the
// length is that of b.
func scanTag(b []byte) (size int, attributes int64) {
	for c := newCursor(b); ; attributes++ {
		switch end, _, _ := c.attribute(); {
		case end > 0:
			return end, attributes
		case end == 0:
			return len(b), attributes
		}
	}
}

// tagEnd returns the length of the tag that b begins with, or 0 if it does not end.
func tagEnd(b []byte) int {
	size, _ := endOfTag(b)
	return size
}

// endOfTag returns the same as tagEnd, and whether the tag ends with a slash that belongs to no
// value, as in "<svg/>". The slash of "<svg id=x/>" belongs to the value.
func endOfTag(b []byte) (size int, closesItself bool) {
	for c := newCursor(b); ; {
		if end, _, _ := c.attribute(); end >= 0 {
			return end, end > 1 && c.at < end-1 && b[end-2] == '/'
		}
	}
}

// cursor is a position in a tag, between two attributes.
type cursor struct {
	b  []byte
	at int
}

// newCursor returns the position after the name of the start or end tag that b begins with.
func newCursor(b []byte) cursor { return cursor{b, skipTo(b, len("</"), afterName)} }

// attribute returns the key and the value of the next attribute as they are written, without
// the quotes of the value. The result end is then negative. If there is no further attribute,
// end is the index after the tag, or 0 if the tag does not end.
func (c *cursor) attribute() (end int, key, value []byte) {
	b, i := c.b, c.at
	for i < len(b) && (isSpace(b[i]) || b[i] == '/') {
		i++
	}
	switch {
	case i >= len(b):
		return 0, nil, nil
	case b[i] == '>':
		return i + 1, nil, nil
	}
	start := i
	i = skipTo(b, i+1, afterKey) // from i+1, because a "=" at i is part of the name
	key = b[start:i]
	i = skipSpace(b, i)
	if i < len(b) && b[i] == '=' {
		start = skipSpace(b, i+1)
		if i = skipValue(b, start); i <= len(b) && i > start {
			value = b[start:i]
			if q := value[0]; q == '"' || q == '\'' {
				value = bytes.TrimSuffix(value[1:], value[:1])
			}
		}
	}
	c.at = i
	return -1, key, value
}

// skipValue returns the index after the value that begins at b[i].
func skipValue(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' && b[i] != '\'' {
		return skipTo(b, i, afterValue)
	}
	end := bytes.IndexByte(b[i+1:], b[i])
	if end < 0 {
		return len(b)
	}
	return i + 1 + end + 1
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// skipTo returns the index of the first byte, from b[i] on, that can end a part of a tag. The
// argument parts says which kinds of parts: afterName, afterKey, afterValue or several of these.
func skipTo(b []byte, i int, parts uint8) int {
	for i < len(b) && tagByte[b[i]]&parts == 0 {
		i++
	}
	return i
}

// The parts of a tag that a byte can end: the name of an element, the key of an attribute, and
// a value without quotes.
const (
	afterName uint8 = 1 << iota
	afterKey
	afterValue
)

var tagByte = [256]uint8{
	' ': afterName | afterKey | afterValue, '\t': afterName | afterKey | afterValue, '\n': afterName | afterKey | afterValue,
	'\f': afterName | afterKey | afterValue, '\r': afterName | afterKey | afterValue, '>': afterName | afterKey | afterValue,
	'/': afterName | afterKey, '=': afterKey,
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func hasUpper(b []byte) bool {
	for _, c := range b {
		if 'A' <= c && c <= 'Z' {
			return true
		}
	}
	return false
}

// lower returns b with its ASCII letters in lower case. Other letters of names are not
// changed.
func lower(b []byte) []byte {
	b = bytes.Clone(b)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return b
}
