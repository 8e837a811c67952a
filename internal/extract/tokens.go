package extract

import (
	"bytes"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// readTokens passes the start tags of text that count to the collector, without building a tree.
// That takes a fraction of the time, and there is no limit of depth.
//
// It finds every element of the page that html.Parse would put into its tree, and a few that the
// parser drops because they are not allowed in their place, such as a second <body>.
func readTokens(text []byte, found *collector) {
	t := tokens{text: text, found: found}
	for t.next() {
	}
	found.closeAnchor()
}

// tokens finds the start tags that html.Tokenizer finds, several times faster. It jumps from
// one < to the next, and reads the attributes only of tags that the collector reads. It uses
// html.Tokenizer for the cases that are rare and difficult.
type tokens struct {
	text   []byte
	at     int // the text before this index was read
	found  *collector
	open   openElements
	replay bool // nothing is collected: see completeStack
	attrs  []html.Attribute

	tag       bytes.Reader    // what tokenizer reads
	tokenizer *html.Tokenizer // for difficult tags; nil until there is one
}

// next reads the tag, comment or text at the next <. It returns false at the end of the text.
func (t *tokens) next() bool {
	start := bytes.IndexByte(t.text[t.at:], '<')
	if start < 0 {
		t.readText(t.text[t.at:])
		return false
	}
	t.readText(t.text[t.at : t.at+start])
	t.at += start
	rest := t.text[t.at:]
	if len(rest) < 2 {
		return false
	}
	switch c := rest[1]; {
	case isLetter(c):
		return t.startTag(rest)
	case c == '/' && len(rest) > 2 && isLetter(rest[2]):
		return t.endTag(rest)
	case c == '!' && bytes.HasPrefix(rest, []byte("<!--")):
		return t.skip(commentEnd(rest))
	case c == '!' && t.open.top().foreign() && bytes.HasPrefix(rest, []byte("<![CDATA[")):
		return t.skip(sectionEnd(rest))
	case c == '!', c == '?', c == '/':
		return t.skip(bytes.IndexByte(rest, '>') + 1)
	}
	t.readText(rest[:1]) // the < is text
	t.at++
	return true
}

// readText reads text between tags. It can be in a link, or be the begin of the body.
func (t *tokens) readText(text []byte) {
	if t.open.inert == 0 && !t.replay {
		t.found.shown.write(text)
	}
	if t.found.place == inHead && t.open.inert == 0 && len(bytes.TrimLeft(text, " \t\n\f\r")) > 0 {
		t.found.place = inBody
	}
	if t.found.open < 0 || t.open.inert > 0 {
		return
	}
	text = text[:min(len(text), 8*MaxAnchorBytes)]
	if bytes.ContainsAny(text, "&\r\x00") {
		text = []byte(plainText(text))
	}
	addText(t.found, text)
}

// sectionEnd returns the length of the CDATA section that b begins with, or 0 if it does not end.
func sectionEnd(b []byte) int {
	const end = "]]>"
	if i := bytes.Index(b, []byte(end)); i >= 0 {
		return i + len(end)
	}
	return 0
}

// skip moves forward by n bytes. It returns false if n is 0, which means that the tag or
// comment at this position does not end.
func (t *tokens) skip(n int) bool {
	t.at += n
	return n > 0
}

// startTag reads the start tag at the beginning of rest. If the element may contain only
// text (isRawText), startTag also reads this text. It returns false at the end of the
// text.
func (t *tokens) startTag(rest []byte) bool {
	tag := tagName(rest)
	if t.open.isForeign(tag) {
		if !breaksOut(tag, rest) {
			return t.foreignTag(tag, rest)
		}
		t.open.leaveForeign()
	}
	if t.found.place != inBody && t.open.inert == 0 {
		t.leaveHead(tag)
		if t.found.place == inFrames && tag != atom.Frame && tag != atom.Noframes {
			return t.skip(tagEnd(rest))
		}
	}
	size, collects := 0, t.collects(tag)
	if collects {
		t.attrs, size = t.attributes(rest, t.attrs[:0])
	} else {
		size = tagEnd(rest)
	}
	if !t.skip(size) {
		return false
	}
	if collects {
		t.found.element(tag, t.attrs)
	}
	switch {
	case tag == atom.Svg:
		t.openForeign(tag, svgElement, rest[:size])
	case tag == atom.Math:
		t.openForeign(tag, mathElement, rest[:size])
	case tag == atom.Template:
		t.openTemplate(rest[:size])
	case tag == atom.Plaintext:
		t.readText(t.text[t.at:])
		return false
	case isRawText(tag):
		return t.rawText(tag)
	case t.open.tracks():
		t.open.openHTML(tag, rest)
	}
	return true
}

// collects reports whether the collector reads an element of HTML with this name at this place.
func (t *tokens) collects(tag atom.Atom) bool {
	return t.found.reads(tag) && t.open.inert == 0 && !t.replay
}

// foreignTag reads a start tag of SVG or MathML.
func (t *tokens) foreignTag(tag atom.Atom, rest []byte) bool {
	size, closed := endOfTag(rest)
	kind := t.open.foreignKind(tag, rest)
	if size > 0 && kind == svgElement && t.collects(tag) {
		t.attrs, _ = t.attributes(rest[:size], t.attrs[:0])
		t.found.drawing(tag, t.attrs)
	}
	if size > 0 && !closed {
		t.open.push(element{nameID(tag, rest), kind, false})
	}
	return t.skip(size)
}

// openForeign puts <svg> or <math> onto the stack, unless its start tag ends it.
func (t *tokens) openForeign(name atom.Atom, kind elementKind, tag []byte) {
	if _, closed := endOfTag(tag); !closed {
		t.open.push(element{nameID(name, tag), kind, false})
	}
}

// leaveHead ends the head at the first start tag that belongs to the body.
func (t *tokens) leaveHead(tag atom.Atom) {
	if t.found.place != inHead {
		if t.found.place == inNoscript && tag == atom.Body {
			t.found.place = inBody
		}
		return
	}
	switch tag {
	case atom.Html, atom.Head, atom.Title, atom.Base, atom.Basefont, atom.Bgsound, atom.Link, atom.Meta, atom.Style,
		atom.Script, atom.Template, atom.Noframes:
	case atom.Noscript:
		t.found.place = inNoscript
	case atom.Frameset:
		t.found.place = inFrames
	default:
		t.found.place = inBody
	}
}

// openTemplate reads the start tag of a template of HTML. Its content is inert, except if it
// becomes a shadow tree of the element that it is in.
func (t *tokens) openTemplate(tag []byte) {
	e := element{uint32(atom.Template), inertTemplate, false}
	mode, _ := attributeOf(tag, "shadowrootmode")
	if t.open.inert == 0 && (strings.EqualFold(mode, "open") || strings.EqualFold(mode, "closed")) {
		t.completeStack(t.at - len(tag))
		if t.open.attachShadow(t.found.place) {
			e.kind = shadowTemplate
		}
	}
	t.open.push(e)
	t.found.inShadow = t.open.shadows > 0
}

// attachShadow attaches a shadow tree to the innermost element, and reports whether that is
// possible.
func (o *openElements) attachShadow(at place) bool {
	if len(o.all) == 0 {
		attached := at == inBody && !o.bodyHosts
		o.bodyHosts = o.bodyHosts || attached
		return attached
	}
	host := &o.all[len(o.all)-1]
	attached := host.host
	host.host = false
	return attached
}

// completeStack puts all open elements onto the stack, from now on and those that were opened
// before the index end. It reads the text before that a second time, at most once for a page.
func (t *tokens) completeStack(end int) {
	if t.open.complete {
		return
	}
	again := tokens{text: t.text[:end], found: newCollector(Options{}), open: openElements{complete: true}, replay: true}
	for again.next() {
	}
	t.open = again.open
}

// endTag reads the end tag at the beginning of rest. It returns false at the end of the text.
func (t *tokens) endTag(rest []byte) bool {
	if t.found.place < inBody && t.open.inert == 0 {
		t.closeInHead(tagName(rest[1:]))
	}
	if len(t.open.all) > 0 {
		t.closeElement(rest)
	}
	if t.found.open >= 0 && t.open.inert == 0 && tagName(rest[1:]) == atom.A {
		t.found.closeAnchor()
	}
	return t.skip(tagEnd(rest))
}

// closeElement closes the elements of the stack that the end tag at the beginning of rest ends.
func (t *tokens) closeElement(rest []byte) {
	o := &t.open
	tag := tagName(rest[1:])
	name := nameID(tag, rest[1:])
	if o.top().foreign() {
		if tag == atom.P || tag == atom.Br {
			o.leaveForeign()
		} else if o.closeForeign(name) {
			return
		} else if tag != atom.Template && o.inert == 0 {
			t.completeStack(t.at) // does the tag end an element around the drawing?
		}
	}
	switch {
	case tag == atom.Template:
		o.closeTemplate()
		t.found.inShadow = o.shadows > 0
	case o.tracks():
		o.closeHTML(tag, name)
	}
}

// closeInHead reads an end tag of the head. Some of them end the head.
func (t *tokens) closeInHead(tag atom.Atom) {
	switch {
	case tag == atom.Noscript && t.found.place == inNoscript:
		t.found.place = inHead
	case t.found.place == inHead && (tag == atom.Body || tag == atom.Html || tag == atom.Br):
		t.found.place = inBody
	}
}

// isRawText reports whether tags within an element with this name are text.
func isRawText(tag atom.Atom) bool {
	switch tag {
	case atom.Iframe, atom.Noembed, atom.Noframes, atom.Script, atom.Style, atom.Textarea, atom.Title, atom.Xmp:
		return true
	}
	return false
}

// rawText reads the text of an element for which isRawText is true. It returns false if the
// element does not end.
func (t *tokens) rawText(tag atom.Atom) bool {
	rest := t.text[t.at:]
	text, ended := untilEndTag(rest, tag.String())
	switch {
	case tag == atom.Title && !t.found.hasTitle && t.open.inert == 0 && !t.found.inShadow && !t.replay:
		t.found.setTitle(plainText(text))
	case tag == atom.Script && ended && hidesScript(text):
		z := html.NewTokenizer(io.MultiReader(strings.NewReader("<script>"), bytes.NewReader(rest)))
		z.Next()
		z.Next()
		text = rest[:len(z.Raw())]
	case tag == atom.Xmp:
		t.readText(text)
	}
	t.at += len(text)
	return ended
}

// untilEndTag returns the part of b before the end tag with this name, or all of b if there
// is none.
func untilEndTag(b []byte, name string) (text []byte, ended bool) {
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte("</"))
		if i < 0 {
			return b, false
		}
		at += i
		end := at + len("</") + len(name)
		if end < len(b) && tagByte[b[end]]&afterName != 0 && strings.EqualFold(string(b[at+2:end]), name) {
			return b[:at], true
		}
		at++
	}
}

