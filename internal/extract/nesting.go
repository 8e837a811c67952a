package extract

import (
	"bytes"
	"strings"

	"golang.org/x/net/html/atom"
)

// This file keeps elements of HTML on the stack of open elements. It follows the standard where
// this decides which elements are open, and treats formatting elements that are not nested well
// as if the tags of the page were.

// openHTML puts the element of an HTML start tag onto the stack, and closes the elements that the
// tag ends. rest begins with the tag.
func (o *openElements) openHTML(tag atom.Atom, rest []byte) {
	switch tag {
	case atom.Html, atom.Head, atom.Body, atom.Frameset, atom.Frame, atom.Area, atom.Base, atom.Basefont, atom.Bgsound,
		atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Image, atom.Img, atom.Input, atom.Keygen, atom.Link, atom.Meta,
		atom.Param, atom.Source, atom.Track, atom.Wbr:
		if tag == atom.Hr {
			o.closeHTML(atom.P, uint32(atom.P))
		}
		return
	case atom.Caption, atom.Colgroup, atom.Tbody, atom.Tfoot, atom.Thead, atom.Tr, atom.Td, atom.Th:
		if !o.openPartOfTable(tag) {
			return
		}
	case atom.Li:
		o.closeItem(atom.Li, atom.Li)
	case atom.Dd, atom.Dt:
		o.closeItem(atom.Dd, atom.Dt)
	case atom.Form:
		for _, e := range o.all {
			if e.name == uint32(atom.Form) && e.kind == htmlElement {
				return // a form in a form does not count
			}
		}
		o.closeHTML(atom.P, uint32(atom.P))
	case atom.Select:
		before := len(o.all)
		if o.closeHTML(tag, uint32(tag)); len(o.all) < before {
			return // a list in a list only ends it
		}
	case atom.Button:
		o.closeHTML(tag, uint32(tag))
	case atom.A:
		o.closeHTML(atom.A, uint32(atom.A))
	case atom.Option, atom.Optgroup:
		if n := len(o.all) - 1; n >= 0 && o.all[n].name == uint32(atom.Option) {
			o.cut(n)
		}
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		o.closeHTML(atom.P, uint32(atom.P))
		if n := len(o.all) - 1; n >= 0 && isHeading(atom.Atom(o.all[n].name)) {
			o.cut(n)
		}
	default:
		if closesParagraph(tag) {
			o.closeHTML(atom.P, uint32(atom.P))
		}
	}
	o.push(element{name: nameID(tag, rest), host: canHost(tag, rest)})
}

// openPartOfTable closes the parts of a table that a further part ends. It returns false if no
// table is open.
func (o *openElements) openPartOfTable(tag atom.Atom) bool {
	within := []atom.Atom{atom.Table}
	switch tag {
	case atom.Tr:
		within = []atom.Atom{atom.Tbody, atom.Tfoot, atom.Thead, atom.Table}
	case atom.Td, atom.Th:
		within = []atom.Atom{atom.Tr, atom.Tbody, atom.Tfoot, atom.Thead, atom.Table}
	}
	for i := len(o.all) - 1; i >= 0 && !o.all[i].kind.template() && !o.all[i].kind.point(); i-- {
		for _, name := range within {
			if o.all[i].name == uint32(name) && o.all[i].kind == htmlElement {
				o.cut(i + 1)
				return true
			}
		}
	}
	return false
}

// closeItem closes an open item of a list and its paragraphs, where another item begins.
func (o *openElements) closeItem(name, other atom.Atom) {
	for i := len(o.all) - 1; i >= 0; i-- {
		e := o.all[i]
		switch {
		case e.kind == htmlElement && (e.name == uint32(name) || e.name == uint32(other)):
			o.cut(i)
			return
		case e.kind != htmlElement, isSpecial(e.name) && e.name != uint32(atom.Address) && e.name != uint32(atom.Div) && e.name != uint32(atom.P):
			o.closeHTML(atom.P, uint32(atom.P))
			return
		}
	}
}

