package extract

import (
	"bytes"
	"html"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html/atom"
)

// Namespaces of XML elements and attributes.
const (
	xhtmlSpace = "http://www.w3.org/1999/xhtml"
	svgSpace   = "http://www.w3.org/2000/svg"
	mathSpace  = "http://www.w3.org/1998/Math/MathML"
	xlinkSpace = "http://www.w3.org/1999/xlink"
)

const (
	// maxBindings is the maximum number of prefixes of namespaces that are known at once.
	maxBindings = 64
	// maxNameBytes is the maximum length of a name, or of a namespace. Longer ones mean nothing in HTML.
	maxNameBytes = 1 << 10
	// maxCopyBytes is the maximum length of the parts of a script that are converted at once, because
	// memory is reserved for the output only.
	maxCopyBytes = 4 << 10
)

// htmlOf returns HTML with the same elements as an XHTML document: it writes end tags for elements
// such as <title/>, and removes prefixes and CDATA sections. Elements that are neither XHTML nor
// SVG nor MathML get names that mean nothing in HTML. If the text is not well-formed, htmlOf
// continues where a browser shows an error. It does not expand the entities that a document
// declares. It calls hold, which may be nil, before it makes more bytes, and gives back what it no
// longer needs. If hold returns false, the result ends there.
func htmlOf(text []byte, hold func(more int64) bool) []byte {
	w := xmlReader{text: text, hold: hold}
	for len(w.text) > 0 && w.next() {
	}
	return w.out
}

// IsXHTML reports whether a body with this Content-Type, which begins with the given bytes, is an
// XHTML document, which browsers show as a page: XML whose first element is <html> in the namespace
// of XHTML.
func IsXHTML(begin []byte, contentType string) bool {
	if !isXML(contentType) {
		return false
	}
	text, err := io.ReadAll(NewReader(bytes.NewReader(begin), XMLCharset(begin, contentType)))
	if err != nil { // a reader of bytes does not fail
		return false
	}
	for w := (xmlReader{text: bytes.TrimPrefix(text, []byte("\ufeff"))}); ; w.next() {
		w.text = bytes.TrimLeft(w.text, " \t\r\n")
		switch {
		case len(w.text) < 2 || w.text[0] != '<':
			return false
		case startsName(w.text[1]):
			return w.isRoot()
		case w.text[1] != '!' && w.text[1] != '?' || bytes.HasPrefix(w.text, []byte("<![CDATA[")):
			return false
		}
	}
}

// isRoot reports whether the start tag at the beginning of the text is <html> in the namespace of
// XHTML.
func (w *xmlReader) isRoot() bool {
	size := tagEnd(w.text)
	if size == 0 {
		return false
	}
	w.declare(w.text[:size])
	prefix, local, hasPrefix := strings.Cut(string(w.text[1:skipTo(w.text, 1, afterName)]), ":")
	if !hasPrefix {
		prefix, local = "", prefix
	}
	return local == "html" && slices.ContainsFunc(w.bindings, func(b binding) bool { return b.prefix == prefix && b.space == xhtmlSpace })
}

// xmlReader reads XML and writes HTML.
type xmlReader struct {
	text     []byte // not read yet
	out      []byte
	hold     func(more int64) bool
	typed    bool      // the document type declaration was read
	depth    int       // number of open elements
	bindings []binding // of prefixes to namespaces, innermost last
}

// binding is the declaration of a prefix.
type binding struct {
	prefix, space string
	depth         int // of the element that declares it
}

// write appends to the output. It returns false if there is no memory for it.
func (w *xmlReader) write(parts ...string) bool {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	if !w.reserve(size) {
		return false
	}
	for _, part := range parts {
		w.out = append(w.out, part...)
	}
	return true
}

// writeBytes appends text to the output. It returns false if there is no memory for it.
func (w *xmlReader) writeBytes(text []byte) bool {
	if !w.reserve(len(text)) {
		return false
	}
	w.out = append(w.out, text...)
	return true
}

// writeEscaped appends text that is not markup. It returns false if there is no memory for it.
func (w *xmlReader) writeEscaped(text []byte) bool {
	for {
		size := bytes.IndexAny(text, "&<")
		if size < 0 {
			return w.writeBytes(text)
		}
		if !w.writeBytes(text[:size]) || !w.write(html.EscapeString(string(text[size:size+1]))) {
			return false
		}
		text = text[size+1:]
	}
}

// reserve makes room for size more bytes of output. It returns false if there is no memory.
func (w *xmlReader) reserve(size int) bool {
	old := cap(w.out)
	if old-len(w.out) >= size {
		return true
	}
	larger := len(w.out) + size + len(w.text) + max(old, len(w.text))/4
	if !w.claim(larger) {
		return false
	}
	w.out = append(make([]byte, 0, larger), w.out...)
	w.claim(-old)
	return true
}

