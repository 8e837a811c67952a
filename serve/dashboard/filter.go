package dashboard

import (
	"fmt"
	"strconv"

	"github.com/dustin/go-humanize"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bloomfrontier/crawler/crawl/report"
)

// filter is the page of the filter that remembers bulk URLs.
func filter(v *view) (*page, error) {
	return &page{title: "Filter", parts: []part{
		{id: "lost", title: "URLs that it swallowed", live: true, wide: true, body: lostWords(v.board.Report.FPR), command: v.command("report")},
		{id: "rates", title: "Error rate", live: true, body: rateTable(v.board.Report.FPR), command: v.command("report")},
		{id: "layers", title: "Layers", live: true, body: layerTable(v.board.Report.Filter), command: v.command("report")},
	}}, nil
}

// lostWords says how many new URLs the filter took for known ones.
func lostWords(f *report.FalsePositives) g.Node {
	if f == nil || f.Lost == nil {
		return h.P(h.Class("note"), g.Text("It was not measured yet."))
	}
	return h.Div(h.P(h.Class("lead"), g.Text(fmt.Sprintf("About %.3g new URLs were probably taken for known ones so far, and not queued.", f.Lost.Expected))),
		h.P(h.Class("note"), g.Text(fmt.Sprintf("With a probability of 95 %% it is between %.3g and %.3g. Exact URLs are never swallowed.", f.Lost.Low, f.Lost.High))))
}

// rateTable returns the error rates of the filter: from its fill, and as measured.
func rateTable(f *report.FalsePositives) g.Node {
	t := table{name: "Error rates", head: []string{"How it is known", "#Error rate now", "From"}, empty: "It was not measured yet."}
	if f == nil {
		return t.node()
	}
	add := func(how, of string, figure *report.Figure) {
		switch {
		case figure == nil:
		case of == "":
			t.add(g.Text(how), g.Text(fmt.Sprintf("%.3g", figure.P)), g.Text("the share of bits that are set"))
		case figure.Trials == 0:
			t.add(g.Text(how), g.Text("no data"), g.Text(of))
		case figure.Hits == 0:
			t.add(g.Text(how), g.Text(fmt.Sprintf("below %.3g", figure.High)), g.Text("none of "+count(figure.Trials)+" "+of))
		default:
			t.add(g.Text(how), g.Text(fmt.Sprintf("%.3g", figure.P)), g.Text(count(figure.Hits)+" of "+count(figure.Trials)+" "+of))
		}
	}
	add("computed from its fill", "", f.Estimated)
	add("measured with a sample, mean of the crawl", "sampled URLs", f.Shadow)
	add("probed", "random fingerprints", f.Probed)
	return t.node()
}

// layerTable returns the layers of the filter, and when the next one is added.
func layerTable(f *report.Filter) g.Node {
	if f == nil {
		return h.P(h.Class("note"), g.Text("It was not measured yet."))
	}
	t := table{name: "Layers", head: []string{"#Layer", "#URLs", "#Made for", "Bits set", "#Error rate", "#At most", "#Full in"}}
	for i, l := range f.Layers {
		full := ""
		switch {
		case l.FullIn != nil:
			full = "about " + seconds(*l.FullIn)
		case l.Keys >= l.Capacity:
			full = "full"
		}
		t.add(g.Text(strconv.Itoa(i+1)), g.Text(count(l.Keys)), g.Text(count(l.Capacity)), bar(l.Fill, percent(l.Fill)),
			g.Text(fmt.Sprintf("%.3g", l.FPR)), g.Text(fmt.Sprintf("%.3g", l.Target)), g.Text(full))
	}
	next := "When it is full, its error rate rises: it does not grow."
	if f.Growth {
		next = "When the last layer is full, the next one is added."
	}
	words := fmt.Sprintf("%s of %s URLs, %s of memory. %s", count(f.Keys), count(f.Capacity), humanize.IBytes(f.Bytes), next)
	return h.Div(t.node(), h.P(h.Class("note"), g.Text(words)))
}
