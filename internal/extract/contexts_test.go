package extract

import (
	"cmp"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// facts returns what a page has in the form of factsScript, without its charset.
func facts(p *Page) []string {
	var facts []string
	short := func(url string) string { return strings.TrimPrefix(url, "https://www.example.org") }
	for _, l := range p.Links {
		facts = append(facts, l.Kind.String()+" "+short(l.URL.String()))
	}
	if p.Nofollow {
		facts = append(facts, "robots nofollow")
	}
	if p.Title != "" {
		facts = append(facts, "title "+p.Title)
	}
	if base := p.Base.String(); base != pageURL {
		facts = append(facts, "base "+short(base))
	}
	if canonical := p.Canonical.String(); canonical != "" {
		facts = append(facts, "canonical "+short(canonical))
	}
	slices.Sort(facts)
	return facts
}

// cells are the elements that are put into each context, and the fact that shows that they
// count there.
var cells = []struct {
	letter           byte
	element, counted string
}{
	{'a', `<a href=in>x</a>`, "a /dir/in"},
	{'f', `<iframe src=in></iframe>`, "frame /dir/in"},
	{'i', `<img src=in>`, "img /dir/in"},
	{'s', `<script src=in></script>`, "script /dir/in"},
	{'l', `<link rel=next href=in>`, "link /dir/in"},
	{'c', `<link rel=canonical href=in>`, "canonical /dir/in"},
	{'r', `<meta name=robots content=nofollow>`, "robots nofollow"},
	{'m', `<meta http-equiv=refresh content="9999;url=in">`, "refresh /dir/in"},
	{'t', `<title>in</title>`, "title in"},
	{'b', `<base href=/b/>`, "base /b/"},
}

// contexts are places of a page. The column chromium has the letters of the cells that count
// there in Chromium. If a context begins with <html>, it is a whole page.
var contexts = []struct {
	name, before, after string
	chromium            string
	ours                string // if it differs from chromium on purpose
}{
	{name: "head", before: "<head>", after: "</head><body>", chromium: "afislcrmtb"},
	{name: "before head", before: "<html>", after: "", chromium: "afislcrmtb"},
	{name: "after head", before: "<head></head>", after: "<body>", chromium: "afislcrmtb"},
	{name: "body", before: "<body>", after: "", chromium: "afislrmtb"},
	{name: "after body", before: "<body>x</body></html>", after: "", chromium: "afislrmtb"},
	{name: "template in head", before: "<head><template>", after: "</template></head><body>", chromium: ""},
	{name: "template", before: "<body><template>", after: "</template>", chromium: ""},
	{name: "template, nested", before: "<body><template><template></template>", after: "</template>", chromium: ""},
	{name: "template, deeper", before: "<body><template><template>", after: "</template></template>", chromium: ""},
	{name: "template, closed", before: "<body><template></template>", after: "", chromium: "afislrmtb"},
	{name: "template, self-closing", before: "<body><template/>", after: "</template>", chromium: ""},
	{name: "template, not closed", before: "<body><template>", after: "", chromium: "/afislcrmtb"},
	{name: "template in an element that is not closed", before: "<body><template><div><table>", after: "</template>", chromium: ""},
	{name: "template with a stray end", before: "<body></template>", after: "", chromium: "afislrmtb"},
	{name: "template with an element's end", before: "<body><div><template></div>", after: "</template></div>", chromium: ""},
	{name: "template with the end of body", before: "<body><template></body></html>", after: "</template>", chromium: ""},
	{name: "template in table", before: "<body><table><template>", after: "</template></table>", chromium: ""},
	{name: "template in row", before: "<body><table><tr><template>", after: "</template></table>", chromium: ""},
	{name: "template in colgroup", before: "<body><table><colgroup><template>", after: "</template></table>", chromium: ""},
	{name: "template in select", before: "<body><select><template>", after: "</template></select>", chromium: ""},
	{name: "template in svg", before: "<body><svg><template>", after: "</template></svg>", chromium: "airm"},
	{name: "template with svg", before: "<body><template><svg>", after: "</svg></template>", chromium: ""},
	{name: "template with svg that is not closed", before: "<body><template><svg>", after: "</template>", chromium: ""},
	{name: "template in foreignObject", before: "<body><svg><foreignObject><template>", after: "</template></foreignObject></svg>", chromium: ""},
	{name: "template with script", before: "<body><template><script>", after: "</script></template>", chromium: ""},
	{name: "template with a comment", before: "<body><template><!--</template>-->", after: "</template>", chromium: ""},
	{name: "template in frameset", before: "<frameset><template>", after: "</template></frameset>", chromium: "/afislcrmtb"},
	{name: "shadow root", before: "<body><div><template shadowrootmode=open>", after: "</template></div>", chromium: "afisl"},
	{name: "shadow root, closed", before: "<body><div><template shadowrootmode=closed>", after: "</template></div>", chromium: "afisl"},
	{name: "shadow root, upper case", before: "<body><DIV><TEMPLATE SHADOWROOTMODE=OPEN>", after: "</TEMPLATE></DIV>", chromium: "afisl"},
	{name: "shadow root, old name", before: "<body><div><template shadowroot=open>", after: "</template></div>", chromium: ""},
	{name: "shadow root, no mode", before: "<body><div><template shadowrootmode>", after: "</template></div>", chromium: ""},
	{name: "shadow root, unknown mode", before: "<body><div><template shadowrootmode=user-agent>", after: "</template></div>", chromium: ""},
	{name: "shadow root, spaces", before: "<body><div><template shadowrootmode=' open'>", after: "</template></div>", chromium: ""},
	{name: "shadow root, mode twice", before: "<body><div><template shadowrootmode=x shadowrootmode=open>", after: "</template></div>", chromium: ""},
	{name: "shadow root of body", before: "<body><template shadowrootmode=open>", after: "</template>", chromium: "afisl"},
	{name: "shadow root of body after an element", before: "<body><p>x</p><ul><li>x</ul><template shadowrootmode=open>", after: "</template>", chromium: "afisl"},
	{name: "shadow root in head", before: "<head><template shadowrootmode=open>", after: "</template></head><body>", chromium: ""},
	{name: "shadow root of p", before: "<body><p><template shadowrootmode=open>", after: "</template></p>", chromium: "afisl"},
	{name: "shadow root of span", before: "<body><span><template shadowrootmode=open>", after: "</template></span>", chromium: "afisl"},
	{name: "shadow root of h1", before: "<body><h1><template shadowrootmode=open>", after: "</template></h1>", chromium: "afisl"},
	{name: "shadow root of section", before: "<body><section><template shadowrootmode=open>", after: "</template></section>", chromium: "afisl"},
	{name: "shadow root of x-y", before: "<body><x-y><template shadowrootmode=open>", after: "</template></x-y>", chromium: "afisl"},
	{name: "shadow root of x-Y", before: "<body><x-Y><template shadowrootmode=open>", after: "</template></x-Y>", chromium: "afisl"},
	{name: "shadow root of a", before: "<body><a><template shadowrootmode=open>", after: "</template></a>", chromium: ""},
	{name: "shadow root of li", before: "<body><li><template shadowrootmode=open>", after: "</template></li>", chromium: ""},
	{name: "shadow root of button", before: "<body><button><template shadowrootmode=open>", after: "</template></button>", chromium: ""},
	{name: "shadow root of font-face", before: "<body><font-face><template shadowrootmode=open>", after: "</template></font-face>", chromium: ""},
	{name: "shadow root of annotation-xml", before: "<body><annotation-xml><template shadowrootmode=open>", after: "</template></annotation-xml>", chromium: ""},
	{name: "shadow root of select", before: "<body><select><template shadowrootmode=open>", after: "</template></select>", chromium: ""},
	{name: "shadow root of b", before: "<body><b><template shadowrootmode=open>", after: "</template></b>", chromium: ""},
	{name: "shadow root of table", before: "<body><table><template shadowrootmode=open>", after: "</template></table>", chromium: ""},
	{name: "shadow root of td", before: "<body><td><template shadowrootmode=open>", after: "</template></td>", chromium: "afisl"},
	{name: "shadow root of a row", before: "<body><table><tr><template shadowrootmode=open>", after: "</template></table>", chromium: ""},
	{name: "shadow root of a cell's div", before: "<body><table><tr><td><div><template shadowrootmode=open>", after: "</template></div></table>", chromium: "afisl"},
	{name: "shadow root after children", before: "<body><div><p>x<br><b>y</b><template shadowrootmode=open>", after: "</template></div>", chromium: "afisl"},
	{name: "shadow root after a paragraph", before: "<body><p>x<div><template shadowrootmode=open>", after: "</template></div>", chromium: "afisl"},
	{name: "shadow root, second", before: "<body><div><template shadowrootmode=open></template><template shadowrootmode=open>", after: "</template></div>", chromium: ""},
	{name: "shadow root in shadow root", before: "<body><div><template shadowrootmode=open><p><template shadowrootmode=closed>", after: "</template></p></template></div>", chromium: "afisl"},
	{name: "shadow root of shadow root", before: "<body><div><template shadowrootmode=open><template shadowrootmode=open>", after: "</template></template></div>", chromium: ""},
	{name: "shadow root in template", before: "<body><template><div><template shadowrootmode=open>", after: "</template></div></template>", chromium: ""},
	{name: "template in shadow root", before: "<body><div><template shadowrootmode=open><template>", after: "</template></template></div>", chromium: ""},
	{name: "after a shadow root", before: "<body><div><template shadowrootmode=open></template>", after: "</div>", chromium: "afislrmtb"},
	{name: "shadow root in svg", before: "<body><svg><template shadowrootmode=open>", after: "</template></svg>", chromium: "airm"},
	{name: "shadow root in foreignObject", before: "<body><svg><foreignObject><div><template shadowrootmode=open>", after: "</template></div></foreignObject></svg>", chromium: "afisl"},
	{name: "shadow root of foreignObject", before: "<body><svg><foreignObject><template shadowrootmode=open>", after: "</template></foreignObject></svg>", chromium: ""},
	{name: "svg", before: "<body><svg>", after: "</svg>", chromium: "airm"},
	{name: "svg in head", before: "<head><svg>", after: "</svg>", chromium: "airm"},
	{name: "svg, group", before: "<body><svg><g>", after: "</g></svg>", chromium: "airm"},
	{name: "svg, self-closing", before: "<body><svg/>", after: "", chromium: "afislrmtb"},
	{name: "svg, closed", before: "<body><svg></svg>", after: "", chromium: "afislrmtb"},
	{name: "svg, not closed", before: "<body><svg><path>", after: "", chromium: "airm"},
	{name: "svg, closed by its parent", before: "<body><div><svg><g></div>", after: "", chromium: "afislrmtb"},
	{name: "svg, stray end of a div", before: "<body><svg><g></div>", after: "</svg>", chromium: "airm"},
	{name: "svg, end of a p", before: "<body><svg></p>", after: "</svg>", chromium: "afislrmtb"},
	{name: "svg, end of a br", before: "<body><svg></br>", after: "</svg>", chromium: "afislrmtb"},
	{name: "svg, font", before: "<body><svg><font>", after: "</svg>", chromium: "airm"},
	{name: "svg, font color", before: "<body><svg><font color=x>", after: "</svg>", chromium: "afislrmtb"},
	{name: "svg, div", before: "<body><svg><div>", after: "</div></svg>", chromium: "afislrmtb"},
	{name: "svg, a", before: "<body><svg><a xlink:href=x>", after: "</a></svg>", chromium: "airm"},
	{name: "svg, style", before: "<body><svg><style>", after: "</style></svg>", chromium: "airm"},
	{name: "svg, self-closing style", before: "<body><svg><style/>", after: "</svg>", chromium: "airm"},
	{name: "svg, script", before: "<body><svg><script>", after: "</script></svg>", chromium: "airm"},
	{name: "svg, self-closing script", before: "<body><svg><script/>", after: "</svg>", chromium: "airm"},
	{name: "svg, textarea", before: "<body><svg><textarea>", after: "</textarea></svg>", chromium: "airm"},
	{name: "svg, self-closing iframe", before: "<body><svg><iframe/>", after: "</svg>", chromium: "airm"},
	{name: "svg, noscript", before: "<body><svg><noscript>", after: "</noscript></svg>", chromium: "airm"},
	{name: "svg, plaintext", before: "<body><svg><plaintext>", after: "</plaintext></svg>", chromium: "airm"},
	{name: "svg, title", before: "<body><svg><title>", after: "</title></svg>", chromium: "afislrmtb"},
	{name: "svg, desc", before: "<body><svg><desc>", after: "</desc></svg>", chromium: "afislrmtb"},
	{name: "svg, foreignObject", before: "<body><svg><foreignObject>", after: "</foreignObject></svg>", chromium: "afislrmtb"},
	{name: "svg, after foreignObject", before: "<body><svg><foreignObject><p>x</p></foreignObject>", after: "</svg>", chromium: "airm"},
	{name: "svg, after foreignObject with an open element", before: "<body><svg><foreignObject><p>x</foreignObject>", after: "</svg>", chromium: "afislrmtb"},
	{name: "svg, after desc", before: "<body><svg><desc>x</desc>", after: "</svg>", chromium: "airm"},
	{name: "svg, self-closing foreignObject", before: "<body><svg><foreignObject/>", after: "</svg>", chromium: "airm"},
	{name: "svg in foreignObject", before: "<body><svg><foreignObject><svg>", after: "</svg></foreignObject></svg>", chromium: "airm"},
	{name: "svg in svg", before: "<body><svg><svg></svg>", after: "</svg>", chromium: "airm"},
	{name: "svg in select", before: "<body><select><svg>", after: "</svg></select>", chromium: "airm"},
	{name: "svg in table", before: "<body><table><svg>", after: "</svg></table>", chromium: "airm"},
	{name: "math", before: "<body><math>", after: "</math>", chromium: "irm"},
	{name: "math, self-closing", before: "<body><math/>", after: "", chromium: "afislrmtb"},
	{name: "math, mi", before: "<body><math><mi>", after: "</mi></math>", chromium: "afislrmtb"},
	{name: "math, mtext", before: "<body><math><mtext>", after: "</mtext></math>", chromium: "afislrmtb"},
	{name: "math, annotation-xml", before: "<body><math><annotation-xml>", after: "</annotation-xml></math>", chromium: "irm"},
	{name: "math, annotation-xml of HTML", before: "<body><math><annotation-xml encoding='Text/HTML'>", after: "</annotation-xml></math>", chromium: "afislrmtb"},
	{name: "math, annotation-xml of XHTML", before: "<body><math><annotation-xml encoding=application/xhtml+xml>", after: "</annotation-xml></math>", chromium: "afislrmtb"},
	{name: "math, annotation-xml of MathML", before: "<body><math><annotation-xml encoding=application/mathml+xml>", after: "</annotation-xml></math>", chromium: "irm"},
	{name: "math, svg in annotation-xml", before: "<body><math><annotation-xml><svg>", after: "</svg></annotation-xml></math>", chromium: "airm"},
	{name: "math, svg", before: "<body><math><svg>", after: "</svg></math>", chromium: "irm"},
	{name: "math, mglyph in mi", before: "<body><math><mi><mglyph>", after: "</mglyph></mi></math>", chromium: "irm"},
	{name: "math, foreignObject", before: "<body><math><foreignObject>", after: "</foreignObject></math>", chromium: "irm"},
	{name: "math, after mi", before: "<body><math><mi>x</mi>", after: "</math>", chromium: "irm"},
	{name: "svg, mi", before: "<body><svg><mi>", after: "</mi></svg>", chromium: "airm"},
	{name: "noscript in head", before: "<head><noscript>", after: "</noscript></head><body>", chromium: "afislrmtb"},
	{name: "noscript", before: "<body><noscript>", after: "</noscript>", chromium: "afislrmtb"},
	{name: "select", before: "<body><select>", after: "</select>", chromium: "afislrmtb"},
	{name: "option", before: "<body><select><option>", after: "</option></select>", chromium: "afislrmtb"},
	{name: "optgroup", before: "<body><select><optgroup>", after: "</optgroup></select>", chromium: "afislrmtb"},
	{name: "select in a table", before: "<body><table><td><select>", after: "</select></table>", chromium: "afislrmtb"},
	{name: "button in select", before: "<body><select><button>", after: "</button></select>", chromium: "afislrmtb"},
	{name: "datalist", before: "<body><datalist>", after: "</datalist>", chromium: "afislrmtb"},
	{name: "textarea", before: "<body><textarea>", after: "</textarea>", chromium: ""},
	{name: "title", before: "<body><title>", after: "</title>", chromium: ""},
	{name: "style", before: "<body><style>", after: "</style>", chromium: ""},
	{name: "script", before: "<body><script>", after: "</script>", chromium: ""},
	{name: "xmp", before: "<body><xmp>", after: "</xmp>", chromium: ""},
	{name: "iframe", before: "<body><iframe>", after: "</iframe>", chromium: ""},
	{name: "noembed", before: "<body><noembed>", after: "</noembed>", chromium: ""},
	{name: "noframes", before: "<body><noframes>", after: "</noframes>", chromium: ""},
	{name: "plaintext", before: "<body><plaintext>", after: "</plaintext>", chromium: "/afislcrmtb"},
	{name: "listing", before: "<body><listing>", after: "</listing>", chromium: "afislrmtb"},
	{name: "object", before: "<body><object>", after: "</object>", chromium: "afislrmtb"},
	{name: "canvas", before: "<body><canvas>", after: "</canvas>", chromium: "afislrmtb"},
	{name: "video", before: "<body><video>", after: "</video>", chromium: "afislrmtb"},
	{name: "dialog", before: "<body><dialog>", after: "</dialog>", chromium: "afislrmtb"},
	{name: "button", before: "<body><button>", after: "</button>", chromium: "afislrmtb"},
	{name: "a href=x", before: "<body><a href=x>", after: "</a>", chromium: "afislrmtb"},
	{name: "textarea, self-closing", before: "<body><textarea/>", after: "</textarea>", chromium: ""},
	{name: "script of a template language", before: "<body><script type=text/template>", after: "</script>", chromium: ""},
	{name: "script, hidden", before: "<body><script><!--", after: "</script>-->", chromium: ""},
	{name: "script, hidden twice", before: "<body><script><!--<script></script>", after: "--></script>", chromium: ""},
	{name: "script, shown again", before: "<body><script><!--<script></script>--></script>", after: "", chromium: "afislrmtb"},
	{name: "script, other word", before: "<body><script><!--<scripts></script>", after: "", chromium: "afislrmtb"},
	{name: "script, dash", before: "<body><script><!--><script></script>", after: "", chromium: "afislrmtb"},
	{name: "script, spaces in the end", before: "<body><script></script \n>", after: "", chromium: "afislrmtb"},
	{name: "script, attribute in the end", before: "<body><script></script x='>'>", after: "", chromium: "afislrmtb"},
	{name: "script, slash in the end", before: "<body><script></script/>", after: "", chromium: "afislrmtb"},
	{name: "script, no end", before: "<body><script></scriptx>", after: "</script>", chromium: ""},
	{name: "title, end of another", before: "<body><title></titles>", after: "</title>", chromium: ""},
	{name: "comment", before: "<body><!--", after: "-->", chromium: ""},
	{name: "comment, exclamation mark", before: "<body><!-- --!>", after: "-->", chromium: "afislrmtb"},
	{name: "comment, empty", before: "<body><!-->", after: "-->", chromium: "afislrmtb"},
	{name: "comment, dash", before: "<body><!--->", after: "-->", chromium: "afislrmtb"},
	{name: "comment, dash and exclamation mark", before: "<body><!---!>", after: "-->", chromium: ""},
	{name: "comment, four dashes", before: "<body><!---->", after: "-->", chromium: "afislrmtb"},
	{name: "comment, exclamation mark only", before: "<body><!--!>", after: "-->", chromium: ""},
	{name: "comment, space in its end", before: "<body><!-- -- >", after: "-->", chromium: ""},
	{name: "comment in a comment", before: "<body><!-- <!-- -->", after: "-->", chromium: "afislrmtb"},
	{name: "comment, not closed", before: "<body><!--", after: "", chromium: "/afislcrmtb"},
	{name: "bogus comment", before: "<body><!", after: "", chromium: ""},
	{name: "bogus comment, question mark", before: "<body><?php ", after: "?>", chromium: ""},
	{name: "bogus comment, slash", before: "<body></ ", after: "", chromium: ""},
	{name: "bogus comment, empty end", before: "<body></>", after: "", chromium: "afislrmtb"},
	{name: "bogus comment, dash", before: "<body><!- ", after: "-->", chromium: ""},
	{name: "doctype with a quote", before: "<body><!DOCTYPE html PUBLIC \"", after: "\">", chromium: ""},
	{name: "CDATA", before: "<body><![CDATA[", after: "]]>", chromium: ""},
	{name: "CDATA after its first tag", before: "<body><![CDATA[>", after: "]]>", chromium: "afislrmtb"},
	{name: "CDATA in svg", before: "<body><svg><![CDATA[", after: "]]></svg>", chromium: ""},
	{name: "CDATA in math", before: "<body><math><![CDATA[", after: "]]></math>", chromium: ""},
	{name: "CDATA in svg, lower case", before: "<body><svg><![cdata[", after: "]]></svg>", chromium: ""},
	{name: "CDATA in foreignObject", before: "<body><svg><foreignObject><![CDATA[", after: "]]></foreignObject></svg>", chromium: ""},
	{name: "CDATA in a div in foreignObject", before: "<body><svg><foreignObject><div><![CDATA[", after: "]]></div></foreignObject></svg>", chromium: ""},
	{name: "CDATA in template", before: "<body><template><svg><![CDATA[</template>]]>", after: "</svg></template>", chromium: ""},
	{name: "after CDATA in svg", before: "<body><svg><![CDATA[<a>]]>", after: "</svg>", chromium: "airm"},
	{name: "attribute", before: "<body><p title='", after: "'>", chromium: ""},
	{name: "srcdoc", before: "<body><iframe srcdoc='", after: "'></iframe>", chromium: ""},
	{name: "srcdoc and src", before: "<body><iframe src=x srcdoc='", after: "'></iframe>", chromium: ""},
	{name: "frameset", before: "<frameset>", after: "</frameset>", chromium: "/afislcrmtb"},
	{name: "after a frameset", before: "<frameset></frameset>", after: "", chromium: "/afislcrmtb"},
	{name: "noframes in frameset", before: "<frameset><noframes>", after: "</noframes></frameset>", chromium: "/afislcrmtb"},
	{name: "frameset after body", before: "<body><frameset>", after: "</frameset>", chromium: "afislrmtb"},
	{name: "frameset after text", before: "<body>x<frameset>", after: "</frameset>", chromium: "afislrmtb"},
	{name: "table", before: "<body><table>", after: "</table>", chromium: "afislrmtb"},
	{name: "table tr", before: "<body><table><tr>", after: "</table>", chromium: "afislrmtb"},
	{name: "table tr td", before: "<body><table><tr><td>", after: "</table>", chromium: "afislrmtb"},
	{name: "table caption", before: "<body><table><caption>", after: "</table>", chromium: "afislrmtb"},
	{name: "table colgroup", before: "<body><table><colgroup>", after: "</table>", chromium: "afislrmtb"},
	{name: "html", before: "<html><html>", after: "", chromium: "afislcrmtb"},
	{name: "NUL", before: "<body>\x00", after: "", chromium: "afislrmtb"},
	{name: "NUL in a name", before: "<body><script\x00>", after: "</script>", chromium: "afislrmtb"},
	{name: "NUL in an end", before: "<body><script></script\x00>", after: "</script>", chromium: ""},
}

func contextPage(before, element, after string) string {
	return "<!DOCTYPE html>" + before + element + after + "<a href=after>y</a>"
}

// countedIn returns the letters of the cells that count in a context and, after a slash, those
// with which the link after the context does not count. facts returns the facts of a page.
func countedIn(before, after string, facts func(page string) []string) string {
	counted, lost := "", ""
	for _, cell := range cells {
		found := facts(contextPage(before, cell.element, after))
		if slices.Contains(found, cell.counted) {
			counted += string(cell.letter)
		}
		if !slices.ContainsFunc(found, func(fact string) bool { return strings.HasSuffix(fact, "/after") }) {
			lost += string(cell.letter)
		}
	}
	if lost != "" {
		counted += "/" + lost
	}
	return counted
}

// TestContexts: what counts in Chromium counts here, and nothing else.
func TestContexts(t *testing.T) {
	for _, c := range contexts {
		got := countedIn(c.before, c.after, func(page string) []string {
			return facts(read(t, page, "text/html; charset=utf-8", Options{Assets: true}))
		})
		if want := cmp.Or(c.ours, c.chromium); got != want {
			t.Errorf("%s: %q counts in %s…%s, want %q", c.name, got, c.before, c.after, want)
		}
	}
}

// TestChromiumContexts compares the column chromium with a browser.
func TestChromiumContexts(t *testing.T) {
	b := startBrowser(t)
	for _, c := range contexts {
		got := countedIn(c.before, c.after, func(page string) []string {
			return strings.Split(b.show(served{"text/html", page}, false), "\n")
		})
		if got != c.chromium {
			t.Errorf("%s: %q counts in %s…%s in the browser, want %q", c.name, got, c.before, c.after, c.chromium)
		}
	}
}

// nested has the tags of random pages whose elements are in all contexts.
var nested = strings.Split("<div>|<p>|<span>|<b>|<ul>|<li>|<h1>|<x-y>|<button>|<table>|<tr>|<td>|<select>|<option>|<form>|<section>|"+
	"<svg>|<svg>|<g>|<path/>|<foreignObject>|<desc>|<title>|<style>|<script>|<textarea/>|<math>|<mi>|<mtext>|<annotation-xml>|"+
	"<annotation-xml encoding=text/html>|<font>|<font size=1>|<template>|<template shadowrootmode=open>|<template shadowrootmode=closed>|"+
	"<div><template shadowrootmode=open>|<br>|<!-- > -->|<![CDATA[ > ]]>|<![CDATA[|]]>|<body>|<head>|</head>|<html>|x| ", "|")

var tagStart = regexp.MustCompile(`^<([a-z1A-Z-]+)`)

// nestedPage writes random tags, and links between them.
func nestedPage(dice *rand.Rand) string {
	b := strings.Builder{}
	b.WriteString([]string{"<!DOCTYPE html>", "<!DOCTYPE html><body>", "<!DOCTYPE html><head>"}[dice.IntN(3)])
	few := nested[:0:0]
	for range 2 + dice.IntN(8) {
		few = append(few, nested[dice.IntN(len(nested))])
	}
	for i := range 3 + dice.IntN(25) {
		tag := few[dice.IntN(len(few))]
		if part := tagStart.FindStringSubmatch(tag); part != nil && dice.IntN(2) == 0 {
			tag = "</" + part[1] + ">"
		}
		b.WriteString(tag)
		switch dice.IntN(12) {
		case 0:
			b.WriteString("<base href=/b/>")
		case 1:
			b.WriteString("<title>t" + strconv.Itoa(i) + "</title>")
		case 2:
			b.WriteString("<link rel=canonical href=c" + strconv.Itoa(i) + ">")
		case 3:
			b.WriteString("<iframe src=f" + strconv.Itoa(i) + "></iframe>")
		case 4, 5, 6, 7, 8:
			b.WriteString("<a href=a" + strconv.Itoa(i) + ">x</a>")
		}
	}
	return b.String()
}

// TestChromiumRandomPages compares random pages with a browser.
func TestChromiumRandomPages(t *testing.T) {
	b := startBrowser(t)
	t.Logf("replay with -seed=%d", *seedFlag)
	dice := rand.New(rand.NewPCG(*seedFlag, 5))
	for range *pagesFlag {
		page := nestedPage(dice)
		want := []string(nil)
		for fact := range strings.SplitSeq(strings.TrimSpace(b.show(served{"text/html; charset=utf-8", page}, false)), "\n") {
			if !strings.HasPrefix(fact, "charset ") {
				want = append(want, fact)
			}
		}
		slices.Sort(want)
		if diff := gocmp.Diff(slices.Compact(want), facts(read(t, page, "text/html; charset=utf-8", Options{}))); diff != "" {
			t.Errorf("seed %d: (-browser +ours):\n%s\n%s", *seedFlag, diff, page)
		}
	}
}