// hidesScript reports whether the end tag after text is possibly a part of the script: after
// "<!-- <script>" the next end tag is text.
func hidesScript(text []byte) bool {
	_, comment, found := bytes.Cut(text, []byte("<!--"))
	return found && bytes.Contains(bytes.ToLower(comment), []byte("<script"))
}

// plainText returns text as the tokenizer returns the text of a title: with its character
// references and newlines resolved.
func plainText(text []byte) string {
	return html.UnescapeString(newlines.Replace(string(text)))
}

var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\uFFFD")

// commentEnd returns the length of the comment that b begins with, or 0 if it does not end.
// "<!-->" and "<!--->" are comments, and "--!>" also ends one.
func commentEnd(b []byte) int {
	const begin = len("<!--")
	for end := begin; ; end++ {
		i := bytes.IndexByte(b[end:], '>')
		if i < 0 {
			return 0
		}
		end += i
		text := b[begin:end]
		if len(text) == 0 || string(text) == "-" || bytes.HasSuffix(text, []byte("--")) || bytes.HasSuffix(text, []byte("--!")) {
			return end + 1
		}
	}
}

// attributes appends the attributes of the tag that b begins with to attrs. It leaves out
// attributes that the collector never reads. It also returns the length of the tag, or 0 if
// the tag does not end.
func (t *tokens) attributes(b []byte, attrs []html.Attribute) ([]html.Attribute, int) {
	odd := false
	for c := newCursor(b); ; {
		end, key, value := c.attribute()
		switch {
		case end == 0:
			return attrs, 0
		case end > 0 && odd:
			return t.oddAttributes(b[:end], attrs[:0]), end
		case end > 0:
			return attrs, end
		}
		if name := attributeName(key); name != "" {
			text, plain := unescaped(value)
			odd = odd || !plain
			attrs = append(attrs, html.Attribute{Key: name, Val: text})
		}
	}
}

