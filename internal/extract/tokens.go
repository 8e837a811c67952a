package extract

import (
	"bytes"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// readTokens shows the start tags of text to found, without building a tree: a
// fraction of the time, and no limit of depth.
//
// It sees every element of the parser's document, and besides what the parser
// throws away because it stands where it may not (a link within <select>, a
// frame outside a frameset). Only within SVG and MathML the parser can see more:
// there a <style> or <title> has elements where the tokenizer sees text.
func readTokens(text []byte, found *collector) {
	t := tokens{text: text, found: found}
	for t.next() {
	}
	found.closeAnchor()
}

// tokens finds the start tags that html.Tokenizer finds, in several times less
// time: it jumps from one < to the next, and takes apart only tags that the
// collector reads. What is rare and intricate it asks html.Tokenizer.
type tokens struct {
	text    []byte
	at      int // what is before was read
	found   *collector
	drawing int // how many <svg> are open: they have titles of their own
	attrs   []html.Attribute

	tag   bytes.Reader    // what odd reads
	oddly *html.Tokenizer // nil until there is an odd tag
}

// next reads what begins at the next <. It returns false at the end of the text.
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
		if t.drawing > 0 && tagName(rest[1:]) == atom.Svg {
			t.drawing--
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
	t.at++ // it is text
	return true
}

// skip goes on by n bytes; 0 means what begins here does not end.
func (t *tokens) skip(n int) bool {
	t.at += n
	return n > 0
}

// startTag reads the start tag that rest begins with, and the text behind it if
// it is one in which tags are text.
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
		t.drawing++
	case atom.Plaintext:
		return false
	}
	return !isRawText(tag) || t.rawText(tag)
}

// isRawText reports whether the tags in an element are text.
func isRawText(tag atom.Atom) bool {
	switch tag {
	case atom.Iframe, atom.Noembed, atom.Noframes, atom.Script, atom.Style, atom.Textarea, atom.Title, atom.Xmp:
		return true
	}
	return false
}

// rawText reads the text of an element in which tags are text.
func (t *tokens) rawText(tag atom.Atom) bool {
	rest := t.text[t.at:]
	text, ended := untilEndTag(rest, tag.String())
	switch {
	case tag == atom.Title && t.drawing == 0 && !t.found.hasTitle:
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

// untilEndTag returns what of b is before the end tag of that name, all of it
// if there is none.
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

// hidesScript reports whether the end tag behind the text of a script may not
// be its end: "<!-- <script>" makes the next one text.
func hidesScript(text []byte) bool {
	_, comment, found := bytes.Cut(text, []byte("<!--"))
	return found && bytes.Contains(bytes.ToLower(comment), []byte("<script"))
}

// plainText returns the text of a title as the tokenizer tells it.
func plainText(text []byte) string {
	return html.UnescapeString(newlines.Replace(string(text)))
}

var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\uFFFD")

// commentEnd returns the length of the comment that b begins with, 0 if it does
// not end. "<!-->" and "<!--->" are comments, and "--!>" ends one, too.
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

// attributes appends the attributes of the tag that b begins with, of those that
// any element reads, and returns the tag's length, 0 if it does not end.
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

// unescaped returns the value of an attribute with its references resolved; not
// plain: it has others than &amp;, or bytes that the tokenizer replaces.
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

// oddAttributes is attributes of one tag, read by html.Tokenizer.
func (t *tokens) oddAttributes(tag []byte, attrs []html.Attribute) []html.Attribute {
	t.tag.Reset(tag)
	if t.oddly == nil {
		t.oddly = html.NewTokenizer(&t.tag)
	}
	t.oddly.Next() // it ends with the last byte, and so does not meet the end of its input
	t.oddly.NextIsNotRawText()
	for _, more := t.oddly.TagName(); more; {
		var key, value []byte
		key, value, more = t.oddly.TagAttr()
		if name := attributeName(key); name != "" {
			attrs = append(attrs, html.Attribute{Key: name, Val: string(value)})
		}
	}
	return attrs
}
