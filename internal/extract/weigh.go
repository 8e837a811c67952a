package extract

import (
	"bytes"
	"math"

	"golang.org/x/net/html/atom"
)

const (
	nodeBytes      = 128 // an html.Node with the overhead of its allocation
	attributeBytes = 48  // an html.Attribute

	// adopted is the maximum number of elements that the adoption agency algorithm of the
	// HTML standard makes for one tag: eight rounds of four.
	adopted = 8 * 4

	// maxPending is the maximum number of open formatting elements that may still count
	// as well nested.
	maxPending = 64
)

// weigh returns an upper bound of the memory in bytes that the tree of text takes. It is
// at least documentFactor for each byte of text.
//
// A tree usually takes about 8 times as much as its text, but a page can be written so
// that it takes 10,000 times as much. If formatting elements (<b>, <font> …) are not
// closed properly, the parser makes all of them again in each following block. With 300
// of them, each "<p>x", which has 4 bytes, becomes 300 elements. Only the parser knows
// which elements it makes again. This bound takes little time compared with parsing.
//
// weigh counts every < as a tag, even in a comment, a script or an attribute. That makes
// the bound larger, but never too small. A formatting element is well nested, and never
// made again, under two conditions: there are only text and inline tags between its tags,
// and each of these tags ends before the next < begins. Only then does the parser
// certainly recognise both its start tag and its end tag. All other formatting elements
// count from their start to the end of the page. At most three equal start tags count,
// because the parser drops the fourth (the "Noah's Ark clause").
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
		if w.scan < 0 { // many tags within tags, which no ordinary page has
			return math.MaxInt64
		}
		at += length
	}
	return max(w.bytes+2*int64(len(text))+32*nodeBytes, documentFactor*int64(len(text)))
}

// formatting is a start tag of an element that the parser may make again.
type formatting struct {
	name  atom.Atom
	tag   []byte
	bytes int64
}

// weigher weighs a page piece by piece.
type weigher struct {
	bytes   int64
	pending []formatting   // open elements that are well nested so far
	kept    map[string]int // number of elements that are not well nested, up to 3, by their tags
	again   int64          // bytes of all kept elements except <a>; the parser may make them again
	anchor  int64          // bytes of the heaviest kept <a>; at most one is open
	heavy   int64          // bytes of the heaviest formatting tag
	roots   int64          // bytes of the <html> and <body> tags so far
	scan    int            // how many more bytes of tags may be read
}

// piece weighs rest[:length], which is a tag and the text after it, up to the next <. If the
// tag ends formatting elements, the parser makes them again at most once, for this text or
// for the next tag.
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
		w.addRemade()
	case plain && inline(name):
	default:
		w.settle()
		w.block(tag, end)
		w.addRemade()
	}
}

// addRemade adds the weight of all kept elements, because the parser may make them again
// after a tag that ends other elements.
func (w *weigher) addRemade() { w.bytes += w.again + w.anchor }

// addAdopted adds the weight of the elements that the parser may make again after a tag
// that ends a formatting element in which other elements are open.
func (w *weigher) addAdopted() {
	w.bytes += adopted * w.heavy
	w.addRemade()
}

// open weighs the start tag of a formatting element.
func (w *weigher) open(tag formatting) {
	switch tag.name {
	case atom.A, atom.Nobr: // the tag ends an open element with the same name, wherever it began
		if w.anchor > 0 || tag.name == atom.Nobr || w.last(atom.A) >= 0 {
			w.settle()
			w.addAdopted()
		}
	}
	w.pending = append(w.pending, tag)
	if len(w.pending) > maxPending {
		w.settle()
	}
}

// close weighs the end tag of a formatting element.
func (w *weigher) close(name atom.Atom) {
	i := w.last(name)
	if i < 0 { // its start tag is before a tag that is not inline
		w.settle()
		w.addAdopted()
		return
	}
	within := w.pending[i+1:]
	w.pending = w.pending[:i]
	for _, p := range within {
		w.keep(p)
	}
	if len(within) > 0 {
		w.addRemade()
	}
}

// block weighs a tag that may break the nesting of inline elements.
func (w *weigher) block(tag formatting, end bool) {
	switch tag.name {
	case atom.Td, atom.Th, atom.Tr, atom.Col: // the parser may add a tbody and a row
		w.bytes += 2 * nodeBytes
	case atom.Html, atom.Body: // the parser compares its attributes with all earlier ones
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

// last returns the index of the last pending element with this name, or -1.
func (w *weigher) last(name atom.Atom) int {
	for i := len(w.pending) - 1; i >= 0; i-- {
		if w.pending[i].name == name {
			return i
		}
	}
	return -1
}

// settle keeps all pending elements, because they are not well nested.
func (w *weigher) settle() {
	for _, p := range w.pending {
		w.keep(p)
	}
	w.pending = w.pending[:0]
}

// keep adds an element that the parser may make again from now on.
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

// nameIn returns the name of the tag that a piece begins with, whether it is an end tag, and
// whether the piece begins with a tag at all.
func nameIn(piece []byte) (name atom.Atom, end, isTag bool) {
	if len(piece) > 1 && piece[1] == '/' {
		piece, end = piece[1:], true
	}
	if len(piece) < 2 || piece[1]|0x20 < 'a' || piece[1]|0x20 > 'z' {
		return 0, end, false
	}
	return tagName(piece), end, true
}

// formats reports whether the parser may make elements with this name again.
func formats(name atom.Atom) bool {
	switch name {
	case atom.A, atom.B, atom.Big, atom.Code, atom.Em, atom.Font, atom.I, atom.Nobr,
		atom.S, atom.Small, atom.Strike, atom.Strong, atom.Tt, atom.U:
		return true
	}
	return false
}

// inline reports whether an end tag with this name ends only its own element and those
// within it.
func inline(name atom.Atom) bool {
	switch name {
	case atom.Span, atom.Br, atom.Img, atom.Wbr, atom.Sub, atom.Sup, atom.Abbr, atom.Cite, atom.Label,
		atom.Q, atom.Kbd, atom.Var, atom.Samp, atom.Mark, atom.Time, atom.Ins, atom.Del, atom.Dfn, atom.Data:
		return true
	}
	return false
}
