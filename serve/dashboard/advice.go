package dashboard

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bloomfrontier/crawler/crawl/report"
)

// advice explains one kind of limit.
type advice struct {
	why   string // a sentence
	label string // of the action; empty for none
	page  string // of the action, below that of the crawl
	query []string
}

var trouble = []string{"view", "trouble"}

// advices has a sentence and an action for each kind of limit.
var advices = map[report.Kind]advice{
	report.Politeness: {"Its hosts may be asked only once in their delay, and most of them wait for that. More hosts, or a shorter delay where the owners agree, would make it faster.",
		"Change the delay …", "/act", []string{"do", "set", "name", "delay"}},
	report.Network: {"Most hosts are being asked and have not answered yet. More requests at once help if the hosts can take them.",
		"Change requests per host …", "/act", []string{"do", "set", "name", "host-concurrency"}},
	report.CPU:         {"This machine's processors are busy. Another worker on another machine would make it faster.", "", "", nil},
	report.Store:       {"Pages wait for the store. A faster disk, or a nearer Redis, would make it faster.", "Look at the workers", "/workers", nil},
	report.Robots:      {"Most hosts wait for their robots.txt.", "Look at these hosts", "/hosts", trouble},
	report.Names:       {"Most hosts wait for the name server. A faster one (--dns) would make it faster.", "", "", nil},
	report.Backoff:     {"Most hosts have failed and wait before the next attempt.", "Look at these hosts", "/hosts", trouble},
	report.Retries:     {"Most hosts have only URLs that wait for another attempt.", "Look at these hosts", "/hosts", trouble},
	report.Blocking:    {"Walls block most hosts: their owners refuse this crawler. Ask them for access.", "Look at these hosts", "/hosts", trouble},
	report.LostWorker:  {"A worker has died, and its hosts are free when its leases end.", "Look at the workers", "/workers", nil},
	report.PausedHosts: {"Most hosts are paused by rules.", "Look at the rules", "/settings", nil},
	report.Rate:        {"The worker may not make more requests per second (--rate). Start it again with another value.", "", "", nil},
	report.Bandwidth:   {"The worker may not receive more bytes per second (--bandwidth). Start it again with another value.", "", "", nil},
	report.Machine:     {"The network of this machine does not work.", "", "", nil},
	report.Memory:      {"The worker takes no more hosts until there is memory. More --memory would make it faster.", "", "", nil},
	report.Descriptors: {"This machine allows no more connections (ulimit -n).", "", "", nil},
	report.MaxPages:    {"The crawl has as many pages as it may have.", "Change the limit …", "/act", []string{"do", "set", "name", "max-pages"}},
	report.Paused:      {"It is paused. Resume it with the button above.", "", "", nil},
	report.Feeding:     {"Nothing is queued, and it waits for seeds.", "", "", nil},
	report.Empty:       {"Nothing is queued. Add seeds to go on.", "", "", nil},
	report.Stopped:     {"No process runs it.", "", "", nil},
	report.Unknown:     {"It began too recently to say.", "", "", nil},
}

// adviceNode says in one sentence what limits the crawl, with the action that would change that.
func adviceNode(v *view) g.Node {
	st := &v.board.Status
	a, known := advices[st.Kind]
	if !known {
		a = advices[report.Unknown]
	}
	action := g.Node(nil)
	if a.label != "" && (v.caller.Change || a.page != "/act") {
		action = h.P(button(a.label, v.at(a.page, a.query...)))
	}
	return h.Div(h.P(h.Class("lead"), g.Text(a.why)), h.P(h.Class("note"), text(sentence(st.Now))), action, limitShares(v.board))
}

// limitShares returns what limited this run so far.
func limitShares(b *report.Board) g.Node {
	t := table{name: "What limited this run", head: []string{"Limit", "Share of this run"}, empty: "Nothing has limited this run yet."}
	for _, share := range b.Report.Limits {
		t.add(g.Text(string(share.Kind)), bar(share.Share, percent(share.Share)+", "+seconds(share.Seconds)))
	}
	return h.Details(h.Summary(g.Text("What limited this run so far")), t.node())
}
