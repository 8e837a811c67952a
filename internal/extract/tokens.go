package extract

import (
	"bytes"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// readTokens passes the start tags of text to the collector without building a tree. That takes
// a fraction of the time, and there is no limit of depth.
//
// It finds every element that html.Parse would put into its tree, except within SVG and MathML:
// there <style> and <title> may contain elements, but the tokenizer reads their content as
// text. It also finds elements that the parser drops because they are not allowed in their
// place (a link within <select>, a frame outside a frameset).
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
	text     []byte
	at       int // the text before this index was read
	found    *collector
	openSVGs int // how many <svg> are open: a <title> in them is not that of the page
	attrs    []html.Attribute

	tag       bytes.Reader    // what tokenizer reads
	tokenizer *html.Tokenizer // for difficult tags; nil until there is one
}

// next reads the tag, comment or text at the next <. It returns false at the end of the text.
func (t *tokens) next() bool {
	start := bytes.IndexByte(t.text[t.at:], '<')
	if t.found.open >= 0 {
		text := t.text[t.at:]
		if start >= 0 {
			text = text[:start]
		}
		text = text[:min(len(text), 8*MaxAnchorBytes)]
		if bytes.ContainsAny(text, "&\r\x00") {
			text = []byte(plainText(text))
		}
		addText(t.found, text)
	}
	if start < 0 {
		return false
	}
	t.at += start
	rest := t.text[t.at:]
	if len(rest) < 2 {
		return false
	}
	switch c := rest[1]; {
	case isLetter(c):
		return t.startTag(rest)
	case c == '/' && len(rest) > 2 && isLetter(rest[2]):
		if t.openSVGs > 0 && tagName(rest[1:]) == atom.Svg {
			t.openSVGs--
		}
		if t.found.open >= 0 && tagName(rest[1:]) == atom.A {
			t.found.closeAnchor()
		}
		return t.skip(tagEnd(rest))
	case c == '!' && bytes.HasPrefix(rest, []byte("<!--")):
		return t.skip(commentEnd(rest))
	case c == '!', c == '?', c == '/':
		return t.skip(bytes.IndexByte(rest, '>') + 1)
	}
	if t.found.open >= 0 {
		addText(t.found, "<")
	}
	t.at++ // the < is text
	return true
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
	if !t.found.reads(tag) {
		if !t.skip(tagEnd(rest)) {
			return false
		}
	} else {
		var size int
		if t.attrs, size = t.attributes(rest, t.attrs[:0]); !t.skip(size) {
			return false
		}
		t.found.element(tag, t.attrs)
	}
	switch tag {
	case atom.Svg:
		if size := len(rest) - len(t.text[t.at:]); !t.selfCloses(rest[:size]) {
			t.openSVGs++
		}
	case atom.Plaintext:
		return false
	}
	return !isRawText(tag) || t.rawText(tag)
}

// selfCloses reports whether the start tag of a drawing is also its end, as in "<svg/>". The
// slash of "<svg id=x/>" belongs to the value.
func (t *tokens) selfCloses(tag []byte) bool {
	return bytes.HasSuffix(tag, []byte("/>")) && t.tokenize(tag) == html.SelfClosingTagToken
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
	case tag == atom.Title && t.openSVGs == 0 && !t.found.hasTitle:
		t.found.setTitle(plainText(text))
	case tag == atom.Script && ended && hidesScript(text):
		z := html.NewTokenizer(io.MultiReader(strings.NewReader("<script>"), bytes.NewReader(rest)))
		z.Next()
		z.Next()
		text = rest[:len(z.Raw())]
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
