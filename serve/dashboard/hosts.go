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

const (
	sampled    = 1000 // hosts that a list looks at
	sampledOld = 200  // hosts of which a list reads the oldest URL
	sampledFew = 100  // hosts that the overview looks at
	hostRows   = 50
)

// hostViews are the lists of hosts: a name, the words for it, and the order of crawl.HostQuery.
var hostViews = []struct{ name, words, sort string }{
	{"", "Largest", "queued"}, {"slow", "Next request latest", "wait"}, {"oldest", "Oldest waiting", "oldest"},
	{"trouble", "In trouble", "errors"}, {"errors", "Most errors", "errors"}, {"pages", "Most pages", "pages"},
}

// hosts is the page of the hosts of a crawl, or of one host.
func hosts(v *view) (*page, error) {
	query := v.r.URL.Query()
	if name := query.Get("host"); name != "" {
		return oneHost(v, strings.ToLower(name))
	}
	at := max(slices.IndexFunc(hostViews, func(of struct{ name, words, sort string }) bool { return of.name == query.Get("view") }), 0)
	chosen := hostViews[at]
	ask := crawl.HostQuery{Sort: chosen.sort, Trouble: chosen.name == "trouble", Most: hostRows, Sample: sampled}
	if chosen.sort == "oldest" {
		ask.Sample = sampledOld
	}
	list, read, err := v.d.readings.hosts(v.r.Context(), v.crawl, v.handle, ask)
	if list == nil {
		return nil, err
	}
	command := "hosts"
	if ask.Trouble {
		command = "trouble"
	}
	var views g.Group
	for i, of := range hostViews {
		views = append(views, h.Li(h.A(h.Href(v.at("/hosts", "view", of.name)), g.If(i == at, h.Aria("current", "true")), g.Text(of.words))))
	}
	search := h.Form(h.Method("get"), h.Action(v.at("/hosts")), h.Class("row"),
		h.Label(h.For("host"), g.Text("One host")), h.Input(h.ID("host"), h.Name("host"), h.Type("search"), h.Placeholder("www.example.org")),
		h.Button(h.Type("submit"), g.Text("Show")))
	return &page{title: "Hosts", parts: []part{
		{id: "views", title: "Which hosts", wide: true, body: h.Div(h.Ul(h.Class("choices"), views), search)},
		{id: "waits", title: "What the hosts wait for", live: true, wide: true, body: h.P(text(waitsOf(v.board)))},
		{id: "hosts", title: chosen.words, live: true, wide: true, body: hostTable(v, list, read), command: v.command(command)},
	}}, nil
}

// waitsOf says what the hosts of a crawl wait for.
func waitsOf(b *report.Board) string {
	if w := b.Status.Waits; w != nil && w.Hosts > 0 {
		return sentence(w.String())
	}
	return "No host has URLs that wait."
}

// hostTable returns a list of hosts.
func hostTable(v *view, list *report.Hosts, read time.Time) g.Node {
	t := table{name: "Hosts", empty: "None of the hosts that were looked at.",
		head: []string{"Host", "#Waiting", "Oldest", "#Pages", "#Failed", "#Errors", "#Delay", "Next request", "State", "Change"}}
	for i := range list.Hosts {
		host := &list.Hosts[i]
		oldest := g.Node(nil)
		if host.Oldest != nil {
			oldest = g.Text(span(time.Since(*host.Oldest)))
		}
		t.add(v.hostLink(host.Host), g.Text(count(host.Queued+host.Leased)), oldest, g.Text(count(host.Pages)), g.Text(count(host.Failed)),
			g.Text(count(host.Errors)), g.Text(time.Duration(host.Delay).String()), whenever(host.Next), waitWords(host), v.hostActions(host))
	}
	return g.Group{t.node(), v.sampleNote(list, read)}
}

// sampleNote says of how many hosts a list is, and how old it is.
func (v *view) sampleNote(list *report.Hosts, read time.Time) g.Node {
	words := human.Plural(list.Selected, "host")
	if list.Sampled {
		words = fmt.Sprintf("About: the list is from those of %s hosts that are due first or have the most pages, errors and waits; %s of them belong to it", count(v.board.Status.Stats.Hosts), count(list.Selected))
	}
	return h.P(h.Class("note"), g.Text(words+", read at "), when(read))
}

