package extract

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// readTree does what HTML must do with a valid page, but reads the tree of html.Parse.
func readTree(body, contentType string, base canon.URL, opt Options) *Page {
	name, _ := charsetOf([]byte(body), contentType)
	text, charset := decode([]byte(body), name, nil)
	page, found := &Page{Charset: charset.name, opt: opt}, newCollector(opt)
	root, err := html.ParseWithOptions(bytes.NewReader(text), html.ParseOptionEnableScripting(false))
	if err == nil { // otherwise the page is nested too deep
		walk(root, found)
	}
	found.finish(page, base, charset.query)
	return page
}

// walk passes every element of a tree to the collector, in the order of the document.
func walk(n *html.Node, found *collector) {
	switch {
	case n.Type == html.TextNode && found.open >= 0 && !isRawText(n.Parent.DataAtom):
		addText(found, n.Data)
	case n.Type == html.ElementNode && n.DataAtom == atom.Template && n.Namespace == "":
		return
	case n.Type == html.ElementNode:
		switch n.DataAtom {
		case atom.Head:
			found.place = inHead
		case atom.Noscript:
			if found.place == inHead {
				found.place = inNoscript
			}
		case atom.Body:
			found.place = inBody
		case atom.Frameset:
			found.place = inFrames
		}
		switch n.Namespace {
		case "":
			if n.DataAtom == atom.Title && !found.hasTitle {
				found.setTitle(childText(n))
			}
			found.element(n.DataAtom, n.Attr)
		case "svg":
			drawing := slices.Clone(n.Attr)
			for i := range drawing {
				if drawing[i].Namespace != "" {
					drawing[i].Key = drawing[i].Namespace + ":" + drawing[i].Key
				}
			}
			found.drawing(n.DataAtom, drawing)
		}
	}
	for child := range n.ChildNodes() {
		walk(child, found)
	}
	if found.open >= 0 && n.DataAtom == atom.A && n.Type == html.ElementNode {
		found.closeAnchor()
	}
	if n.DataAtom == atom.Noscript && found.place == inNoscript {
		found.place = inHead
	}
}

// childText returns the text directly below n.
func childText(n *html.Node) string {
	var text strings.Builder
	for child := range n.ChildNodes() {
		if child.Type == html.TextNode {
			text.WriteString(child.Data)
		}
	}
	return text.String()
}

// TextBytes returns how much memory the text of a page takes.
func TextBytes(p *Page) int { return cap(p.text) }
