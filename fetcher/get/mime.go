package get

import (
	"bytes"
	"net/http"
	"strings"
)

// This file finds the type of a body as browsers do: from the header as the Fetch standard says
// (https://fetch.spec.whatwg.org/#concept-header-extract-mime-type), and if the header names no
// type, from the body as the MIME Sniffing standard says
// (https://mimesniff.spec.whatwg.org/#identifying-a-resource-with-an-unknown-mime-type).

// mimeType is the part of a MIME type that matters here.
type mimeType struct {
	essence string // type/subtype in lower case; "" means that there is none
	charset string // "" means none
}

// String returns the value of a Content-Type header that has this type.
func (m mimeType) String() string {
	if m.charset == "" {
		return m.essence
	}
	return m.essence + `; charset="` + quoter.Replace(m.charset) + `"`
}

var quoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// extractMIMEType returns the last valid type of the values of the Content-Type headers. Values
// that are not valid, and */*, count as missing. A value without a charset inherits the charset
// of the value before it if both have the same type.
func extractMIMEType(values []string) (found mimeType) {
	for _, value := range splitHeader(values) {
		next := parseMIMEType(value)
		if next.essence == "" || next.essence == "*/*" {
			continue
		}
		if next.essence == found.essence && next.charset == "" {
			next.charset = found.charset
		}
		found = next
	}
	return found
}

// unclear reports whether the type must be found in the body.
func (m mimeType) unclear() bool {
	return m.essence == "" || m.essence == "unknown/unknown" || m.essence == "application/unknown"
}

// splitHeader returns the values of a header with all its lines, split at commas outside quotes.
func splitHeader(lines []string) (values []string) {
	if len(lines) == 0 {
		return nil
	}
	text := strings.Join(lines, ", ")
	start, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == ',' && !quoted:
			values = append(values, strings.Trim(text[start:i], " \t"))
			start = i + 1
		}
	}
	return append(values, strings.Trim(text[start:], " \t"))
}

const mimeSpace = " \t\r\n"

// parseMIMEType parses one value. The result has no essence if the value is not valid.
func parseMIMEType(value string) (m mimeType) {
	name, rest, found := strings.Cut(strings.Trim(value, mimeSpace), "/")
	subtype, rest, _ := strings.Cut(rest, ";")
	subtype = strings.TrimRight(subtype, mimeSpace)
	if !found || !isToken(name) || !isToken(subtype) {
		return m
	}
	m.essence = strings.ToLower(name + "/" + subtype)
	for rest != "" {
		var key, text string
		key, text, rest = nextParameter(rest)
		if m.charset == "" && strings.EqualFold(key, "charset") && isQuotable(text) {
			m.charset = text
		}
	}
	return m
}

// nextParameter returns the first parameter of a list such as "a=b; c=d", and the rest of the
// list. A parameter without a value has the text "".
func nextParameter(list string) (key, text, rest string) {
	list = strings.TrimLeft(list, mimeSpace)
	end := strings.IndexAny(list, ";=")
	switch {
	case end < 0:
		return list, "", ""
	case list[end] == ';':
		return list[:end], "", list[end+1:]
	}
	key, list = list[:end], list[end+1:]
	if strings.HasPrefix(list, `"`) {
		text, list = unquote(list)
		_, rest, _ = strings.Cut(list, ";")
		return key, text, rest
	}
	text, rest, _ = strings.Cut(list, ";")
	return key, strings.TrimRight(text, mimeSpace), rest
}

// unquote returns the content of the quoted string that s begins with, and what follows it. The
// quote at the end may be missing.
func unquote(s string) (text, rest string) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}

// isToken reports whether s consists of HTTP token code points and is not empty.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && !('0' <= c && c <= '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// isQuotable reports whether s consists of HTTP quoted-string token code points.
func isQuotable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// sniffBytes is how much of a body the MIME Sniffing standard calls its resource header.
const sniffBytes = 1445

// isNosniff reports whether the answer forbids to find HTML in its body.
func isNosniff(header http.Header) bool {
	values := splitHeader(header["X-Content-Type-Options"])
	return len(values) > 0 && strings.EqualFold(values[0], "nosniff")
}

// sniff returns the type of a body that begins with the given bytes. If scriptable is false, the
// types that can run scripts (HTML, XML and PDF) are not looked for.
//
// http.DetectContentType has the tables of the standard, but uses only 512 bytes. That matters
// for white space before a tag, and for bytes that make a text binary.
func sniff(begin []byte, scriptable bool) string {
	begin = begin[:min(len(begin), sniffBytes)]
	detected := parseMIMEType(http.DetectContentType(bytes.TrimLeft(begin, "\t\n\f\r "))).essence
	if detected != "text/html" && detected != "text/xml" {
		detected = parseMIMEType(http.DetectContentType(begin)).essence
	}
	switch detected {
	case "text/html", "text/xml", "application/pdf":
		if scriptable {
			return detected
		}
	case "text/plain":
	default:
		return detected
	}
	if isBinary(begin) {
		return "application/octet-stream"
	}
	return "text/plain"
}

// isBinary reports whether b has binary data bytes. A text with a byte order mark has none.
func isBinary(b []byte) bool {
	for _, mark := range []string{"\xfe\xff", "\xff\xfe", "\xef\xbb\xbf"} {
		if bytes.HasPrefix(b, []byte(mark)) {
			return false
		}
	}
	return bytes.ContainsFunc(b, func(r rune) bool {
		return r <= 0x08 || r == 0x0b || 0x0e <= r && r <= 0x1a || 0x1c <= r && r <= 0x1f
	})
}