// unescaped returns the value of an attribute with &amp; replaced. If the value has other
// character references, or bytes that the tokenizer replaces, the result plain is false,
// and the result text must not be used.
func unescaped(value []byte) (text string, plain bool) {
	text = string(value)
	if strings.IndexByte(text, '\r') >= 0 || strings.IndexByte(text, 0) >= 0 {
		return text, false
	}
	n := strings.Count(text, "&")
	if n == 0 {
		return text, true
	}
	if strings.Count(text, "&amp;") < n {
		return text, false
	}
	return strings.ReplaceAll(text, "&amp;", "&"), true
}

// oddAttributes does the same as attributes for one tag, with html.Tokenizer.
func (t *tokens) oddAttributes(tag []byte, attrs []html.Attribute) []html.Attribute {
	t.tokenize(tag)
	for _, more := t.tokenizer.TagName(); more; {
		var key, value []byte
		key, value, more = t.tokenizer.TagAttr()
		if name := attributeName(key); name != "" {
			attrs = append(attrs, html.Attribute{Key: name, Val: string(value)})
		}
	}
	return attrs
}

// tokenize makes tag the current token of tokenizer, and returns its type.
func (t *tokens) tokenize(tag []byte) html.TokenType {
	t.tag.Reset(tag)
	if t.tokenizer == nil {
		t.tokenizer = html.NewTokenizer(&t.tag)
	}
	kind := t.tokenizer.Next() // never html.ErrorToken, because the input is a whole tag
	t.tokenizer.NextIsNotRawText()
	return kind
}
