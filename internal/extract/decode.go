package extract

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"
)

// bodyCharset is the charset of a body.
type bodyCharset struct {
	name  string
	query *queryEncoder // encodes the queries of the URLs in the body; nil means UTF-8
}

// decode returns body in UTF-8 and its charset. The charset is named by a byte order
// mark, the header or a meta tag, in this order. If there is nothing to convert, the
// result shares the bytes of body. Before other bytes are made, decode calls hold, which may be
// nil. If hold returns false, the text is empty.
func decode(body []byte, contentType string, hold func(more int64) bool) ([]byte, bodyCharset) {
	enc, name, certain := charset.DetermineEncoding(body, readable(contentType))
	switch {
	case name == "windows-1252" && !certain && !declares1252(body) && utf8.Valid(body):
		name = "utf-8" // the default for a body that names no charset
	case name == "replacement":
		name = "utf-8" // browsers show nothing of such a page, but its ASCII characters are readable
	}
	switch name {
	case "utf-8":
		return bytes.TrimPrefix(body, []byte("\xEF\xBB\xBF")), bodyCharset{name: name}
	case "utf-16le", "utf-16be":
		text := decodeAs(enc, body, hold)
		return bytes.TrimPrefix(text, []byte("\uFEFF")), bodyCharset{name: name}
	}
	query := newQueryEncoder(name)
	if name != "iso-2022-jp" && isASCII(body) {
		return body, bodyCharset{name, query}
	}
	return decodeAs(enc, body, hold), bodyCharset{name, query}
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

// readable returns a Content-Type that package mime can parse. Package mime refuses a whole
// header if one parameter is malformed, as in "text/html; charset=koi8-r; x". Browsers read
// the charset of such a header.
func readable(contentType string) string {
	if _, _, err := mime.ParseMediaType(contentType); err == nil {
		return contentType
	}
	for parameter := range strings.SplitSeq(contentType, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if strings.EqualFold(strings.TrimSpace(name), "charset") {
			return mime.FormatMediaType("text/html", map[string]string{"charset": strings.Trim(value, " \t\"")})
		}
	}
	return contentType
}

// declares1252 reports whether a meta tag of body names windows-1252. If no meta tag names a
// charset, DetermineEncoding could guess windows-1252. So declares1252 puts a letter in UTF-8
// before body: then the guess is utf-8.
func declares1252(body []byte) bool {
	const letter, searched = "ä", 1024
	begin := append([]byte(letter), body[:min(len(body), searched-len(letter))]...)
	_, name, _ := charset.DetermineEncoding(begin, "")
	return name == "windows-1252"
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
