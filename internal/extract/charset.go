package extract

import (
	"bytes"
	"cmp"
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"
)

// prescanned is the number of bytes in which a meta tag is looked for before a page is read.
const prescanned = 1024

// charsetOf returns the charset of a body: HTML standard, 13.2.3.2. The charset is named by a byte
// order mark, the header, a meta tag in the first 1,024 bytes or an XML declaration, in this
// order. If none of them does, the charset is a guess. If a later meta tag may still change the
// charset, certain is false.
func charsetOf(body []byte, contentType string) (charset string, certain bool) {
	if charset := marked(body); charset != "" {
		return charset, true
	}
	begin := body[:min(len(body), prescanned)]
	if charset := fromLabel(headerCharset(contentType)); charset != "" {
		return charset, true
	}
	for sign, charset := range signs {
		if bytes.HasPrefix(body, []byte(sign)) {
			return charset, true
		}
	}
	declared := declaredCharset(begin)
	if isXML(contentType) { // an XML document is in UTF-8, unless it declares something else
		if declared == "" && utf8.Valid(body) {
			declared = "utf-8"
		}
		if declared != "" {
			return declared, true
		}
	}
	if charset := prescan(begin); charset != "" {
		return charset, true
	}
	switch {
	case declared != "":
		return declared, false
	case utf8.Valid(body):
		return "utf-8", false
	}
	return "windows-1252", false
}

// XMLCharset returns the charset of XML that is not XHTML, such as a feed, from its first 1,024 bytes:
// RFC 7303, and XML 1.0, appendix F. A charset that the bytes contradict does not count: XML that
// can be read as ASCII is not in UTF-16.
func XMLCharset(begin []byte, contentType string) string {
	if charset := marked(begin); charset != "" {
		return charset
	}
	switch {
	case bytes.HasPrefix(begin, []byte("<\x00")):
		return "utf-16le"
	case bytes.HasPrefix(begin, []byte("\x00<")):
		return "utf-16be"
	}
	return cmp.Or(fromPage(headerCharset(contentType)), declaredCharset(begin), "utf-8")
}

// marked returns the charset of the byte order mark that a body begins with, or "".
func marked(body []byte) string {
	for mark, charset := range marks {
		if bytes.HasPrefix(body, []byte(mark)) {
			return charset
		}
	}
	return ""
}

// marks are the byte order marks.
var marks = map[string]string{"\xEF\xBB\xBF": "utf-8", "\xFE\xFF": "utf-16be", "\xFF\xFE": "utf-16le"}

// signs are the begins "<?x" in UTF-16.
var signs = map[string]string{"<\x00?\x00x\x00": "utf-16le", "\x00<\x00?\x00x": "utf-16be"}

// fromLabel returns the name of the charset that has a label in the Encoding standard, or "".
func fromLabel(label string) string {
	enc, err := htmlindex.Get(strings.Trim(label, " \t\n\f\r"))
	if err != nil {
		return ""
	}
	name, _ := htmlindex.Name(enc)
	return name
}

// fromPage returns the charset for a label that is written in the page itself. The page can be
// read as ASCII, so it is not in UTF-16.
func fromPage(label string) string {
	switch charset := fromLabel(label); charset {
	case "utf-16be", "utf-16le":
		return "utf-8"
	default:
		return charset
	}
}

// headerCharset returns the parameter charset of a Content-Type. Package mime refuses a whole
// header if one parameter is malformed, as in "text/html; charset=koi8-r; x". Browsers read the
// charset of such a header.
func headerCharset(contentType string) string {
	if _, parameters, err := mime.ParseMediaType(contentType); err == nil {
		return parameters["charset"]
	}
	for parameter := range strings.SplitSeq(contentType, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if strings.EqualFold(strings.TrimSpace(name), "charset") {
			return strings.Trim(value, " \t\"'")
		}
	}
	return ""
}

