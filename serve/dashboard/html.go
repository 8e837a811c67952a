package dashboard

import (
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bloomfrontier/crawler/internal/human"
)

func hidden(name, value string) g.Node {
	return h.Input(h.Type("hidden"), h.Name(name), h.Value(value))
}

// hiddenAll returns hidden fields for names and values. Empty values are left out.
func hiddenAll(pairs ...string) g.Node {
	var all g.Group
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			all = append(all, hidden(pairs[i], pairs[i+1]))
		}
	}
	return all
}

func count(n uint64) string { return human.Commas(n) }

func span(d time.Duration) string { return human.Span(d) }

func seconds(s float64) string { return human.Span(time.Duration(min(s, 1e9) * float64(time.Second))) }

// text returns what a site sent, as text without characters that cannot be seen.
func text(s string) g.Node { return g.Text(human.Printable(s)) }

// when returns a time. The script shows it in the zone of the browser.
func when(at time.Time) g.Node {
	at = at.UTC()
	return h.Time(h.DateTime(at.Format(time.RFC3339)), h.Title(at.Format("2006-01-02 15:04:05 UTC")), g.Text(at.Format("01-02 15:04:05")+" UTC"))
}

func whenever(at *time.Time) g.Node {
	if at == nil {
		return nil
	}
	return when(*at)
}

// fact is a name and a value.
type fact struct {
	name  string
	value g.Node
}

func factOf(name, value string) fact { return fact{name, g.Text(value)} }

// facts returns a list of facts. Facts without a value are left out.
func facts(all ...fact) g.Node {
	var rows g.Group
	for _, f := range all {
		if f.value != nil {
			rows = append(rows, h.Div(h.Dt(g.Text(f.name)), h.Dd(f.value)))
		}
	}
	return h.Dl(h.Class("facts"), rows)
}

// figure returns a large number with its name, and a line below it.
func figure(name, value, below string) g.Node {
	return h.Div(h.Class("figure"), h.Dt(g.Text(name)), h.Dd(h.Span(h.Class("number"), g.Text(value)), h.Span(h.Class("below"), g.Text(below))))
}

// table is a table that can be scrolled on a narrow screen.
type table struct {
	name  string   // for people who do not see it
	head  []string // a name that begins with # is that of a column of numbers
	rows  [][]g.Node
	empty string // the text in place of a table without rows
}

func (t *table) add(cells ...g.Node) { t.rows = append(t.rows, cells) }

func (t *table) node() g.Node {
	if len(t.rows) == 0 {
		return h.P(h.Class("note"), g.Text(t.empty))
	}
	var head, rows g.Group
	number := make([]bool, len(t.head))
	for i, name := range t.head {
		name, number[i] = strings.CutPrefix(name, "#")
		head = append(head, h.Th(h.Scope("col"), g.If(number[i], h.Class("n")), g.Text(name)))
	}
	for _, cells := range t.rows {
		var row g.Group
		for i, cell := range cells {
			row = append(row, h.Td(g.If(number[i], h.Class("n")), cell))
		}
		rows = append(rows, h.Tr(row))
	}
	return h.Div(h.Class("scroll"), h.Role("region"), h.Aria("label", t.name), h.TabIndex("0"),
		h.Table(h.THead(h.Tr(head)), h.TBody(rows)))
}

// bar returns a share from 0 to 1 as a bar. words say the same.
func bar(share float64, words string) g.Node {
	width := strconv.FormatFloat(100*min(max(share, 0), 1), 'f', 1, 64)
	return h.Span(h.Class("bar"), g.El("svg", g.Attr("viewBox", "0 0 100 8"), g.Attr("preserveAspectRatio", "none"), h.Aria("hidden", "true"),
		g.El("rect", h.Class("track"), h.Width("100"), h.Height("8")), g.El("rect", h.Class("fill"), h.Width(width), h.Height("8"))),
		h.Span(g.Text(words)))
}

// button returns a link that looks like a button.
func button(label, href string) g.Node { return h.A(h.Class("button"), h.Href(href), g.Text(label)) }

// sentence returns a text that begins with a capital letter and ends with a full stop.
func sentence(s string) string {
	s = human.Printable(s)
	if s == "" {
		return s
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") && !strings.HasSuffix(s, "?") {
		s += "."
	}
	return s
}
