package fields

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
)

// someSelectors has each kind of selector that cascadia knows, and texts that are hard to take
// apart.
var someSelectors = []string{
	"*", "p", "P", "#a", ".x", ".X", "p.x", "p#a.x.y", "*|*", "*.x", "custom-element", "-p", "--p", "_x", "ü",
	"[lang]", "[ LANG ]", "[class=x]", "[class='x y']", `[class="x"]`, "[class~=x]", "[class|=x]", "[class^=x]", "[class$=y]",
	"[class*=' ']", "[class!=x]", "[class=X i]", "[class='X'i]", "[class^='X' I ]", "[title='a]b']", `[title="it's \"so\""]`, "[class^='']",
	`[class#=x]`, `[class#=^x( y)?$]`, `[title#=[a-c\]]+]`, `[title#=(a]b)]`, `[class #= x i]`,
	"p, div", "p,div ,span", "div p", "div > p", "div>p", "p + p", "p ~ p", "div p > b", "div > p b", "p ~ p b + i", "html body div p",
	"p/* a comment */.x", "div /* > */ p", "div/**/p", "/**/p", "p > /**/ b",
	":not(p)", ":not(p, div)", "p:not(.x)", ":not(:not(p))", "div:has(p)", "div:has(> p)", "div:has(p > b)", "div:has(p, i)", ":has(:has(b))",
	"div:haschild(p)", "div:haschild(:haschild(b) > i)", ":not(:has(p))", ":not(div p)", "div:has(:not(p)) p", "p:not(p ~ p)", ":has( p )",
	":contains(hello)", ":contains('Hello, (World)')", `:contains("a b")`, ":containsOwn(hello)", ":contains( hello )", ":contains(a\\ b)",
	":matches(hel+o)", ":matchesOwn(^hello)", ":matches( [a-c)(]x)", `:matches(^$)`, ":matches((a|b)[)]c)",
	":nth-child(2)", ":nth-child(2n+1)", ":nth-child( odd )", ":nth-child(even)", ":nth-child(-n+3)", ":nth-child(n)", ":nth-last-child(2)",
	":nth-of-type(2)", ":nth-last-of-type(2n)", ":first-child", ":last-child", ":first-of-type", ":last-of-type", ":only-child", ":only-of-type",
	":input", ":empty", ":root", ":link", ":lang(de)", ":enabled", ":disabled", ":checked", ":visited", ":hover", ":active", ":focus", ":target",
	`#a\31 `, `.\78`, `.a\.b`, `.\000078`, `.\78 .y`, `[t\69tle]`, `:n\6ft(p)`, `:N\6F t(p)`, `:NOT(p)`, `p:Not(.x)`, `.a\/b`, "p\t>\n b", "  p  ", "p\r\nb", "p,\n b",
	":first-child:not(:last-child)", "a:link, area:link", "p.x > b.y:first-child ~ i", ".x:not(:contains(hello)):has(b)", ":is(p)", "p::before", "p:", "p >", "> p", "",
	"p,", "p,,b", "p)", "(p)", "p[", "p[a", "p[a=", ":not(", ":not()", ":has(", ":contains(", ":contains('a)", "*p", "p*", "p..x", "p#", `p\`, ":nth-child()", ":matches(a", ":lang()",
	"svg|a", "p || b", "div >> p", "[a=1]", "#1", ".1", "p:not(*)", "*:not(*)", "p *", "* p", "* + *", "* ~ *", "* > *", "*:has(*)", "*:contains(o)", "body *:contains(o)",
}

// somePages have each kind of node, in usual and unusual places.
var somePages = []string{
	"",
	"<!DOCTYPE html><!-- c --><title>T</title><p class=x id=a>Hello, (World) <b class='x y'>hello</b> a b<p>a]b<i></i><div><p class=y title='a]b'>abc</div>",
	"<html lang=de-AT><div class='X x'><p>1<p class=x>2<!-- c --><p>3</p> <b class=y>hello</b><i>i</i></div><div><div><p><b>x</b></p></div></div>",
	"<ul><li>1<li>2<li lang=en>3<ul><li>4</ul><li>5</ul><form><fieldset disabled><legend><input></legend><input checked type=checkbox><select><option selected>a</select></fieldset></form>",
	"<svg viewBox='0 0 1 1'><a class=x href=b>hello</a><title>t</title></svg><a href=c>d</a><area href=e><table><tr><td>1<td>2<tr><td>3</table>",
	"<div id=a1><span>hello</span><span title=\"it's &quot;so&quot;\">x</span></div><p class=a.b></p><p class=a/b title=q></p><template><p class=x>t</template>",
}

// TestSelectorsAnswerAsCascadia: a selector is valid if and only if cascadia accepts it, with the
// same error, and it has the same answer for each node of each page, also when answers are
// remembered.
func TestSelectorsAnswerAsCascadia(t *testing.T) {
	t.Parallel()
	for _, selector := range someSelectors {
		for _, page := range somePages {
			sameAnswers(t, selector, page)
		}
	}
}

// TestRandomSelectorsAnswerAsCascadia does the same with random selectors and pages.
func TestRandomSelectorsAnswerAsCascadia(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range 3000 {
		sameAnswers(t, randomSelector(random, 3), randomPage(random))
	}
}

func FuzzSelectorsAnswerAsCascadia(f *testing.F) {
	for i, selector := range someSelectors {
		f.Add(selector, somePages[i%len(somePages)])
	}
	f.Fuzz(func(t *testing.T, selector, page string) {
		if len(selector) < 100 && len(page) < 1000 {
			sameAnswers(t, selector, page)
		}
	})
}

func sameAnswers(t *testing.T, selector, page string) {
	t.Helper()
	want, wantErr := cascadia.ParseGroup(selector)
	got, err := compileSelector(selector)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Errorf("%q: error %v, want %v", selector, err, wantErr)
	}
	if err != nil || wantErr != nil {
		return
	}
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return // the page is too deep
	}
	for _, asked := range []int{0, manyQuestions} {
		state := &tree{Page: Page{Root: root}, asked: asked}
		for n := root; n != nil; n = following(n, root) {
			if answer := got.holds(state, n); answer != want.Match(n) {
				t.Errorf("%q: %v for <%s> in %q, want %v (%d questions before)", selector, answer, n.Data, page, want.Match(n), asked)
			}
		}
	}
}

// randomSelector returns a selector of simple selectors, combinators and nested conditions.
func randomSelector(random *rand.Rand, depth int) string {
	one := func(list ...string) string { return list[random.IntN(len(list))] }
	var b strings.Builder
	for i := range 1 + random.IntN(3) {
		if i > 0 {
			b.WriteString(one(" ", " ", ">", " > ", "+", " ~ ", "~", ", "))
		}
		begin := one("", "", "p", "div", "b", "*")
		b.WriteString(begin)
		for range random.IntN(2) + map[bool]int{true: 1}[begin == ""] {
			if depth == 0 || random.IntN(2) == 0 {
				b.WriteString(one(".x", ".y", "#a", "[class]", "[class=x]", "[class#=^x]", ":nth-child(2n+1)", ":first-child", ":empty", ":contains(x)", ":matchesOwn(x+)"))
				continue
			}
			b.WriteString(one(":not(", ":has(", ":haschild(") + randomSelector(random, depth-1) + ")")
		}
	}
	return b.String()
}

// randomPage returns a page of some nested elements.
func randomPage(random *rand.Rand) string {
	var b strings.Builder
	for range 30 {
		b.WriteString([]string{
			"<div>", "<div class=x>", "<div class='y x' id=a>", "</div>", "</div>", "<p>", "<p class=x>", "</p>", "<b class=y>", "</b>", "x", "<!-- x -->", "<i>xx</i>",
		}[random.IntN(13)])
	}
	return b.String()
}

// deepPage returns a page with a chain of open elements, and as many siblings in the innermost.
func deepPage(n int) string {
	return strings.Repeat("<div class=a>", n) + strings.Repeat("<p class=a></p>", n)
}

// TestStepsGrowWithThePage: with remembered answers, the steps for all nodes of a page are
// proportional to its nodes, however conditions are nested. Without them, each of these
// selectors takes more than 20 times as many steps.
func TestStepsGrowWithThePage(t *testing.T) {
	t.Parallel()
	root, err := html.Parse(strings.NewReader(deepPage(30)))
	if err != nil {
		t.Fatal(err)
	}
	nodes := 0
	for n := root; n != nil; n = following(n, root) {
		nodes++
	}
	for _, selector := range []string{
		".a .a .a .b .a", ".b ~ .a ~ .a ~ .a", ":has(:has(:has(:has(.b))))", ":not(:has(:has(:has(.b)))) .b .a .a",
		".b .a:not(.a .b .a) .a .a", ":haschild(:haschild(:haschild(.b) ~ .a) .a)", "div:has(.b ~ .a ~ .a)",
	} {
		compiled, err := compileSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		steps := func(asked int) int {
			state := &tree{Page: Page{Root: root}, asked: asked}
			for n := root; n != nil; n = following(n, root) {
				compiled.holds(state, n)
			}
			return state.steps
		}
		if most, got, without := 20*nodes, steps(manyQuestions), steps(-1<<40); got > most || without < 5*got {
			t.Errorf("%s took %d steps for %d nodes, and %d without remembering; want at most %d, and 5 times as many", selector, got, nodes, without, most)
		}
	}
}

// TestOneElementCanBeGivenUp: a page that is given up while one element is looked at takes few
// more steps, whatever part of a selector is at work.
func TestOneElementCanBeGivenUp(t *testing.T) {
	t.Parallel()
	root, err := html.Parse(strings.NewReader(deepPage(200) + strings.Repeat("ab", 50_000)))
	if err != nil {
		t.Fatal(err)
	}
	var last *html.Node // the last paragraph
	for n := root; n != nil; n = following(n, root) {
		if n.Data == "p" {
			last = n
		}
	}
	for _, c := range []struct {
		selector string
		node     *html.Node
	}{
		{".b p", last}, {".b ~ p", last}, {".b .a .a", last}, {":has(.b)", root.LastChild}, {":not(:has(.b))", root.LastChild},
		{":haschild(.b)", last.Parent}, {":has(:contains(c))", root.LastChild}, {":matches(([ab]|[a]){30}c)", root.LastChild},
		{":has(p:nth-child(2n+500))", root.LastChild},
	} {
		compiled, err := compileSelector(c.selector)
		if err != nil {
			t.Fatal(err)
		}
		state := &tree{Page: Page{Root: root}}
		calls := 0
		state.GiveUp = func() bool { calls++; return calls > 1 }
		compiled.holds(state, c.node)
		given := state.steps
		state.over, state.steps, state.GiveUp = false, 0, nil
		compiled.holds(state, c.node)
		if whole := state.steps; calls != 2 || given > 4*checkSteps || whole < 2*given {
			t.Errorf("%s: %d steps after %d calls of GiveUp, and %d without it; want a few after 2", c.selector, given, calls, whole)
		}
	}
}

// TestSlowElementEndsItsField: a field on whose element the time is used up has no value, or an
// incomplete one, and says so; fields after it have none either.
func TestSlowElementEndsItsField(t *testing.T) {
	t.Parallel()
	root, err := html.Parse(strings.NewReader("<p>one</p><p>two</p>"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := compile([]string{"first[]=p", "second=p", "third=p"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at   string // the text of the paragraph that takes too long
		want string
	}{{"one", "[] false no time was left for it"}, {"two", `["one"] true `}} {
		gaveUp := false
		set.fields[0].sources[0].from.(*selected).match = slow(func(t *tree, n *html.Node) bool {
			for n.Data == "p" && n.FirstChild.Data == c.at && !t.late(1) { // without end, unless given up
				gaveUp = true
			}
			return n.Data == "p"
		})
		found := set.Extract(Page{Root: root, GiveUp: func() bool { return gaveUp }})
		if got := fmt.Sprintf("%s %v %s", slices.Clone(found[0].Values), found[0].Cut, found[0].Why); got != c.want {
			t.Errorf("slow at %s: %s, want %s", c.at, got, c.want)
		}
		for _, f := range found[1:] {
			if len(f.Values) > 0 || f.Why != "no time was left for it" {
				t.Errorf("field %s has %s, %q", f.Name, f.Values, f.Why)
			}
		}
	}
}

// slow is a condition that takes as long as a test wants.
type slow func(t *tree, n *html.Node) bool

func (s slow) holds(t *tree, n *html.Node) bool { return s(t, n) }
