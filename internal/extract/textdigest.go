package extract

import (
	"bytes"
	"crypto/sha256"
	"hash"

	"golang.org/x/net/html"
)

// textSum hashes the text that a page shows, in UTF-8 and without white space. The zero value has no text.
//
// Titles, scripts, styles, inert templates, comments and the content of text fields are not shown. Attributes do not count either.
// So pages that differ only in links, or in codes for the session, have the same sum.
type textSum struct {
	hash   hash.Hash // nil until buf was full once
	length int       // bytes that were hashed
	buf    [1 << 10]byte
	filled int // bytes of buf that were not hashed yet
}

// digest returns the SHA-256 of the text, or nil if there is none.
func (t *textSum) digest() []byte {
	if t.length+t.filled == 0 {
		return nil
	}
	t.flush()
	return t.hash.Sum(nil)
}

// write adds text between tags.
func (t *textSum) write(text []byte) {
	for {
		amp := bytes.IndexByte(text, '&')
		if amp < 0 {
			t.add(text)
			return
		}
		t.add(text[:amp])
		size := amp + 1
		for size < len(text) && isReference(text[size]) {
			size++
		}
		t.add([]byte(html.UnescapeString(string(text[amp:size]))))
		text = text[size:]
	}
}

// isReference reports whether a character reference such as &amp; or &#38; can contain c after the &.
func isReference(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '#' || c == ';'
}

// add adds text without character references.
func (t *textSum) add(text []byte) {
	for len(text) > 0 {
		if t.filled == len(t.buf) {
			t.flush()
		}
		n := t.filled
		part := text[:min(len(text), len(t.buf)-n)]
		for _, c := range part {
			t.buf[n] = c
			n += int(counts[c]) // without a branch, because every sixth byte is a space
		}
		t.filled, text = n, text[len(part):]
	}
}

// counts is 0 for white space and 1 for other bytes.
var counts = func() (all [256]uint8) {
	for c := range all {
		all[c] = 1
	}
	for _, c := range " \t\n\f\r" {
		all[c] = 0
	}
	return all
}()

// flush hashes the bytes in buf.
func (t *textSum) flush() {
	if t.hash == nil {
		t.hash = sha256.New()
	}
	_, _ = t.hash.Write(t.buf[:t.filled])
	t.length, t.filled = t.length+t.filled, 0
}
