package extract

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/transform"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// bodyCharset is what a body was read as.
type bodyCharset struct {
	name  string
	query *encoding.Encoder // for the queries of its references; nil means UTF-8
}

// decode returns body in UTF-8, and the charset that a byte order mark, the
// header or a meta tag names, in this order. It shares body's bytes when there
// is nothing to convert.
func decode(body []byte, contentType string) ([]byte, bodyCharset) {
	enc, name, certain := charset.DetermineEncoding(body, contentType)
	switch {
	case name == "windows-1252" && !certain && !namesCharset(body) && utf8.Valid(body):
		name = "utf-8" // the default for a body that names none, though its bytes do
	case name == "replacement":
		name = "utf-8" // the standard shows nothing of such a page; its ASCII is readable
	}
	switch name {
	case "utf-8":
		return bytes.TrimPrefix(body, []byte("\xEF\xBB\xBF")), bodyCharset{name: name}
	case "utf-16le", "utf-16be":
		text, _, _ := transform.Bytes(enc.NewDecoder(), body)
		return bytes.TrimPrefix(text, []byte("\uFEFF")), bodyCharset{name: name}
	}
	// The wrapper that charset puts around an encoding writes &#960; for what the
	// charset lacks: encodeQuery has to see the error instead.
	query := &encoding.Encoder{Transformer: plainEncoder(name)}
	if name != "iso-2022-jp" && isASCII(body) {
		return body, bodyCharset{name, query}
	}
	text, _, _ := transform.Bytes(enc.NewDecoder(), body) // decoders replace, they do not fail
	return text, bodyCharset{name, query}
}

// namesCharset reports whether the part of body that is searched for a meta tag
// names a charset at all.
func namesCharset(body []byte) bool {
	return bytes.Contains(bytes.ToLower(body[:min(len(body), 1024)]), []byte("charset"))
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// plainEncoder returns the encoder of a charset, which fails on what it lacks.
func plainEncoder(name string) transform.Transformer {
	enc, err := htmlindex.Get(name)
	if err != nil {
		return transform.Nop
	}
	return enc.NewEncoder()
}

// encodeQuery percent-encodes the non-ASCII characters in ref's query in the
// page's charset, as browsers do: a page in windows-1251 that links to ?q=да
// means %E4%E0. What the charset lacks becomes %26%231076%3B, the escape of
// "&#1076;" (WHATWG URL, "percent-encode after encoding"). What is too long to be
// a URL is left alone.
func encodeQuery(ref string, query *encoding.Encoder) string {
	mark := strings.IndexByte(ref, '?')
	if query == nil || mark < 0 || len(ref) > 4*canon.MaxBytes || isASCII([]byte(ref[mark:])) {
		return ref
	}
	var b strings.Builder
	b.WriteString(ref[:mark])
	for _, r := range ref[mark:] {
		if r < utf8.RuneSelf {
			b.WriteByte(byte(r))
			continue
		}
		encoded, err := query.String(string(r))
		if err != nil {
			b.WriteString("%26%23" + strconv.Itoa(int(r)) + "%3B")
			continue
		}
		for _, c := range []byte(encoded) {
			if c > ' ' && c < 0x7F && strings.IndexByte("\"#<>'", c) < 0 {
				b.WriteByte(c) // the second byte of a character can be a letter
			} else {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
	}
	return b.String()
}
