package extract

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/net/html"
)

// treeBytes returns a lower bound of the memory of a tree.
func treeBytes(root *html.Node) int64 {
	sum := int64(0)
	for n := range root.Descendants() {
		sum += int64(unsafe.Sizeof(*n)) + int64(len(n.Attr))*int64(unsafe.Sizeof(html.Attribute{}))
		if n.Type != html.ElementNode { // the names of known elements are constants of the parser
			sum += int64(len(n.Data))
		}
	}
	return sum
}

// parsed returns the size of the tree of a text, or 0 if the text is nested too deep.
func parsed(text []byte) int64 {
	root, err := html.ParseWithOptions(bytes.NewReader(text), html.ParseOptionEnableScripting(false))
	if err != nil {
		return 0
	}
	return treeBytes(root)
}

// tagSoup writes random tags, balanced or not. Some of them make the parser repeat elements,
// hide other tags, or change the state of the parser.
func tagSoup(dice *rand.Rand) []byte {
	names := []string{"b", "i", "u", "a", "nobr", "font", "code", "span", "p", "div", "td", "tr", "table", "select", "option",
		"svg", "math", "mi", "style", "title", "script", "template", "button", "applet", "caption", "h1", "li", "form", "body", "html",
		"frameset", "textarea", "desc", "foreignObject", "br", "img", "input", "noscript", "head", "ruby", "rt", "object"}
	few := names[:0:0]
	for range 2 + dice.IntN(8) {
		few = append(few, names[dice.IntN(len(names))])
	}
	few = append(few, "b", "i", "p")
	attributes := ""
	for i := range 50 {
		attributes += fmt.Sprintf(" %c%c", 'a'+i%26, 'a'+i/26)
	}
	var b bytes.Buffer
	for i := range dice.IntN(400) {
		name := few[dice.IntN(len(few))]
		switch dice.IntN(13) {
		case 12:
			fmt.Fprintf(&b, "<%s%s>", name, attributes[:3*dice.IntN(50)])
		case 0, 1, 2:
			fmt.Fprintf(&b, "<%s>", name)
		case 3, 4:
			fmt.Fprintf(&b, "<%s n=%d x y=' z '>", name, i)
		case 5, 6, 7:
			fmt.Fprintf(&b, "</%s>", name)
		case 8:
			fmt.Fprintf(&b, "<%s>x</%s>", name, name)
		case 9:
			b.WriteString([]string{"<!--", "-->", "<", ">", "\"", "'", "<b title='", "<i x=\"</b>\">", "]]>", "<![CDATA[", "/>", "<?"}[dice.IntN(12)])
		default:
			b.WriteString("x")
		}
	}
	return b.Bytes()
}

// blocks is a row of blocks. In each of them the parser repeats the open elements.
const blocks = "<p>x<p>x<p>x<p>x<p>x<p>x<p>x<p>x<p>x<p>x<p>x<p>x<p>x<p>x<p>x<p>x"

func TestWeightIsAtLeastTheTree(t *testing.T) {
	t.Logf("replay with -seed=%d", *seedFlag)
	dice := rand.New(rand.NewPCG(*seedFlag, 1))
	for range 3 * *pagesFlag {
		text := append(tagSoup(dice), blocks...)
		if tree, weight := parsed(text), weigh(text); tree > weight {
			t.Fatalf("seed %d: the tree has %d bytes, weigh returned %d, want at least as many\n%s",
				*seedFlag, tree, weight, text)
		}
	}
}

