package extract

import (
	"bytes"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/transform"
)

// bodyCharset is the charset of a body.
type bodyCharset struct {
	name  string
	query *queryEncoder // encodes the queries of the URLs in the body; nil means UTF-8
}

// decode returns body in UTF-8 and its charset. If there is nothing to convert, the result shares
// the bytes of body. Before other bytes are made, decode calls hold, which may be nil. If hold
// returns false, the text is empty.
func decode(body []byte, charset string, hold func(more int64) bool) ([]byte, bodyCharset) {
	enc, err := htmlindex.Get(charset)
	if err != nil || charset == "replacement" { // browsers show nothing of such a page, but its ASCII characters are readable
		charset = "utf-8"
	}
	switch charset {
	case "utf-8":
		return bytes.TrimPrefix(body, []byte("\xEF\xBB\xBF")), bodyCharset{name: charset}
	case "utf-16le", "utf-16be":
		text := decodeAs(enc, body, hold)
		return bytes.TrimPrefix(text, []byte("\uFEFF")), bodyCharset{name: charset}
	}
	query := newQueryEncoder(charset)
	if charset != "iso-2022-jp" && isASCII(body) {
		return body, bodyCharset{charset, query}
	}
	return decodeAs(enc, body, hold), bodyCharset{charset, query}
}

// decodeAs converts body from a charset to UTF-8.
func decodeAs(enc encoding.Encoding, body []byte, hold func(more int64) bool) []byte {
	others := 0 // bytes that are not ASCII; each may become three
	for _, c := range body {
		if c >= utf8.RuneSelf {
			others++
		}
	}
	// A charset in which two ASCII bytes are one character needs 3 bytes for 2.
	most := max(len(body)+2*others, len(body)+len(body)/2) + 2*utf8.UTFMax
	if hold != nil && !hold(int64(most)) {
		return nil
	}
	text, _, _ := transform.Append(enc.NewDecoder(), make([]byte, 0, most), body) // decoders replace invalid bytes and do not fail
	return text
}

// NewReader returns a reader of the text of r in UTF-8. It needs a few KiB of memory. Bytes that are
// no characters become U+FFFD, except in UTF-8, where they are not changed.
func NewReader(r io.Reader, charset string) io.Reader {
	enc, err := htmlindex.Get(charset)
	if err != nil || charset == "utf-8" || charset == "replacement" {
		return r
	}
	return transform.NewReader(r, enc.NewDecoder())
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
