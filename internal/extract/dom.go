package extract

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// walk passes every element of a document to the collector, in document order.
func walk(root *html.Node, found *collector) {
	for n := root; ; {
		switch {
		case n.Type == html.TextNode && found.open >= 0 && !isRawText(n.Parent.DataAtom):
			addText(found, n.Data)
		case n.Type == html.ElementNode:
			if n.DataAtom == atom.Title && n.Namespace == "" && !found.hasTitle {
				found.setTitle(childText(n))
			}
			found.element(n.DataAtom, n.Attr)
		}
		if n.FirstChild != nil {
			n = n.FirstChild
			continue
		}
		leave(n, found)
		for n != root && n.NextSibling == nil {
			n = n.Parent
			leave(n, found)
		}
		if n == root {
			return
		}
		n = n.NextSibling
	}
}

// leave is called at the end of each node. It ends the text of a link at the end of its <a>.
func leave(n *html.Node, found *collector) {
	if found.open >= 0 && n.DataAtom == atom.A && n.Type == html.ElementNode {
		found.closeAnchor()
	}
}

// childText returns the text directly below n.
func childText(n *html.Node) string {
	var text strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.TextNode {
			text.WriteString(c.Data)
		}
	}
	return text.String()
}
