package dashboard

import (
	"cmp"
	"slices"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
)

// failures is the page of errors and outcomes.
func failures(v *view) (*page, error) {
	return &page{title: "Errors", parts: []part{
		{id: "causes", title: "Errors by cause", live: true, wide: true, body: causesLong(v), command: v.command("report")},
		{id: "outcomes", title: "Outcomes of finished URLs", live: true, body: outcomesTable(v), command: v.command("status")},
		{id: "refused", title: "Links that rules refused", live: true, body: refusedTable(v), command: v.command("status")},
	}}, nil
}

// causesShort returns the most frequent causes of errors.
func causesShort(v *view) g.Node {
	t := table{name: "Errors by cause", head: []string{"Cause", "#Errors", "#In this run"}, empty: "There were no errors."}
	errors := v.board.Status.Errors
	for _, e := range errors[:min(len(errors), 5)] {
		t.add(h.A(h.Href(v.at("/errors")), text(e.Cause)), g.Text(count(e.Count)), g.Text(count(e.Run)))
	}
	return t.node()
}

// causesLong returns all causes of errors, with examples.
func causesLong(v *view) g.Node {
	t := table{name: "Errors by cause", head: []string{"Cause", "#Errors", "#In this run", "Examples"}, empty: "There were no errors."}
	for _, e := range v.board.Status.Errors {
		var examples g.Group
		for _, x := range e.Examples {
			examples = append(examples, h.Div(v.urlLink(x.URL), g.Text(": "), text(x.Error), g.Text(" · "), when(x.Time)))
		}
		t.add(text(e.Cause), g.Text(count(e.Count)), g.Text(count(e.Run)), examples)
	}
	return t.node()
}

// urlLink returns a URL of a site as text, with a link to its explanation. Nothing links to the site itself.
func (v *view) urlLink(url string) g.Node {
	return h.A(h.Class("url"), h.Href(v.at("/explain", "url", url)), text(url))
}

func outcomesTable(v *view) g.Node {
	t := table{name: "Outcomes", head: []string{"Outcome", "#URLs", "Share", "Change"}, empty: "No URL is finished yet."}
	all := v.board.Status.Stats.Outcomes
	var sum uint64
	for _, n := range all {
		sum += n
	}
	for _, of := range sortedCounts(all) {
		retry := g.Node(nil)
		if v.caller.Change && frontier.Outcome(of.name).State() == frontier.Failed {
			retry = h.A(h.Href(v.at("/act", "do", "retry", "outcome", of.name)), g.Text("Try again"), h.Span(h.Class("hidden"), g.Text(" "+of.name)))
		}
		share := float64(of.n) / float64(sum)
		t.add(g.Text(of.name), g.Text(count(of.n)), bar(share, percent(share)), retry)
	}
	return t.node()
}

func refusedTable(v *view) g.Node {
	t := table{name: "Refused links", head: []string{"Reason", "#Links"}, empty: "No link was refused."}
	for _, of := range sortedCounts(v.board.Status.Stats.Refused) {
		t.add(g.Text(of.name), g.Text(count(of.n)))
	}
	return t.node()
}

// named is a count with a name.
type named struct {
	name string
	n    uint64
}

// sortedCounts returns counts, the largest first, without zeros.
func sortedCounts[K ~string](counts map[K]uint64) (all []named) {
	for name, n := range counts {
		if n > 0 {
			all = append(all, named{string(name), n})
		}
	}
	slices.SortFunc(all, func(a, b named) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.name, b.name)) })
	return all
}

func percent(share float64) string { return human.Percent(share) }
