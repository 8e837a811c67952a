package fields

import (
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
)

// condition is what a selector, or a part of it, demands of a node. The answers are those of
// package cascadia, but the work is counted in the tree while the answer is found: when the
// tree is given up, holds soon returns, and its answer means nothing.
//
// A page can be written so that the same questions are asked about a node again and again, as
// in ".a .b .c" on deeply nested elements, or in ":has(:has(p))". Conditions whose answer can
// take more than a few steps therefore remember it, once the page has led to many questions (see
// tree.recall). The steps for a page are then proportional to its nodes times the length of the
// selector, except for the work of a single step.
type condition interface {
	holds(t *tree, n *html.Node) bool
}

// anyOf is a list of selectors, separated by commas.
type anyOf []condition

func (s anyOf) holds(t *tree, n *html.Node) bool {
	for _, one := range s {
		if one.holds(t, n) {
			return true
		}
	}
	return false
}

// allOf is a sequence of simple selectors. The empty one is the universal selector.
type allOf []condition

func (s allOf) holds(t *tree, n *html.Node) bool {
	for _, one := range s {
		if !one.holds(t, n) {
			return false
		}
	}
	return len(s) > 0 || n.Type == html.ElementNode
}

// simple is a selector that has no conditions on other nodes within it.
type simple struct {
	cascadia.Matcher
	steps int // how much work it may be: wideSteps if it looks at other nodes than n
}

// wideSteps counts for a simple selector that looks at the text, the siblings or the
// ancestors of a node.
const wideSteps = 8

func (s *simple) holds(t *tree, n *html.Node) bool {
	if s.steps > 0 && t.late(s.steps) {
		return false
	}
	return s.Match(n)
}

// before is a selector with one of the combinators > and +: the node next to n, its parent or
// the element before it, must have the condition first.
type before struct {
	first, second condition
	next          func(n *html.Node) *html.Node
}

func (s *before) holds(t *tree, n *html.Node) bool {
	if !s.second.holds(t, n) {
		return false
	}
	next := s.next(n)
	return next != nil && s.first.holds(t, next)
}

// behind is a selector with one of the combinators white space and ~: any of the nodes that
// follow from n, its ancestors or earlier siblings, must have the condition first.
type behind struct {
	first, second condition
	next          func(n *html.Node) *html.Node
}

func (s *behind) holds(t *tree, n *html.Node) bool {
	if !s.second.holds(t, n) {
		return false
	}
	found, last := false, n
	for {
		if answer, known := t.recall(s, last); known {
			found = answer
			break
		}
		next := s.next(last)
		if next == nil || t.late(1) {
			break
		}
		if s.first.holds(t, next) {
			found = true
			break
		}
		last = next
	}
	// The answer is the same for all nodes from n to last: none of the nodes between them has
	// the condition first.
	for at := n; t.remembers(); at = s.next(at) {
		t.note(s, at, found)
		if at == last {
			break
		}
	}
	return found
}

func parentOf(n *html.Node) *html.Node { return n.Parent }

func previousOf(n *html.Node) *html.Node { return n.PrevSibling }

// elementBefore returns the sibling before n that is neither text nor a comment, or nil.
func elementBefore(n *html.Node) *html.Node {
	for n = n.PrevSibling; n != nil && (n.Type == html.TextNode || n.Type == html.CommentNode); n = n.PrevSibling {
	}
	return n
}

// not is the selector :not(inner).
type not struct{ inner condition }

func (s *not) holds(t *tree, n *html.Node) bool {
	return n.Type == html.ElementNode && !s.inner.holds(t, n)
}

// has is the selector :has(inner), or :haschild(inner) if only children count.
type has struct {
	inner    condition
	children bool
}

func (s *has) holds(t *tree, n *html.Node) bool {
	if n.Type != html.ElementNode {
		return false
	}
	if answer, known := t.recall(s, n); known {
		return answer
	}
	found := false
	for c := n.FirstChild; c != nil && !found && !t.late(1); c = c.NextSibling {
		found = s.inner.holds(t, c) || !s.children && s.holds(t, c)
	}
	if t.remembers() {
		t.note(s, n, found)
	}
	return found
}

// matched is a selector with a regular expression: :matches, :matchesOwn or [name#=].
type matched struct {
	expr  *regexp.Regexp
	steps int // instructions of expr, each of which may run for each character of a text
	texts func(n *html.Node, yield func(text string) bool)
}

func (s *matched) holds(t *tree, n *html.Node) (found bool) {
	s.texts(n, func(text string) bool {
		found = !t.late(wideSteps) && s.match(t, text)
		return !found
	})
	return found
}

// quickMatch is the largest number of characters times instructions of an expression for
// which the time is not measured during the match. It takes some ms at most.
const quickMatch = 1 << 19

// match reports whether the expression matches in text. Beyond quickMatch it can be given up at
// any character.
func (s *matched) match(t *tree, text string) bool {
	if s.steps*len(text) <= quickMatch {
		return s.expr.MatchString(text)
	}
	return s.expr.MatchReader(&counted{tree: t, text: text, steps: s.steps})
}

// counted reads a text for a regular expression, and counts steps for each character. When the
// tree is given up, the text ends.
type counted struct {
	tree  *tree
	text  string
	steps int // for each character
	count int // steps that the tree does not know yet
}

// ReadRune implements io.RuneReader.
func (c *counted) ReadRune() (r rune, size int, err error) {
	if c.count += c.steps; c.count > quickMatch/8 {
		c.count = 0
		c.tree.late(checkSteps)
	}
	if c.text == "" || c.tree.over {
		return 0, 0, io.EOF
	}
	r, size = utf8.DecodeRuneInString(c.text)
	c.text = c.text[size:]
	return r, size, nil
}

// nodeText yields the text of an element and all nodes below it, or the text of a text node.
func nodeText(n *html.Node, yield func(text string) bool) {
	var b strings.Builder
	for c := n; c != nil && n.Type != html.DocumentNode; c = following(c, n) {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	yield(b.String())
}

// ownText yields the text directly below n.
func ownText(n *html.Node, yield func(text string) bool) {
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	yield(b.String())
}

// valuesOf returns a function that yields the values of an attribute of n.
func valuesOf(name string) func(n *html.Node, yield func(text string) bool) {
	return func(n *html.Node, yield func(text string) bool) {
		for i := range n.Attr {
			if n.Type == html.ElementNode && n.Attr[i].Key == name && !yield(n.Attr[i].Val) {
				return
			}
		}
	}
}
