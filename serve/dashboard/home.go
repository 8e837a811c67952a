package dashboard

import (
	"cmp"
	"context"
	"slices"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/human"
)

// mostCrawls is the number of crawls on the first page.
const mostCrawls = 200

// home is the page of all crawls.
func home(v *view) (*page, error) {
	ctx, cancel := context.WithTimeout(v.r.Context(), answerTime)
	defer cancel()
	type row struct {
		Crawl
		reading
		trouble string
	}
	var rows []row
	all := v.d.readings.list(ctx)
	for _, c := range all[:min(len(all), mostCrawls)] {
		r := row{Crawl: c, reading: v.d.readings.of(ctx, c)}
		r.trouble = troubleOf(c, r.reading)
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(order(a.Crawl, a.trouble), order(b.Crawl, b.trouble)), cmp.Compare(a.Name, b.Name))
	})
	t := table{name: "Crawls", empty: "There are no crawls yet.",
		head: []string{"Crawl", "State", "#Pages/s", "Over its life", "#Pages", "Done of found so far", "Projected end", "What limits it"}}
	for _, r := range rows {
		name := h.A(h.Href("/crawls/"+r.Name), g.Text(r.Name))
		state := g.Node(badge(stateOf(r.Crawl, r.board)))
		if r.trouble != "" {
			state = g.Group{state, h.Div(h.Class("bad"), text(r.trouble))}
		}
		if r.board == nil {
			t.add(name, state, nil, nil, nil, nil, nil, nil)
			continue
		}
		s, pace := &r.board.Status.Stats, ""
		end, why := projection(r.board)
		if r.board.Pace != nil {
			pace = human.PerSecond(r.board.Pace.PagesPerSecond)
		}
		t.add(name, state, g.Text(pace), pagesLine(r.board.Report.Timeline), g.Text(count(s.Pages)), doneBar(r.board),
			g.Text(end+" ("+why+")"), text(limitOf(r.board)))
	}
	parts := []part{{id: "crawls", title: "Crawls", live: true, wide: true, body: t.node(), command: v.d.cfg.Crawls.Command("", "status", "")}}
	if n := len(all) - mostCrawls; n > 0 {
		parts = append(parts, part{id: "more", title: "More", body: h.P(g.Text("And " + human.Plural(n, "crawl") + " more."))})
	}
	return &page{title: "Crawls", parts: parts}, nil
}

// order returns the place of a crawl in the list: trouble first, then those that run.
func order(c Crawl, trouble string) int {
	switch {
	case trouble != "":
		return 0
	case c.State == running:
		return 1
	}
	return 2
}

// troubleOf returns what a person should look at, or "".
func troubleOf(c Crawl, r reading) string {
	switch {
	case c.Fault != "":
		return c.Fault
	case r.board == nil || r.err != nil:
		if r.err != nil {
			return r.err.Error()
		}
		return ""
	case r.board.Silent > 0:
		return silence(r.board)
	case r.board.Report.Fault != "":
		return r.board.Report.Fault
	}
	switch r.board.Status.Kind {
	case report.Machine, report.Store, report.Backoff, report.Blocking, report.LostWorker, report.Descriptors:
		return r.board.Status.Now
	}
	for i := range r.board.Status.Relays {
		if relay := &r.board.Status.Relays[i]; relay.Away != "" || relay.Fault != "" || relay.Missing() {
			return "relay " + relay.Title() + ": " + relay.Words()
		}
	}
	return ""
}

// silence says that the store does not answer.
func silence(b *report.Board) string {
	return cmp.Or(b.Store, "The store") + " has not answered for " + seconds(b.Silent) + "; the numbers are those from before"
}

// stateOf returns the state of a crawl in a word or two.
func stateOf(c Crawl, b *report.Board) string {
	if b != nil && b.Status.Stats.Paused && c.State == running {
		return "paused"
	}
	return c.State
}

func badge(state string) g.Node { return h.Span(h.Class("badge "+state), g.Text(state)) }

// doneBar returns how many of the URLs that were added so far are finished.
func doneBar(b *report.Board) g.Node {
	s := &b.Status.Stats
	done := s.Done + s.Failed
	return bar(float64(done)/float64(max(s.Added, 1)), count(done)+" of "+count(s.Added))
}

// projection returns in what time the crawl will end, and what this depends on.
func projection(b *report.Board) (end, why string) {
	switch {
	case b.Pace == nil:
		return "-", "it does not run"
	case b.Status.Stats.Paused:
		return "not known", "the crawl is paused"
	case b.Pace.End.By == "":
		return "not known", "new URLs are found"
	case b.Pace.End.Left < 0:
		return "not known", "nothing has finished in the last minute"
	}
	return "about " + span(b.Pace.End.Left.Round(time.Second)), string(b.Pace.End.By)
}

// limitOf returns what limits a crawl in a few words.
func limitOf(b *report.Board) string {
	if b.Status.Now != "" {
		return b.Status.Now
	}
	return b.Report.End
}
