package extract

import (
	"bytes"
	"math"

	"golang.org/x/net/html/atom"
)

const (
	nodeBytes      = 128 // an html.Node with what it takes to allocate it
	attributeBytes = 48  // an html.Attribute

	// adopted is how many elements the adoption agency algorithm makes at most
	// for one tag: eight rounds of four.
	adopted = 8 * 4

	// maxPending is how many formatting elements may be open and still count as
	// well nested.
	maxPending = 64
)

// weigh returns an upper bound of the bytes that the tree of text takes, at least
// documentFactor for each byte of text.
//
// A tree takes about 8 times its text, but a page can make it 10,000 times: the
// parser makes formatting elements (<b>, <font> …) that are not closed properly
// again in each following block, all of them. So with 300 of them, each "<p>x"
// becomes 300 elements for 4 bytes. Only the parser knows which elements these are;
// this bound costs little compared with parsing.
//
// It counts every < as a tag, also in a comment, a script or an attribute, which
// makes the bound larger and never wrong. A formatting element is well nested, and
// never made again, if only text and inline tags lie between its tags, and each of
// these ends before the next < begins, so that its start and end tag are both
// recognised. All others count from their start to the end of the page, up to three
// of each spelling, because the parser drops the fourth (the "Noah's Ark clause").
func weigh(text []byte) int64 {
	w := weigher{kept: make(map[string]int), scan: 16 * len(text)}
	for at := bytes.IndexByte(text, '<'); at >= 0; {
		next := bytes.IndexByte(text[at+1:], '<')
		length := len(text) - at
		if next >= 0 {
			length = 1 + next
		}
		w.piece(text[at:], length)
		if next < 0 {
			break
		}
		if w.scan < 0 { // tags within tags: no page has reason to
			return math.MaxInt64
		}
		at += length
	}
	return max(w.bytes+2*int64(len(text))+32*nodeBytes, documentFactor*int64(len(text)))
}

// formatting is a start tag of an element that the parser may make anew.
type formatting struct {
	name  atom.Atom
	tag   []byte
	bytes int64
}

// weigher weighs a page piece by piece.
type weigher struct {
	bytes   int64
	pending []formatting   // open, and well nested so far
	kept    map[string]int // how many are not, up to 3, by their tags
	again   int64          // the bytes of all that are made anew where something ends them
	anchor  int64          // those of the heaviest <a>: one at most is open
	heavy   int64          // those of the heaviest tag of all
	roots   int64          // attributes of <html> and <body> so far
	scan    int            // how many more bytes of tags may be read
}

// piece weighs what begins with rest's < and ends, length bytes on, before the
// next one: a tag and the text behind it. What a tag ends is made anew by that
// text, or by the next tag, once.
func (w *weigher) piece(rest []byte, length int) {
	name, end, isTag := nameIn(rest[:length])
	if !isTag { // a comment, or text
		w.settle()
		w.bytes += 2 * nodeBytes
		return
	}
	size, attributes := scanTag(rest)
	w.scan -= size
	tag := formatting{name, rest[:size], nodeBytes + attributes*attributeBytes}
	w.bytes += tag.bytes + attributes*attributeBytes + nodeBytes // slices grow by doubling
	if formats(name) && !end {
		w.heavy = max(w.heavy, tag.bytes)
	}
	switch plain := size <= length; {
	case plain && formats(name) && end:
		w.close(name)
	case plain && formats(name):
		w.open(tag)
	case plain && inline(name) && end:
		for _, p := range w.pending {
			w.bytes += p.bytes
		}
		w.ends()
	case plain && inline(name):
	default:
		w.settle()
		w.block(tag, end)
		w.ends()
	}
}

// ends weighs what is made anew behind a tag that may end everything.
func (w *weigher) ends() { w.bytes += w.again + w.anchor }

// adopts weighs what is made anew behind a tag that ends a formatting element
// across others.
func (w *weigher) adopts() {
	w.bytes += adopted * w.heavy
	w.ends()
}

// open takes the start tag of a formatting element.
func (w *weigher) open(tag formatting) {
	switch tag.name {
	case atom.A, atom.Nobr: // it ends another one, wherever that began
		if w.anchor > 0 || tag.name == atom.Nobr || w.last(atom.A) >= 0 {
			w.settle()
			w.adopts()
		}
	}
	w.pending = append(w.pending, tag)
	if len(w.pending) > maxPending {
		w.settle()
	}
}

// close takes the end tag of a formatting element.
func (w *weigher) close(name atom.Atom) {
	i := w.last(name)
	if i < 0 { // what it ends began before something that is not inline
		w.settle()
		w.adopts()
		return
	}
	within := w.pending[i+1:]
	w.pending = w.pending[:i]
	for _, p := range within {
		w.keep(p)
	}
	if len(within) > 0 {
		w.ends()
	}
}

// block takes any other tag.
func (w *weigher) block(tag formatting, end bool) {
	switch tag.name {
	case atom.Td, atom.Th, atom.Tr, atom.Col: // begin a body and a row
		w.bytes += 2 * nodeBytes
	case atom.Html, atom.Body: // attributes are held against all before them
		w.roots += tag.bytes
		w.bytes += w.roots
	default:
		if !formats(tag.name) {
			return
		}
		w.bytes += adopted * w.heavy
		if !end {
			w.keep(tag)
		}
	}
}

// last returns the index of the last pending element of that name, or -1.
func (w *weigher) last(name atom.Atom) int {
	for i := len(w.pending) - 1; i >= 0; i-- {
		if w.pending[i].name == name {
			return i
		}
	}
	return -1
}

// settle gives up on what is pending: it is not well nested.
func (w *weigher) settle() {
	for _, p := range w.pending {
		w.keep(p)
	}
	w.pending = w.pending[:0]
}

// keep takes an element that may be made anew from now on.
func (w *weigher) keep(tag formatting) {
	if tag.name == atom.A {
		w.anchor = max(w.anchor, tag.bytes)
		return
	}
	if n := w.kept[string(tag.tag)]; n < 3 {
		w.kept[string(tag.tag)] = n + 1
		w.again += tag.bytes
	}
}

// nameIn returns the name of the tag that a piece begins with.
func nameIn(piece []byte) (name atom.Atom, end, isTag bool) {
	if len(piece) > 1 && piece[1] == '/' {
		piece, end = piece[1:], true
	}
	if len(piece) < 2 || piece[1]|0x20 < 'a' || piece[1]|0x20 > 'z' {
		return 0, end, false
	}
	return tagName(piece), end, true
}

// formats reports whether the parser makes elements of this name anew.
func formats(name atom.Atom) bool {
	switch name {
	case atom.A, atom.B, atom.Big, atom.Code, atom.Em, atom.Font, atom.I, atom.Nobr,
		atom.S, atom.Small, atom.Strike, atom.Strong, atom.Tt, atom.U:
		return true
	}
	return false
}

// inline reports whether tags of this name end no elements but those of it and
// what is within.
func inline(name atom.Atom) bool {
	switch name {
	case atom.Span, atom.Br, atom.Img, atom.Wbr, atom.Sub, atom.Sup, atom.Abbr, atom.Cite, atom.Label,
		atom.Q, atom.Kbd, atom.Var, atom.Samp, atom.Mark, atom.Time, atom.Ins, atom.Del, atom.Dfn, atom.Data:
		return true
	}
	return false
}