// TestBombsAreWeighed makes trees that are as large as possible: formatting elements that
// seem to be closed but stay open, each followed by a long row of blocks.
func TestBombsAreWeighed(t *testing.T) {
	attributes := strings.Repeat(" a", 1)
	for i := range 300 {
		attributes += fmt.Sprintf(" a%d", i)
	}
	rows := func(n int, row string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(row, "#", fmt.Sprint(i)))
		}
		return b.String()
	}
	tail := strings.Repeat("<p>x", 200)
	largest := int64(0)
	for name, page := range map[string]string{
		"open":                 "<p>" + rows(200, "<b id=#>") + tail,
		"alike":                "<p>" + strings.Repeat("<b><i><u><s><tt>", 50) + tail,
		"attributes":           "<p><b" + attributes + "><i>" + tail,
		"end in a comment":     "<p>" + rows(200, "<b id=#><!-- </b> -->") + tail,
		"end in an image":      "<p>" + rows(200, "<b id=#><img alt='</b>'>") + tail,
		"end in the start tag": "<p>" + rows(200, "<b id=# x='y></b>'>") + tail,
		"end in a script":      "<p>" + rows(200, "<b id=#><script></b></script>") + tail,
		"end in a list":        "<p>" + rows(200, "<b id=#><select></b></select>") + tail,
		"end in a cell":        "<p>" + rows(40, "<b id=#><table><td></b></table>") + tail,
		"end in an object":     "<p>" + rows(150, "<b id=#><object></b></object>") + tail,
		"end of another":       "<p>" + rows(200, "<b id=#></i>") + tail,
		"within":               "<p>" + rows(100, "<b id=#><i id=#></b>") + tail,
		"within a span":        rows(50, "<span>") + rows(60, "<b id=#>") + rows(50, "</span>x"),
		"spans around":         rows(200, "<span><b id=#></span>") + tail,
		"drawing":              "<p>" + rows(200, "<svg><style><b id=#></style></svg>") + tail,
		"hidden script":        "<p><!-- <script> -->" + rows(200, "<b id=#>") + tail,
		"quote":                "<p><!-- <b x=\"-->" + rows(200, "<b id=#>") + "\">" + tail,
		"anchors":              strings.Repeat("<a href=x><div><b><i><u>", 60) + strings.Repeat("</a>x", 200),
		"anchors across":       "<a><p>" + strings.Repeat("<a"+attributes+"><p>x", 200),
		"adopted":              strings.Repeat("<b><i><u><p>", 80) + strings.Repeat("x</b></i></u>", 100),
		"adopted attributes":   strings.Repeat("<b"+attributes+"><p>", 30) + strings.Repeat("</b>x", 30),
		"adopted down":         "<b" + attributes + ">" + strings.Repeat("<div>", 400) + strings.Repeat("</b>", 60),
		"anchors down":         "<a" + attributes + ">" + strings.Repeat("<div>", 400) + strings.Repeat("<a>", 60),
		"nobr":                 strings.Repeat("<nobr><p>x", 100) + tail,
		"rows":                 "<table>" + strings.Repeat("<td></table><table>", 500),
		"markers":              rows(40, "<table><td><b id=#>") + tail + strings.Repeat("</table>x<p>x", 40),
		"foster parent":        "<p>" + rows(200, "<b id=#>") + "</p><table>" + strings.Repeat("x<tr>", 500),
	} {
		tree, weight := parsed([]byte(page)), weigh([]byte(page))
		if tree == 0 {
			t.Errorf("%s: the page is nested too deep for a tree, so it tests nothing", name)
		}
		if tree > weight {
			t.Errorf("%s: %d bytes of HTML: the tree has %d bytes, weigh returned %d, want at least as many",
				name, len(page), tree, weight)
		}
		largest = max(largest, tree/int64(len(page)))
		t.Logf("%s: %d bytes of HTML, a tree %d times as large, a weight %.1f times that of the tree",
			name, len(page), tree/int64(len(page)), float64(weight)/float64(tree))
	}
	if largest < 1000 {
		t.Errorf("the largest tree is %d times as large as its page, want at least 1000 times", largest)
	}
}

func FuzzWeigh(f *testing.F) {
	dice := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		f.Add(tagSoup(dice))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		text = append(slices.Clone(text), blocks...)
		if tree, weight := parsed(text), weigh(text); tree > weight {
			t.Errorf("the tree has %d bytes, weigh returned %d, want at least as many\n%q", tree, weight, text)
		}
	})
}

// TestOrdinaryPagesAreLight: for ordinary pages, weigh returns at most MaxDocumentMemory. So they
// get a document.
func TestOrdinaryPagesAreLight(t *testing.T) {
	script := `<script>var s = '<b class="' + x + "'>", t = a <b && c; document.write("<font size=2>" + '<i>')</script>`
	old := `<table width=100%><tr><td><font face="Arial" size=2><b>x</b><br><a href=y><font color=red>z</font></a></td></tr></table>`
	card := `<a href=x class="card"><div><h3>Title <em>of</em> it</h3><p>Some words <strong>that</strong> say <code>little</code>.</p></div></a>`
	for name, page := range map[string][]byte{
		"typical": typicalPage(),
		"large":   bytes.Repeat(typicalPage(), 100),
		"script":  []byte(script + strings.Repeat(string(typicalPage()), 20)),
		"old":     bytes.Repeat([]byte(old), 500),
		"cards":   bytes.Repeat([]byte(card), 500),
		"icons":   []byte(strings.Repeat(`<li><i class="icon a"></i> <span><b>x</b></span></li>`, 3000)),
	} {
		weight, tree := weigh(page), parsed(page)
		t.Logf("%s: page of %d KB, weight %d KB, tree of %d KB", name, len(page)>>10, weight>>10, tree>>10)
		if weight > MaxDocumentMemory {
			t.Errorf("%s: %d bytes of HTML: weigh returned %d, want at most %d", name, len(page), weight, MaxDocumentMemory)
		}
	}
}