// claim reserves memory, or gives it back if more is negative. It returns false if there is none.
func (w *xmlReader) claim(more int) bool { return w.hold == nil || w.hold(int64(more)) }

// next reads the text, and the markup after it. It returns false if there is no memory.
func (w *xmlReader) next() bool {
	start := bytes.IndexByte(w.text, '<')
	if start < 0 {
		start = len(w.text)
	}
	text := w.text[:start]
	w.text = w.text[start:]
	if !w.writeBytes(text) {
		return false
	}
	switch {
	case len(w.text) == 0:
		return true
	case bytes.HasPrefix(w.text, []byte("<!--")):
		w.skipPast("<!--", "-->")
		return true
	case bytes.HasPrefix(w.text, []byte("<![CDATA[")):
		return w.writeEscaped(w.section())
	case bytes.HasPrefix(w.text, []byte("<?")):
		w.skipPast("<?", "?>")
		return true
	case bytes.HasPrefix(w.text, []byte("<!")):
		size := bytes.IndexByte(w.text, '>') + 1
		if !w.typed && bytes.HasPrefix(w.text, []byte("<!DOCTYPE")) {
			w.typed, size = true, doctypeEnd(w.text)
		}
		if size == 0 {
			size = len(w.text)
		}
		w.text = w.text[size:]
		return true
	case bytes.HasPrefix(w.text, []byte("</")):
		return w.endTag()
	case len(w.text) > 1 && startsName(w.text[1]):
		return w.startTag()
	}
	w.text = w.text[1:]
	return w.write("&lt;")
}

// skipPast moves behind the markup that begins and ends like this. If it does not end, all the
// rest is skipped.
func (w *xmlReader) skipPast(begin, end string) (content []byte) {
	content, w.text, _ = bytes.Cut(w.text[len(begin):], []byte(end))
	return content
}

// section returns the text of the CDATA section at the beginning of text, and moves behind it.
func (w *xmlReader) section() []byte { return w.skipPast("<![CDATA[", "]]>") }

// doctypeEnd returns the length of the document type declaration that b begins with, with its
// internal subset, or 0 if it does not end.
func doctypeEnd(b []byte) int {
	inside, quote := false, byte(0)
	for i, c := range b {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case c == '>' && !inside:
			return i + 1
		}
	}
	return bytes.IndexByte(b, '>') + 1 // a quote or a bracket is not closed
}

func startsName(c byte) bool { return isLetter(c) || c == '_' || c == ':' || c >= 0x80 }

// endTag writes the end tag at the beginning of the text.
func (w *xmlReader) endTag() bool {
	size := tagEnd(w.text)
	if size == 0 {
		w.text = nil
		return true
	}
	name, space := w.resolve(w.text[1:size])
	w.text = w.text[size:]
	w.leave()
	if space == xhtmlSpace && isVoid(name) {
		return true
	}
	return w.write("</", name, ">")
}

// leave ends an element, and the bindings that it declares.
func (w *xmlReader) leave() {
	for len(w.bindings) > 0 && w.bindings[len(w.bindings)-1].depth >= w.depth {
		w.bindings = w.bindings[:len(w.bindings)-1]
	}
	w.depth = max(w.depth-1, 0)
}

// startTag writes the start tag at the beginning of the text, and what must follow it.
func (w *xmlReader) startTag() bool {
	size, closed := endOfTag(w.text)
	if size == 0 {
		w.text = nil
		return true
	}
	tag := w.text[:size]
	w.text = w.text[size:]
	w.depth++
	w.declare(tag)
	name, space := w.resolve(tag)
	if !w.write("<", name) || !w.writeAttributes(tag, space) {
		return false
	}
	if closed {
		w.leave()
	}
	switch {
	case closed && space == xhtmlSpace && isVoid(name):
		return w.write(">")
	case closed && (space == svgSpace || space == mathSpace):
		return w.write("/>")
	case closed:
		return w.write("></", name, ">")
	case space == xhtmlSpace && (name == "script" || name == "style"):
		return w.write(">") && w.script(tag, name)
	}
	return w.write(">")
}

// declare stores the namespaces that a start tag declares.
func (w *xmlReader) declare(tag []byte) {
	for c := newCursor(tag); ; {
		end, key, value := c.attribute()
		if end >= 0 {
			return
		}
		if len(key) > maxNameBytes || len(value) > maxNameBytes {
			continue
		}
		prefix, isPrefix := strings.CutPrefix(string(key), "xmlns:")
		if (isPrefix || string(key) == "xmlns") && len(w.bindings) < maxBindings {
			if !isPrefix {
				prefix = ""
			}
			w.bindings = append(w.bindings, binding{prefix, html.UnescapeString(string(value)), w.depth})
		}
	}
}