// isXML reports whether a body with this Content-Type is XML.
func isXML(contentType string) bool {
	essence := essence(contentType)
	return essence == "text/xml" || essence == "application/xml" || strings.HasSuffix(essence, "+xml")
}

// essence returns a media type without its parameters, in lower case.
func essence(media string) string {
	media, _, _ = strings.Cut(media, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// prescan returns the charset that a meta tag in b names, or "" (HTML standard, "prescan a byte
// stream to determine its encoding").
func prescan(b []byte) string {
	for at := 0; ; {
		next := bytes.IndexByte(b[at:], '<')
		if next < 0 {
			return ""
		}
		at += next
		rest := b[at:]
		size := 1
		switch {
		case bytes.HasPrefix(rest, []byte("<!--")): // its dashes may also be those of its end
			size = bytes.Index(rest[len("<!"):], []byte("-->")) + len("<!") + len("-->")
			if size < len("<!-->") {
				return ""
			}
		case len(rest) > 1 && isLetter(rest[1]), len(rest) > 2 && rest[1] == '/' && isLetter(rest[2]):
			if size = tagEnd(rest); size == 0 {
				return ""
			}
			if name := rest[1:skipTo(rest, 1, afterName)]; strings.EqualFold(string(name), "meta") && rest[len("<meta")] != '>' {
				attribute := func(name string) (string, bool) { return rawAttribute(rest[:size], name) }
				if charset := metaCharset(attribute); charset != "" {
					return charset
				}
			}
		case len(rest) > 1 && (rest[1] == '!' || rest[1] == '/' || rest[1] == '?'):
			size = bytes.IndexByte(rest, '>') + 1
			if size == 0 {
				return ""
			}
		}
		at += size
	}
}

// metaCharset returns the charset that a meta tag names, or "". attribute returns the value of an
// attribute.
func metaCharset(attribute func(name string) (value string, has bool)) string {
	label, has := attribute("charset")
	if !has {
		pragma, _ := attribute("http-equiv")
		if !strings.EqualFold(pragma, "content-type") {
			return ""
		}
		content, _ := attribute("content")
		label = charsetIn(content)
	}
	charset := fromPage(label)
	if charset == "x-user-defined" {
		return "windows-1252"
	}
	return charset
}

// charsetIn returns the label in a text such as "text/html; charset=utf-8", or "" (HTML standard,
// "extracting a character encoding from a meta element").
func charsetIn(content string) string {
	const word = "charset"
	for lower := strings.ToLower(content); ; {
		i := strings.Index(lower, word)
		if i < 0 || len(lower) != len(content) {
			return ""
		}
		content, lower = content[i+len(word):], lower[i+len(word):]
		value, found := strings.CutPrefix(trimSpace(content), "=")
		if !found {
			continue
		}
		value = trimSpace(value)
		if value != "" && (value[0] == '"' || value[0] == '\'') {
			label, _, closed := strings.Cut(value[1:], value[:1])
			if !closed {
				return ""
			}
			return label
		}
		if end := strings.IndexAny(value, "; \t\n\f\r"); end >= 0 {
			value = value[:end]
		}
		return value
	}
}

// declaredCharset returns the charset that the XML declaration at the beginning of b names, or ""
// (HTML standard, "get an XML encoding").
func declaredCharset(b []byte) string {
	declaration, _, closed := bytes.Cut(b, []byte(">"))
	if !closed || !bytes.HasPrefix(declaration, []byte("<?xml")) {
		return ""
	}
	_, value, _ := strings.Cut(string(declaration), "encoding")
	blank := func(r rune) bool { return r <= ' ' }
	value, found := strings.CutPrefix(strings.TrimLeftFunc(value, blank), "=")
	value = strings.TrimLeftFunc(value, blank)
	if !found || value == "" || value[0] != '"' && value[0] != '\'' {
		return ""
	}
	label, _, closed := strings.Cut(value[1:], value[:1])
	if !closed || strings.ContainsFunc(label, blank) {
		return ""
	}
	return fromPage(label)
}
