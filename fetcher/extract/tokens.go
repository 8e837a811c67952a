package extract

import (
	"bytes"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// readTokens shows the start tags of text to found, without building a tree:
// half the time, and no limit of depth.
//
// It sees every element of the parser's document, and besides what the parser
// throws away because it stands where it may not (a link within <select>, a
// frame outside a frameset). Only within SVG and MathML the parser can see more:
// there a <style> or <title> has elements where the tokenizer sees text.
func readTokens(text []byte, found *collector) {
	z := html.NewTokenizer(bytes.NewReader(text))
	var attrs []html.Attribute
	for drawing := 0; ; { // how many <svg> are open: they have titles of their own
		switch z.Next() {
		case html.ErrorToken:
			return
		case html.EndTagToken:
			if drawing > 0 && tagName(z.Raw()[1:]) == atom.Svg {
				drawing--
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			switch tag := tagName(z.Raw()); {
			case tag == atom.Noscript:
				z.NextIsNotRawText()
			case tag == atom.Svg:
				drawing++
			case tag == atom.Title && drawing == 0 && !found.hasTitle:
				found.setTitle(nextText(z))
			case found.reads(tag):
				attrs = readAttributes(z, attrs[:0])
				found.element(tag, attrs)
			}
		}
	}
}

// tagName returns the name in a tag, "<a href=x>"; 0 for an unknown one. It
// spares the copy that the tokenizer makes of every name.
func tagName(tag []byte) atom.Atom {
	name := tag[1:skipTo(tag, 1, afterName)]
	if a := atom.Lookup(name); a != 0 {
		return a
	}
	return atom.Lookup(bytes.ToLower(name))
}

// nextText returns the token behind a start tag if it is text.
func nextText(z *html.Tokenizer) string {
	if z.Next() == html.TextToken {
		return string(z.Text())
	}
	return ""
}

// readAttributes appends the attributes of a tag that any element reads.
func readAttributes(z *html.Tokenizer, attrs []html.Attribute) []html.Attribute {
	_, more := z.TagName()
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		name := atom.Lookup(key).String()
		if name == "" {
			switch string(key) {
			case "xlink:href":
				name = "xlink:href"
			case "background":
				name = "background"
			case "imagesrcset":
				name = "imagesrcset"
			default:
				continue
			}
		}
		attrs = append(attrs, html.Attribute{Key: name, Val: string(value)})
	}
	return attrs
}