// space returns the namespace of a prefix. If nothing declares XHTML, it is the default.
func (w *xmlReader) space(prefix string) string {
	for i := len(w.bindings) - 1; i >= 0; i-- {
		if w.bindings[i].prefix == prefix {
			return w.bindings[i].space
		}
	}
	switch prefix {
	case "":
		if !slices.ContainsFunc(w.bindings, func(b binding) bool { return b.space == xhtmlSpace }) {
			return xhtmlSpace
		}
	case "xlink": // is often not declared
		return xlinkSpace
	}
	return ""
}

// resolve returns the name that the element of a tag gets in HTML, and its namespace.
func (w *xmlReader) resolve(tag []byte) (name, space string) {
	written := string(tag[1:min(skipTo(tag, 1, afterName), maxNameBytes)])
	prefix, local, hasPrefix := strings.Cut(written, ":")
	if !hasPrefix {
		prefix, local = "", written
	}
	space = w.space(prefix)
	switch {
	case space == svgSpace, space == mathSpace, space == xhtmlSpace && !hasUpper([]byte(local)) && local != "plaintext":
		return local, space
	}
	return "x-" + strings.ReplaceAll(written, ":", "-"), ""
}

// writeAttributes writes the attributes of a start tag.
func (w *xmlReader) writeAttributes(tag []byte, space string) bool {
	for c := newCursor(tag); ; {
		end, key, value := c.attribute()
		if end >= 0 {
			return true
		}
		if len(key) > maxNameBytes {
			continue
		}
		name := string(key)
		prefix, local, hasPrefix := strings.Cut(name, ":")
		switch {
		case name == "xmlns", prefix == "xmlns", space == xhtmlSpace && hasUpper(key):
			continue
		case hasPrefix && w.space(prefix) == xlinkSpace:
			name = "xlink:" + local
		}
		quote := `"`
		if bytes.IndexByte(value, '"') >= 0 {
			quote = "'"
		}
		if !w.write(" ", name, "=", quote) || !w.writeBytes(value) || !w.write(quote) {
			return false
		}
	}
}

// script writes the text of a <script> or <style>, which is text in HTML: without comments, CDATA
// sections and character references. Its end tag is not read.
func (w *xmlReader) script(tag []byte, name string) bool {
	end := "</" + string(tag[1:skipTo(tag, 1, afterName)])
	for len(w.text) > 0 {
		var content []byte
		unescape := func(text string) string { return text }
		switch {
		case bytes.HasPrefix(w.text, []byte("<!--")):
			w.skipPast("<!--", "-->")
		case bytes.HasPrefix(w.text, []byte("<![CDATA[")):
			content = w.section()
		case bytes.HasPrefix(w.text, []byte(end)) && len(w.text) > len(end) && tagByte[w.text[len(end)]]&afterName != 0:
			return true
		default:
			next := bytes.IndexByte(w.text[1:], '<') + 1
			if next == 0 {
				next = len(w.text)
			}
			content, w.text, unescape = w.text[:next], w.text[next:], html.UnescapeString
		}
		if !w.writeScript(content, unescape) {
			return false
		}
	}
	return w.write("</", name, ">")
}

// scriptText replaces what would end the text of a script, or begin a comment in it.
var scriptText = strings.NewReplacer("</", `<\/`, "<!--", "")

// writeScript writes a part of the text of a script. It returns false if there is no memory for it.
func (w *xmlReader) writeScript(content []byte, unescape func(string) string) bool {
	for len(content) > 0 {
		size := len(content)
		if size > maxCopyBytes {
			size = maxCopyBytes
			if begin := bytes.LastIndexAny(content[:size], "&<"); begin > 0 { // what begins here must not be divided
				size = begin
			}
		}
		if !w.write(scriptText.Replace(unescape(string(content[:size])))) {
			return false
		}
		content = content[size:]
	}
	return true
}

// isVoid reports whether an element of HTML has no end tag.
func isVoid(name string) bool {
	switch atom.Lookup([]byte(name)) {
	case atom.Area, atom.Base, atom.Basefont, atom.Bgsound, atom.Br, atom.Col, atom.Embed, atom.Frame, atom.Hr, atom.Img,
		atom.Input, atom.Keygen, atom.Link, atom.Meta, atom.Param, atom.Source, atom.Track, atom.Wbr:
		return true
	}
	return false
}
