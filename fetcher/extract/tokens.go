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
			if name, _ := z.TagName(); drawing > 0 && atom.Lookup(name) == atom.Svg {
				drawing--
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			tag := atom.Lookup(name)
			switch tag {
			case atom.Noscript:
				z.NextIsNotRawText()
			case atom.Svg:
				drawing++
			case atom.Title:
				if drawing == 0 && !found.hasTitle {
					title := ""
					if z.Next() == html.TextToken {
						title = string(z.Text())
					}
					found.setTitle(title)
				}
			}
			if !more || !isRead(tag) {
				continue
			}
			attrs = attrs[:0]
			for more {
				var key, value []byte
				key, value, more = z.TagAttr()
				if known := atom.Lookup(key); known != 0 || string(key) == "xlink:href" {
					attrs = append(attrs, html.Attribute{Key: attributeName(known), Val: string(value)})
				}
			}
			found.element(tag, attrs)
		}
	}
}

func attributeName(a atom.Atom) string {
	if a == 0 {
		return "xlink:href"
	}
	return a.String()
}
