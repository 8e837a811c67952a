package extract

import (
	"bytes"
	"crypto/sha256"
	"hash"

	"golang.org/x/net/html"
)

// TextDigest returns the SHA-256 of the text that the page shows, in UTF-8 and without white space. It
// is nil if the page shows no text, or if its text was cut off.
//
// Titles, scripts, styles, templates, comments, <noscript> and the content of text fields are not shown.
// Attributes do not count either. So pages that differ only in links, or in codes for the session, have
// the same digest.
func (p *Page) TextDigest() []byte {
	if p.textCut {
		return nil
	}
	sum := textSum{hash: sha256.New()}
	s := scriptScan{text: p.text, sum: &sum}
	for s.next() {
	}
	sum.flush()
	if sum.length == 0 {
		return nil
	}
	return sum.hash.Sum(nil)
}

// textSum hashes text without white space.
type textSum struct {
	hash   hash.Hash
	length int // bytes without white space
	buf    [1024]byte
	filled int // bytes of buf that were not hashed yet
}

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
	for _, c := range text {
		switch c {
		case ' ', '\t', '\n', '\f', '\r':
			continue
		}
		t.buf[t.filled] = c
		if t.filled++; t.filled == len(t.buf) {
			t.flush()
		}
	}
}

// flush hashes the bytes in buf.
func (t *textSum) flush() {
	_, _ = t.hash.Write(t.buf[:t.filled])
	t.length, t.filled = t.length+t.filled, 0
}
