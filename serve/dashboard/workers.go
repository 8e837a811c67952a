package dashboard

import (
	"fmt"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/human"
)

// workers is the page of the workers of a crawl and of its exact URLs.
func workers(v *view) (*page, error) {
	return &page{title: "Workers", parts: []part{
		{id: "workers", title: "Workers", live: true, wide: true, body: workerTable(v.board), command: v.command("status")},
		{id: "own", title: "This worker now", live: true, body: progressFacts(v.board), command: v.command("status")},
		{id: "exact", title: "Exact URLs", live: true, body: exactFacts(v), command: v.command("status")},
	}}, nil
}

// workerTable lists the workers of a crawl in Redis.
func workerTable(b *report.Board) g.Node {
	if b.Status.Shared == nil {
		return h.P(h.Class("note"), g.Text("The crawl is in a directory, so one process runs it."))
	}
	t := table{name: "Workers", empty: "No worker is alive.",
		head: []string{"Worker", "Machine", "#Process", "Since", "#Last sign of life", "#Partitions", "#Hosts leased"}}
	for i := range b.Status.Shared.Workers {
		w := &b.Status.Shared.Workers[i]
		t.add(text(w.Name), text(w.Host), g.Text(strconv.Itoa(w.PID)), when(w.Started), g.Text(seconds(w.Silent)+" ago"),
			g.Text(strconv.Itoa(w.Partitions)), g.Text(strconv.Itoa(w.Leases)))
	}
	lost := g.Node(nil)
	if n := b.Status.Shared.Lost; n > 0 {
		lost = h.P(h.Class("bad"), g.Text(count(n)+" URLs were lost by Redis after it had acknowledged them, and not found again."))
	}
	return h.Div(t.node(), lost)
}

// progressFacts says what the worker of this process does.
func progressFacts(b *report.Board) g.Node {
	p := b.Status.Progress
	if p == nil {
		return h.P(h.Class("note"), g.Text("No worker runs in this process."))
	}
	last := g.Node(nil)
	if p.LastError != nil {
		last = g.Group{text(p.LastError.String()), g.Text(" "), when(p.LastError.Time)}
	}
	return facts(
		factOf("Requests", fmt.Sprintf("%s for pages, %s for robots.txt, %s failed", count(p.Requests), count(p.Robots), count(p.Errors))),
		factOf("Hosts held", fmt.Sprintf("%d: %d being asked, %d waiting for their delay, %d late", p.Held, p.Asking, p.Parked, p.Late)),
		factOf("Hosts at once", strconv.Itoa(p.Slots)+" at most"),
		factOf("Waiting for the store", human.Plural(uint64(p.StoreWaiting), "page")),
		factOf("Waiting for robots.txt", human.Plural(uint64(p.RobotsWaiting), "host")),
		factOf("Waiting for names", strconv.Itoa(p.NamesWaiting)+" look-ups"),
		factOf("Leases lost", count(p.LeasesLost)),
		fact{"Last error", last},
	)
}

// exactFacts says what is known of exact URLs without counting rows.
func exactFacts(v *view) g.Node {
	s := &v.board.Status.Stats
	return h.Div(facts(
		factOf("Recovered", count(s.Recovered)+" new exact URLs that the filter claimed to know: false positives that did no harm"),
		factOf("Promoted", count(s.Promoted)+" that might have been bulk URLs before"),
		factOf("Expired", count(s.Expired.Due)+" keys wait for their deletion"),
	), h.P(h.Class("note"), g.Text("Keys in Postgres are counted by reading whole tables, so only the command does that.")))
}
