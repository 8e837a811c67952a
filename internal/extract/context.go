package extract

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// This file knows where in a page a tag is, as far as that decides what the tag means: in the
// content of a template, in a shadow tree, in SVG or in MathML. It follows the tree construction
// of the HTML standard (13.2.6), but builds no tree.

// place is a part of a page.
type place uint8

const (
	inHead     place = iota // before the body begins
	inNoscript              // in a <noscript> of the head
	inBody
	inFrames // in or after a <frameset> that takes the place of the body
)

// elementKind says what the tags within an element mean.
type elementKind uint8

const (
	htmlElement elementKind = iota
	inertTemplate
	shadowTemplate
	svgElement
	mathElement
	mathAnnotation // <annotation-xml>: a tag <svg> in it is SVG
	mathText       // <mi>, <mo> …: nearly all tags in it are HTML
	htmlPoint      // <foreignObject> and others: all tags in it are HTML
)

// foreign reports whether an element of this kind is of SVG or MathML.
func (k elementKind) foreign() bool { return k >= svgElement }

// point reports whether HTML is allowed in an element of this kind of SVG or MathML.
func (k elementKind) point() bool { return k >= mathText }

// template reports whether an element of this kind is a <template> of HTML.
func (k elementKind) template() bool { return k == inertTemplate || k == shadowTemplate }

// element is an open element.
type element struct {
	name uint32 // see nameID
	kind elementKind
	host bool // a shadow tree can be attached to it
}

// Maximum numbers of open elements. More elements are open only in pages that are made to be
// deep. They are read as if the further start tags were not there.
const (
	maxOpen     = 512
	maxOpenHTML = maxOpen / 2
)

// openElements is the stack of open elements. While it is empty, all tags are HTML and count.
// It has elements of HTML only if they matter: within a place in SVG or MathML where HTML is
// allowed, and from the first tag on that means something else depending on them.
type openElements struct {
	all       []element
	complete  bool // all elements of HTML are in the stack
	bodyHosts bool // the body has a shadow tree already

	inert, shadows, points int // how many of all are inertTemplate, shadowTemplate, or points
}

// top returns the kind of the innermost element.
func (o *openElements) top() elementKind {
	if len(o.all) == 0 {
		return htmlElement
	}
	return o.all[len(o.all)-1].kind
}

// tracks reports whether elements of HTML go onto the stack.
func (o *openElements) tracks() bool { return o.complete || o.points > 0 }

func (o *openElements) push(e element) {
	if len(o.all) >= maxOpen || e.kind == htmlElement && len(o.all) >= maxOpenHTML {
		return
	}
	o.all = append(o.all, e)
	o.count(e.kind, 1)
}

// cut closes all elements from the index on.
func (o *openElements) cut(index int) {
	for _, e := range o.all[index:] {
		o.count(e.kind, -1)
	}
	o.all = o.all[:index]
}

// remove closes one element of HTML, but not those within it.
func (o *openElements) remove(index int) { o.all = append(o.all[:index], o.all[index+1:]...) }

func (o *openElements) count(kind elementKind, n int) {
	switch {
	case kind == inertTemplate:
		o.inert += n
	case kind == shadowTemplate:
		o.shadows += n
	case kind.point():
		o.points += n
	}
}

// leaveForeign closes the elements of SVG and MathML around a tag that can only be HTML.
func (o *openElements) leaveForeign() {
	i := len(o.all)
	for i > 0 && o.all[i-1].kind.foreign() && !o.all[i-1].kind.point() {
		i--
	}
	o.cut(i)
}

// closeForeign reads an end tag within SVG or MathML. It returns false if the tag ends an element
// of HTML around it, or none.
func (o *openElements) closeForeign(name uint32) bool {
	for i := len(o.all) - 1; i >= 0 && o.all[i].kind.foreign(); i-- {
		if o.all[i].name == name {
			o.cut(i)
			return true
		}
	}
	return false
}

// closeTemplate closes the innermost template of HTML, if any.
func (o *openElements) closeTemplate() {
	for i := len(o.all) - 1; i >= 0; i-- {
		if o.all[i].kind.template() {
			o.cut(i)
			return
		}
	}
}

// nameID returns a number for the name of a tag such as "<x-y a=b>". tag is its atom.
func nameID(tag atom.Atom, rest []byte) uint32 {
	if tag != 0 {
		return uint32(tag)
	}
	const prime, begin = 16777619, 2166136261 // FNV-1a
	id := uint32(begin)
	for _, c := range rest[1:skipTo(rest, 1, afterName)] {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		id = (id ^ uint32(c)) * prime
	}
	return id | 1<<31 // no atom has this bit
}

// attributeOf returns the value of the first attribute of a tag with this name, which is in lower
// case.
func attributeOf(tag []byte, name string) (text string, has bool) {
	text, has = rawAttribute(tag, name)
	return html.UnescapeString(text), has
}

// rawAttribute is like attributeOf, but does not replace character references.
func rawAttribute(tag []byte, name string) (text string, has bool) {
	for c := newCursor(tag); ; {
		end, key, value := c.attribute()
		if end >= 0 {
			return "", false
		}
		if len(key) == len(name) && strings.EqualFold(string(key), name) {
			return string(value), true
		}
	}
}

// isForeign reports whether a start tag within the innermost element belongs to SVG or MathML.
func (o *openElements) isForeign(tag atom.Atom) bool {
	switch o.top() {
	case svgElement, mathElement:
		return true
	case mathAnnotation:
		return tag != atom.Svg
	case mathText:
		return tag == atom.Mglyph || tag == atom.Malignmark
	}
	return false
}

// breaksOut reports whether a start tag ends all SVG and MathML around it.
func breaksOut(name atom.Atom, tag []byte) bool {
	switch name {
	case atom.B, atom.Big, atom.Blockquote, atom.Body, atom.Br, atom.Center, atom.Code, atom.Dd, atom.Div, atom.Dl, atom.Dt,
		atom.Em, atom.Embed, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Head, atom.Hr, atom.I, atom.Img,
		atom.Li, atom.Listing, atom.Menu, atom.Meta, atom.Nobr, atom.Ol, atom.P, atom.Pre, atom.Ruby, atom.S, atom.Small,
		atom.Span, atom.Strong, atom.Strike, atom.Sub, atom.Sup, atom.Table, atom.Tt, atom.U, atom.Ul, atom.Var:
		return true
	case atom.Font:
		for _, attribute := range []string{"color", "face", "size"} {
			if _, has := attributeOf(tag, attribute); has {
				return true
			}
		}
	}
	return false
}

// foreignKind returns the kind of an element of SVG or MathML that begins with tag.
func (o *openElements) foreignKind(name atom.Atom, tag []byte) elementKind {
	kind := o.top()
	if kind != svgElement {
		kind = mathElement // an element of SVG is never directly in a point of MathML
	}
	switch name {
	case atom.Foreignobject, atom.Desc, atom.Title:
		if kind == svgElement {
			return htmlPoint
		}
	case atom.Mi, atom.Mo, atom.Mn, atom.Ms, atom.Mtext:
		if kind == mathElement {
			return mathText
		}
	case atom.AnnotationXml:
		if kind != mathElement {
			break
		}
		if encoding, _ := attributeOf(tag, "encoding"); strings.EqualFold(encoding, "text/html") || strings.EqualFold(encoding, "application/xhtml+xml") {
			return htmlPoint
		}
		return mathAnnotation
	}
	return kind
}