func TestScanTagReadsAsTheTokenizer(t *testing.T) {
	t.Logf("replay with -seed=%d", *seedFlag)
	dice := rand.New(rand.NewPCG(*seedFlag, 2))
	const of = "ab='\"/ >\t<=\n"
	for range 20 * *pagesFlag {
		tag := []byte("<b")
		for range dice.IntN(20) {
			tag = append(tag, of[dice.IntN(len(of))])
		}
		tag = append(tag, "'>\">rest"...)
		z := html.NewTokenizer(bytes.NewReader(tag))
		size, attributes := scanTag(tag)
		if z.Next() == html.ErrorToken {
			if size != len(tag) {
				t.Fatalf("seed %d: scanTag(%q) returned the size %d, want %d", *seedFlag, tag, size, len(tag))
			}
			continue
		}
		if raw := len(z.Raw()); size != raw {
			t.Fatalf("seed %d: scanTag(%q) returned the size %d, want %d", *seedFlag, tag, size, raw)
		}
		if n := int64(len(z.Token().Attr)); attributes < n {
			t.Fatalf("seed %d: scanTag(%q) returned %d attributes, want at least %d", *seedFlag, tag, attributes, n)
		}
	}
}

// bomb is a page of 23 KB with a tree of 1.5 million elements.
func bomb() string {
	var b strings.Builder
	b.WriteString("<a href=1><p>")
	for i := range 300 {
		fmt.Fprintf(&b, "<b id=%d>", i)
	}
	b.WriteString(strings.Repeat("<p>x", 5000) + "<a href=2>")
	return b.String()
}

func TestLackOfDocument(t *testing.T) {
	asked := int64(0)
	room := func(there bool) func(int64) bool {
		return func(bytes int64) bool { asked = bytes; return there }
	}
	links := `<a href=1><a href=2>`
	for _, c := range []struct {
		name, body string
		opt        Options
		want       Lack
	}{
		{"nothing", links, Options{Room: room(true), GiveUp: func() bool { return false }}, LacksNothing},
		{"deep", links + strings.Repeat("<div>", 600), Options{}, TooDeep},
		{"large", links + strings.Repeat("x", MaxDocumentBytes), Options{}, TooLarge},
		{"heavy", bomb(), Options{}, TooHeavy},
		{"tags within tags", links + strings.Repeat("<b ", 10000), Options{}, TooHeavy},
		{"slow", links, Options{GiveUp: func() bool { return true }}, TooSlow},
		{"room", links, Options{Room: room(false)}, NoRoom},
	} {
		page := read(t, c.body, "text/html; charset=utf-8", c.opt)
		if page.Lack != LacksNothing || len(page.Links) != 2 {
			t.Errorf("%s: before Document: lack %v, %d links, want LacksNothing, 2", c.name, page.Lack, len(page.Links))
		}
		if n := page.Document().Find("a").Length(); n > 0 != (c.want == LacksNothing) || page.Lack != c.want {
			t.Errorf("%s: after Document: lack %v, want %v; %d links in the document", c.name, page.Lack, c.want, n)
		}
	}
	if got := (&Page{text: make([]byte, MaxDocumentBytes)}).lack(); got != LacksNothing {
		t.Errorf("lack %v of a page of MaxDocumentBytes, want LacksNothing", got)
	}
	if asked < 40 || asked > 1<<20 {
		t.Errorf("Room was asked for %d bytes, want 40 to 1 MiB", asked)
	}
}

func TestDocumentAsksForRoomAgain(t *testing.T) {
	there := false
	page := read(t, "<a href=1>", "text/html", Options{Room: func(int64) bool { return there }})
	if n := page.Document().Find("a").Length(); n != 0 || page.Lack != NoRoom {
		t.Errorf("without room: %d links in the document, lack %v, want 0, NoRoom", n, page.Lack)
	}
	there = true
	if n := page.Document().Find("a").Length(); n != 1 || page.Lack != LacksNothing {
		t.Errorf("with room: %d links in the document, lack %v, want 1, LacksNothing", n, page.Lack)
	}
}