// closeHTML reads an end tag with this name outside SVG and MathML.
func (o *openElements) closeHTML(tag atom.Atom, name uint32) {
	formats := formats(tag)
	for i := len(o.all) - 1; i >= 0; i-- {
		e := o.all[i]
		switch {
		case e.kind == htmlElement && (e.name == name || isHeading(tag) && isHeading(atom.Atom(e.name))):
			if formats && o.hasSpecial(i+1) {
				o.remove(i)
			} else {
				o.cut(i)
			}
			return
		case e.kind.template(), e.kind.point():
			return
		case e.kind != htmlElement: // SVG or MathML that is not closed
		case isPartOfTable(tag):
			if e.name == uint32(atom.Table) {
				return
			}
		case isSpecial(name) || formats:
			if isScope(e.name) || tag == atom.P && e.name == uint32(atom.Button) || tag == atom.Li && (e.name == uint32(atom.Ol) || e.name == uint32(atom.Ul)) {
				return
			}
		case isSpecial(e.name):
			return
		}
	}
}

// hasSpecial reports whether a special element is open at the index or within.
func (o *openElements) hasSpecial(index int) bool {
	for _, e := range o.all[index:] {
		if e.kind == htmlElement && isSpecial(e.name) {
			return true
		}
	}
	return false
}

// canHost reports whether a shadow tree can be attached to an element. The names are those of the
// DOM standard, 4.9, and of custom elements.
func canHost(tag atom.Atom, rest []byte) bool {
	switch tag {
	case atom.Article, atom.Aside, atom.Blockquote, atom.Body, atom.Div, atom.Footer, atom.H1, atom.H2, atom.H3, atom.H4,
		atom.H5, atom.H6, atom.Header, atom.Main, atom.Nav, atom.P, atom.Section, atom.Span:
		return true
	}
	name := rest[1:skipTo(rest, 1, afterName)]
	return bytes.IndexByte(name, '-') > 0 && !reservedNames[strings.ToLower(string(name))]
}

// reservedNames have a hyphen but are no names of custom elements.
var reservedNames = map[string]bool{
	"annotation-xml": true, "color-profile": true, "font-face": true, "font-face-src": true, "font-face-uri": true,
	"font-face-format": true, "font-face-name": true, "missing-glyph": true,
}

func isHeading(tag atom.Atom) bool {
	switch tag {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return true
	}
	return false
}

func isPartOfTable(tag atom.Atom) bool {
	switch tag {
	case atom.Table, atom.Caption, atom.Colgroup, atom.Tbody, atom.Tfoot, atom.Thead, atom.Tr, atom.Td, atom.Th:
		return true
	}
	return false
}

// isScope reports whether an end tag does not reach beyond an element with this name.
func isScope(name uint32) bool {
	switch atom.Atom(name) {
	case atom.Applet, atom.Caption, atom.Marquee, atom.Object, atom.Table, atom.Td, atom.Th:
		return true
	}
	return false
}

// closesParagraph reports whether a start tag ends an open <p>.
func closesParagraph(tag atom.Atom) bool {
	switch tag {
	case atom.Address, atom.Article, atom.Aside, atom.Blockquote, atom.Center, atom.Details, atom.Dialog, atom.Dir, atom.Div,
		atom.Dl, atom.Fieldset, atom.Figcaption, atom.Figure, atom.Footer, atom.Form, atom.Header, atom.Hgroup, atom.Listing,
		atom.Main, atom.Menu, atom.Nav, atom.Ol, atom.P, atom.Pre, atom.Search, atom.Section, atom.Summary, atom.Table, atom.Ul:
		return true
	}
	return false
}

// isSpecial reports whether elements with this name are special (HTML standard, 13.2.4.2).
func isSpecial(name uint32) bool {
	tag := atom.Atom(name)
	switch tag {
	case atom.Applet, atom.Button, atom.Dd, atom.Dt, atom.Li, atom.Marquee, atom.Noscript, atom.Object, atom.Select:
		return true
	}
	return closesParagraph(tag) || isHeading(tag) || isPartOfTable(tag)
}
