package maintext

import (
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxBlocks is the maximum number of blocks of a page. Text after them is left out.
const maxBlocks = 50_000

// block is a run of text that a reader sees as one unit: a paragraph, a heading, an item
// of a list, a row of a table.
type block struct {
	text    string
	words   int
	linked  int  // number of words that are in links
	heading bool // in h1 to h6
	code    bool // in pre
	within  bool // in an element that the page marks as its content
	aside   bool // in an element that is something other than content
	wrapper int  // index in page.wrappers of the innermost wrapper around the block
}

// wrapper is an element that is usually something other than content: a nav, a form, an element
// with the class sidebar. Some pages have all their content in one. For example, ASP.NET has the
// whole body in a form, and a page can have the class has-sidebar. The first of page.wrappers
// stands for the whole page.
type wrapper struct {
	parent   int  // index of the next wrapper around it
	named    bool // by its class or id, not by its element or role
	words    int  // number of words in it
	unlinked int  // number of these words that are not in links
	hasMain  bool // contains a main or article element
}

// density returns the share of the words that are in links.
func (b *block) density() float64 {
	if b.words == 0 {
		return 0
	}
	return float64(b.linked) / float64(b.words)
}

// page is a document that is divided into blocks.
type page struct {
	blocks   []block
	wrappers []wrapper
	cut      bool
	hidden   bool        // read elements that are not shown
	giveUp   func() bool // called once for every few nodes; may be nil
	nodes    int         // read so far

	// The block that is being read: current has its marks and counts, and line has its text.
	current block
	line    strings.Builder
	inLink  int
}

// read adds the blocks below n.
func (p *page) read(n *html.Node) {
	for c := n.FirstChild; c != nil && !p.cut; c = c.NextSibling {
		if p.nodes++; p.nodes%32 == 0 && p.giveUp != nil && p.giveUp() {
			p.cut = true
			return
		}
		switch c.Type {
		case html.TextNode:
			p.add(c.Data)
		case html.ElementNode:
			p.element(c)
		}
	}
}

// element reads an element. The element's marks apply to the blocks within the element.
func (p *page) element(n *html.Node) {
	if noText(n.DataAtom) || isHidden(n) && !p.hidden {
		return
	}
	whole := !inline(n.DataAtom)
	if whole {
		p.end()
	}
	before, inLink := p.current, p.inLink
	if whole {
		p.current.heading = p.current.heading || isHeading(n.DataAtom)
		p.current.code = p.current.code || n.DataAtom == atom.Pre
		p.mark(n)
	}
	switch n.DataAtom {
	case atom.A, atom.Button:
		p.inLink++
	case atom.Br:
		p.add("\n")
	case atom.Td, atom.Th:
		p.add(" ")
	}
	p.read(n)
	p.inLink = inLink
	if whole {
		p.end()
		p.current = before
	}
}

// mark sets the marks that an element gives to the text within it.
func (p *page) mark(n *html.Node) {
	role := strings.ToLower(value(n, "role"))
	switch {
	case n.DataAtom == atom.Main || n.DataAtom == atom.Article || role == "main" || role == "article":
		p.current.within = true
	case n.DataAtom == atom.Dialog, role != "" && strings.Contains(" search dialog alertdialog ", " "+role+" "):
		p.current.aside = true
	case n.DataAtom == atom.Nav || n.DataAtom == atom.Aside || n.DataAtom == atom.Form,
		(n.DataAtom == atom.Header || n.DataAtom == atom.Footer) && !p.current.within,
		role != "" && strings.Contains(" navigation banner contentinfo complementary form menu menubar toolbar ", " "+role+" "):
		p.wrap(false)
	case n.DataAtom != atom.Body && namesAside(value(n, "class")+" "+value(n, "id")):
		p.wrap(true)
	}
}

// wrap begins a wrapper around the text that follows.
func (p *page) wrap(named bool) {
	p.wrappers = append(p.wrappers, wrapper{parent: p.current.wrapper, named: named})
	p.current.wrapper = len(p.wrappers) - 1
}

// add adds text to the block.
func (p *page) add(text string) {
	if p.line.Len() > MaxTextBytes {
		p.cut = true
		return
	}
	words := countWords(text)
	p.line.WriteString(text)
	p.current.words += words
	if p.inLink > 0 {
		p.current.linked += words
	}
}

// end ends the current block, and adds it to the page if it has text. The next block has
// the same marks.
func (p *page) end() {
	text := lines(p.line.String(), p.current.code)
	p.line.Reset()
	if text != "" {
		b := p.current
		b.text = text
		p.blocks = append(p.blocks, b)
		p.cut = p.cut || len(p.blocks) >= maxBlocks
	}
	p.current.words, p.current.linked = 0, 0
}

// lines trims text. Unless the text is code, it also replaces each run of white space by one
// space.
func lines(text string, code bool) string {
	text = strings.ReplaceAll(text, "\x00", "")
	if code {
		return strings.TrimRight(strings.Trim(text, "\r\n"), " \t\r\n")
	}
	return strings.Join(strings.Fields(text), " ")
}

// countWords counts words. In scripts without spaces between words, two characters count
// as one word.
func countWords(text string) int {
	words, dense, inWord := 0, 0, false
	for _, r := range text {
		switch {
		case r > 0xE00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			dense++
			inWord = false
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			if !inWord {
				words++
			}
			inWord = true
		case unicode.IsSpace(r):
			inWord = false
		}
	}
	return words + (dense+1)/2
}

func value(n *html.Node, name string) string {
	for i := range n.Attr {
		if n.Attr[i].Key == name {
			return n.Attr[i].Val
		}
	}
	return ""
}

// isHidden reports whether the attributes of an element say that it is not shown.
func isHidden(n *html.Node) bool {
	for i := range n.Attr {
		switch n.Attr[i].Key {
		case "hidden":
			return true
		case "aria-hidden":
			if n.Attr[i].Val == "true" {
				return true
			}
		case "style":
			if strings.Contains(strings.ReplaceAll(strings.ToLower(n.Attr[i].Val), " ", ""), "display:none") {
				return true
			}
		}
	}
	return false
}

// noText reports whether elements with this name contain no text for readers.
func noText(name atom.Atom) bool {
	switch name {
	case atom.Head, atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Svg, atom.Math, atom.Iframe, atom.Object,
		atom.Select, atom.Textarea, atom.Canvas, atom.Audio, atom.Video:
		return true
	}
	return false
}

func isHeading(name atom.Atom) bool {
	switch name {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return true
	}
	return false
}

// inline reports whether elements with this name are parts of a block. The cells of a table
// are parts of the block of their row.
func inline(name atom.Atom) bool {
	switch name {
	case atom.A, atom.Abbr, atom.B, atom.Bdi, atom.Bdo, atom.Big, atom.Br, atom.Button, atom.Cite, atom.Code, atom.Data,
		atom.Del, atom.Dfn, atom.Em, atom.Font, atom.I, atom.Img, atom.Ins, atom.Kbd, atom.Label, atom.Mark, atom.Nobr,
		atom.Q, atom.Rb, atom.Rp, atom.Rt, atom.Ruby, atom.S, atom.Samp, atom.Small, atom.Span, atom.Strike, atom.Strong,
		atom.Sub, atom.Sup, atom.Td, atom.Th, atom.Time, atom.Tt, atom.U, atom.Var, atom.Wbr:
		return true
	}
	return false
}

// asides are words in classes and ids of elements that are not content.
var asides = map[string]bool{
	"ad": true, "ads": true, "advert": true, "advertisement": true, "banner": true, "breadcrumb": true, "breadcrumbs": true,
	"cookie": true, "cookies": true, "footer": true, "masthead": true, "menu": true, "nav": true, "navbar": true,
	"navigation": true, "newsletter": true, "pager": true, "pagination": true, "popup": true, "promo": true, "related": true,
	"share": true, "sharing": true, "sidebar": true, "social": true, "sponsor": true, "subscribe": true, "toc": true,
}

// namesAside reports whether a class or an id contains one of the words in asides.
func namesAside(names string) bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(names), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if asides[word] {
			return true
		}
	}
	return false
}
