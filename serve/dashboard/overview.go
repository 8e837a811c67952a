package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/human"
)

// overview is the first page of a crawl.
func overview(v *view) (*page, error) {
	p := &page{title: "Overview", parts: []part{
		{id: "now", title: "Now", live: true, wide: true, body: nowFigures(v.board), command: v.command("status")},
		{id: "why", title: "Why it is not faster", live: true, wide: true, body: adviceNode(v)},
		chartPart(v),
		{id: "holding", title: "Hosts that hold it back", live: true, body: holdingBack(v), command: v.command("hosts")},
		{id: "causes", title: "Errors by cause", live: true, body: causesShort(v), command: v.command("report")},
		{id: "recent", title: "Last pages", live: true, wide: true, body: v.recent(6)},
	}}
	if visits := v.board.Status.Visits; visits != nil {
		p.parts = slices.Insert(p.parts, 1, part{id: "visits", title: "Pages that are visited again", live: true, wide: true, body: visitFigures(visits), command: v.command("status")})
	}
	return p, nil
}

// visitFigures says how many pages are up to date, and what stands in the way.
func visitFigures(f *report.Visits) g.Node {
	n := func(n int64) string { return count(uint64(max(n, 0))) }
	measured, below := "-", "not measured yet"
	if f.Sampled > 0 {
		measured, below = percent(f.Measured), "with "+n(f.Sampled)+" early visits"
	}
	slow := table{name: "Hosts that are too slow", empty: "No host is too slow for this.", head: []string{"Host", "#Pages", "#Visits a day wanted", "#Its delay allows"}}
	for i := range f.TooSlow {
		host := &f.TooSlow[i]
		slow.add(text(host.Host), g.Text(n(host.Pages)), g.Text(n(int64(host.PerDay))), g.Text(n(int64(host.Allowed))))
	}
	return h.Div(h.Dl(h.Class("figures"),
		figure("Up to date", percent(f.Fresh), "estimated, with "+n(int64(f.PerDay))+" visits a day"),
		figure("Measured", measured, below),
		figure("Pages", n(f.Pages), n(f.Gone)+" of them gone"),
		figure("Due", n(f.Due), n(f.Queued)+" more are queued"),
		figure("Late", seconds(f.MeanLate), "on average"),
		figure("Visits", n(f.Visits), percent(float64(f.Unchanged)/float64(max(f.Visits, 1)))+" of them found nothing new")),
		slow.node())
}

// head is the first part of each page of a crawl: its state, and the buttons that pause or resume it.
func (v *view) head() part {
	var lines g.Group
	switch {
	case v.board.Silent > 0:
		lines = append(lines, h.P(h.Class("bad"), h.Role("alert"), text(silence(v.board))))
	case v.read.err != nil:
		lines = append(lines, h.P(h.Class("bad"), h.Role("alert"), text(sentence(v.read.err.Error())), g.Text(" The numbers are from "), when(v.read.at)))
	}
	if v.crawl.Fault != "" {
		lines = append(lines, h.P(h.Class("bad"), text(sentence(v.crawl.Fault))))
	}
	if fault := v.board.Report.Fault; fault != "" {
		lines = append(lines, h.P(h.Class("bad"), text("The books do not balance: "+fault)))
	}
	for _, rule := range v.board.Status.Pauses {
		lines = append(lines, h.P(h.Class("note"), text("Paused: "+rule)))
	}
	state := stateOf(v.crawl, v.board)
	body := h.Div(h.Div(h.Class("row"), badge(state), text(strings.TrimPrefix(v.board.Report.End, state+", ")), v.runButtons()), lines)
	return part{id: "head", live: true, body: body}
}

// runButtons returns the forms that pause, resume and stop the crawl.
func (v *view) runButtons() g.Node {
	if !v.caller.Change {
		return nil
	}
	direct := func(do, label string) g.Node {
		return h.Form(h.Method("post"), h.Action(v.at("/act")), v.keys(do), hiddenAll("do", do, "back", v.r.URL.RequestURI()),
			h.Button(h.Type("submit"), g.Text(label)))
	}
	if v.crawl.State != running || v.board.Status.Stats.Paused {
		return direct("resume", "Resume")
	}
	return g.Group{direct("pause", "Pause"), button("Stop …", v.at("/act", "do", "stop"))}
}

// nowFigures returns the numbers that a person looks at first.
func nowFigures(b *report.Board) g.Node {
	s, rate, bytes := &b.Status.Stats, "-", "-"
	if b.Pace != nil {
		rate, bytes = human.PerSecond(b.Pace.PagesPerSecond), humanize.IBytes(uint64(max(b.Pace.BytesPerSecond, 0)))
	}
	open := s.Queued + s.Leased
	end, why := projection(b)
	return h.Div(h.Dl(h.Class("figures"),
		figure("Pages per second", rate, count(s.Pages)+" pages in all"),
		figure("Bytes per second", bytes, humanize.IBytes(s.Bytes)+" in all"),
		figure("URLs waiting", count(open), count(s.Delayed)+" of them for another attempt"),
		figure("URLs finished", count(s.Done+s.Failed), count(s.Failed)+" of them failed"),
		figure("Hosts with URLs", count(s.Hosts), ""),
		figure("Projected end", end, why)),
		doneBar(b), pagesLine(b.Report.Timeline),
		h.P(h.Class("note"), g.Text(fmt.Sprintf("%s found = %s added + %s seen + %s refused", count(s.Found), count(s.Added), count(s.Seen), count(s.RefusedTotal())))))
}

// holdingBack returns the hosts with the most waiting URLs, with the time that they take at their delay.
func holdingBack(v *view) g.Node {
	list, at, err := v.d.readings.hosts(v.r.Context(), v.crawl, v.handle, crawl.HostQuery{Sort: "queued", Most: 5, Sample: sampledFew})
	if list == nil {
		return h.P(h.Class("bad"), text(fmt.Sprint(err)))
	}
	t := table{name: "Hosts with the most waiting URLs", empty: "No host has URLs that wait.", head: []string{"Host", "#Waiting", "#Delay", "#All done in", "State"}}
	for i := range list.Hosts {
		host := &list.Hosts[i]
		if host.Queued+host.Leased == 0 {
			continue
		}
		t.add(v.hostLink(host.Host), g.Text(count(host.Queued+host.Leased)), g.Text(time.Duration(host.Delay).String()),
			g.Text(atLeast(host)), waitWords(host))
	}
	return g.Group{t.node(), v.sampleNote(list, at)}
}

// atLeast returns the time that the URLs of a host take at its delay.
func atLeast(host *report.Host) string {
	if host.Delay <= 0 {
		return ""
	}
	return "at least " + span(time.Duration(host.Queued+host.Leased)*time.Duration(host.Delay))
}
