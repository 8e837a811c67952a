package fields

import (
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// finder finds the values of a source.
type finder interface {
	// find calls yield with each value in document order until yield returns false. If
	// there was no value, find returns the reason.
	find(t *tree, yield func(text string) bool) (reason string)
}

// maxValueBytes bounds the text of one element before it is converted. It is four times
// MaxFieldBytes, because the conversion drops white space.
const maxValueBytes = 4 * MaxFieldBytes

// tree is a page, together with results that are computed once and used for several fields.
type tree struct {
	Page
	over  bool // GiveUp returned true
	steps int  // how much work was done
	check int  // when there are so many steps, GiveUp is called

	// What conditions remember about nodes, see recall.
	asked   int
	numbers map[*html.Node]int32      // the place of each node in the document
	answers map[condition][]wasAnswer // index: the number of a node

	// The results of index, which walks through the page once for all sources that are
	// not selectors.
	indexed    bool
	metas      []*html.Node
	properties []*html.Node // elements with an itemprop
	scripts    []any        // JSON-LD, parsed
	broken     string       // why some JSON-LD was not read
}

// index finds the elements that contain structured data, once.
func (t *tree) index() {
	if t.indexed {
		return
	}
	t.indexed = true
	room := maxScriptBytes
	t.each(func(n *html.Node) bool {
		switch n.DataAtom {
		case atom.Meta:
			t.metas = append(t.metas, n)
		case atom.Script:
			t.readScript(n, &room)
		}
		if _, ok := attribute(n, "itemprop"); ok {
			t.properties = append(t.properties, n)
		}
		return true
	})
}

// checkSteps is the number of steps between two calls of GiveUp. Most steps take some ns.
const checkSteps = 32

// late counts steps, and reports whether to give up.
func (t *tree) late(steps int) bool {
	if t.steps += steps; t.steps >= t.check && t.GiveUp != nil && !t.over {
		t.check = t.steps + checkSteps
		t.over = t.GiveUp()
	}
	return t.over
}

// wasAnswer is what a condition remembers about a node. The zero value means nothing.
type wasAnswer uint8

const (
	wasFalse wasAnswer = 1 + iota
	wasTrue
)

// manyQuestions is the number of calls of recall after which answers are remembered. Ordinary
// pages need fewer, and remembering takes more time than most answers.
const manyQuestions = 1 << 16

// recall returns the answer of a condition for a node, if it was noted before.
func (t *tree) recall(c condition, n *html.Node) (answer, known bool) {
	if t.asked++; !t.remembers() {
		return false, false
	}
	answers := t.answers[c]
	if answers == nil {
		return false, false
	}
	was := answers[t.numbers[n]]
	return was == wasTrue, was != 0
}

// remembers reports whether answers must be noted.
func (t *tree) remembers() bool { return t.asked > manyQuestions }

// note remembers an answer.
func (t *tree) note(c condition, n *html.Node, answer bool) {
	if t.numbers == nil {
		t.numbers, t.answers = make(map[*html.Node]int32), make(map[condition][]wasAnswer)
		for at := t.Root; at != nil; at = following(at, t.Root) {
			t.numbers[at] = int32(len(t.numbers))
		}
	}
	answers := t.answers[c]
	if answers == nil {
		answers = make([]wasAnswer, len(t.numbers))
		t.answers[c] = answers
	}
	was := wasFalse
	if answer {
		was = wasTrue
	}
	answers[t.numbers[n]] = was
}

// each calls visit with the elements in document order until visit returns false or the
// page is given up.
func (t *tree) each(visit func(n *html.Node) bool) {
	for n := t.Root; n != nil && !t.over; {
		if n.Type == html.ElementNode && (t.late(1) || !visit(n)) {
			return
		}
		n = following(n, t.Root)
	}
}

// following returns the node after n in document order, below root, or nil at the end.
func following(n, root *html.Node) *html.Node {
	if n.FirstChild != nil {
		return n.FirstChild
	}
	for n != root && n.NextSibling == nil {
		n = n.Parent
	}
	if n == root {
		return nil
	}
	return n.NextSibling
}

// selected finds elements by a CSS selector.
type selected struct {
	match condition
	taken string // what is taken from each element: text, html, or the name of an attribute
}

func (s *selected) find(t *tree, yield func(string) bool) (reason string) {
	matches := false
	t.each(func(n *html.Node) bool {
		if !s.match.holds(t, n) {
			return true
		}
		if t.late(checkSteps) { // the answer means nothing, and the text of an element may be long
			return false
		}
		matches = true
		switch s.taken {
		case "text":
			return yield(textOf(n))
		case "html":
			return yield(htmlOf(n))
		}
		text, ok := attribute(n, s.taken)
		return !ok || yield(text)
	})
	if matches {
		return "no element that matches has the attribute " + s.taken
	}
	return "no element matches"
}

// attribute returns the value of an attribute, ignoring the case of its name.
func attribute(n *html.Node, name string) (value string, ok bool) {
	for i := range n.Attr {
		if strings.EqualFold(n.Attr[i].Key, name) {
			return n.Attr[i].Val, true
		}
	}
	return "", false
}

// textOf returns the text of an element as a browser shows it, without scripts and styles
// and with white space between blocks.
func textOf(root *html.Node) string {
	if c := root.FirstChild; c != nil && c.NextSibling == nil && c.Type == html.TextNode && len(c.Data) <= maxValueBytes {
		return c.Data
	}
	var b strings.Builder
	writeText(&b, root)
	return b.String()
}

// writeText writes the text below n.
func writeText(b *strings.Builder, n *html.Node) {
	for c := n.FirstChild; c != nil && b.Len() < maxValueBytes; c = c.NextSibling {
		switch {
		case c.Type == html.TextNode:
			b.WriteString(cut(c.Data, maxValueBytes-b.Len()))
		case c.Type != html.ElementNode || hidden(c.DataAtom):
		case inline(c.DataAtom):
			writeText(b, c)
		default:
			b.WriteByte(' ')
			writeText(b, c)
			b.WriteByte(' ')
		}
	}
}

// hidden reports whether a browser does not show the text of an element.
func hidden(name atom.Atom) bool {
	return name == atom.Script || name == atom.Style || name == atom.Template
}

// inline reports whether an element is part of a line of text.
func inline(name atom.Atom) bool {
	switch name {
	case atom.A, atom.Abbr, atom.B, atom.Bdi, atom.Bdo, atom.Big, atom.Cite, atom.Code, atom.Data, atom.Del, atom.Dfn,
		atom.Em, atom.Font, atom.I, atom.Ins, atom.Kbd, atom.Label, atom.Mark, atom.Nobr, atom.Q, atom.S, atom.Samp,
		atom.Small, atom.Span, atom.Strike, atom.Strong, atom.Sub, atom.Sup, atom.Time, atom.Tt, atom.U, atom.Var, atom.Wbr:
		return true
	}
	return false
}

// htmlOf returns the content of an element as HTML.
func htmlOf(n *html.Node) string {
	b := &bounded{room: maxValueBytes}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if html.Render(b, c) != nil {
			break
		}
	}
	return strings.ToValidUTF8(b.text.String(), "")
}

// bounded is a writer that fails after a number of bytes. It has all methods that html.Render
// uses, so that html.Render needs no buffer.
type bounded struct {
	text strings.Builder
	room int
}

// WriteString implements io.StringWriter.
func (b *bounded) WriteString(text string) (int, error) {
	n := min(len(text), b.room-b.text.Len())
	b.text.WriteString(text[:n])
	if n < len(text) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) { return b.WriteString(string(p)) }

// WriteByte implements io.ByteWriter.
func (b *bounded) WriteByte(c byte) error {
	_, err := b.WriteString(string([]byte{c}))
	return err
}