func (v *view) hostLink(name string) g.Node {
	return h.A(h.Href(v.at("/hosts", "host", name)), text(name))
}

// waitWords says what a host waits for, and why.
func waitWords(host *report.Host) g.Node {
	words := host.WaitsFor.Words()
	if host.Why != "" {
		words += ": " + host.Why
	}
	if host.Trouble() {
		return h.Span(h.Class("bad"), text(words))
	}
	return text(words)
}

// hostActions returns links to the changes of a host.
func (v *view) hostActions(host *report.Host) g.Node {
	if !v.caller.Change {
		return nil
	}
	pause, label := "pause-host", "Pause"
	if slices.Contains(v.board.Status.Pauses, "host="+host.Host) {
		pause, label = "resume-host", "Resume"
	}
	var links g.Group
	for _, of := range [][2]string{{pause, label}, {"delay", "Delay"}, {"drop-host", "Drop"}, {"retry", "Retry"}} {
		if of[0] == "retry" && host.Failed == 0 || of[0] == "drop-host" && host.Queued == 0 {
			continue
		}
		links = append(links, h.A(h.Href(v.at("/act", "do", of[0], "host", host.Host)), g.Text(of[1]),
			h.Span(h.Class("hidden"), text(" "+host.Host))), g.Text(" "))
	}
	return h.Span(h.Class("links"), links)
}

// oneHost is the page of one host.
func oneHost(v *view, name string) (*page, error) {
	host, err := v.host(name)
	if err != nil {
		return nil, err
	}
	title := "Host " + human.Printable(name)
	if host == nil {
		other := "www." + name
		if bare, is := strings.CutPrefix(name, "www."); is {
			other = bare
		}
		body := h.P(h.Class("note"), g.Text("The crawl knows no host with this key."))
		if found, err := v.host(other); err == nil && found != nil {
			body = h.P(h.Class("note"), g.Text("The crawl knows no host with this key, but it knows "), v.hostLink(other), g.Text("."))
		}
		return &page{title: title, parts: []part{{id: "host", title: title, wide: true, body: body}}}, nil
	}
	var causes g.Group
	for _, cause := range sortedCounts(host.Causes) {
		causes = append(causes, text(cause.name+" "+count(cause.n)+" "))
	}
	list := []fact{
		factOf("Waiting", fmt.Sprintf("%s, %s of them for another attempt; %s with a worker", count(host.Queued), count(host.Delayed), count(host.Leased))),
		factOf("Finished", fmt.Sprintf("%s done, %s failed, %s, %s", count(host.Done), count(host.Failed), human.Plural(host.Pages, "page"), humanize.IBytes(host.Bytes))),
		{"Errors", causes}, {"State", waitWords(host)}, {"Next request", whenever(host.Next)},
		factOf("Delay", time.Duration(host.Delay).String()+" ("+host.DelayBy+")"), factOf("All done in", atLeast(host)),
		{"robots.txt", text(host.Robots)}, {"Oldest URL", text(host.OldestURL)}, {"Added", whenever(host.Oldest)},
		{"Last finished", whenever(host.Finished)}, {"Last error", text(host.LastError)}, {"Worker", text(host.Worker)},
	}
	body := h.Div(facts(list...), h.P(v.hostActions(host)))
	return &page{title: title, parts: []part{{id: "host", title: title, live: true, wide: true, body: body, command: v.commandOf("hosts", name)}}}, nil
}

// host returns the state of one host, or nil if the crawl does not know it.
func (v *view) host(name string) (*report.Host, error) {
	list, _, err := v.d.readings.hosts(v.r.Context(), v.crawl, v.handle, crawl.HostQuery{Host: name})
	if list == nil {
		return nil, err
	}
	if len(list.Hosts) == 0 {
		return nil, nil
	}
	return &list.Hosts[0], nil
}
