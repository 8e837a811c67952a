package dashboard

import (
	"maps"
	"slices"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bloomfrontier/crawler/crawl/settings"
)

// shown returns a value as a person reads it.
func shown(name, stored string) string {
	switch {
	case name == hostsSetting:
		stored = settings.WithDelays(stored)
	case stored == "" || stored == "[]":
		return "none"
	}
	return stored
}

// settingsPage is the page of the settings and of their history.
func settingsPage(v *view) (*page, error) {
	values, err := v.handle.Settings(v.r.Context())
	if err != nil {
		return nil, err
	}
	versions, err := v.handle.History(v.r.Context())
	if err != nil {
		return nil, err
	}
	now := table{name: "Settings", head: []string{"Setting", "Value", "What it does", "Change"}}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		change, help := g.Node(nil), ""
		if row := settings.Find(name); row != nil {
			help = row.Help
		}
		if name == hostsSetting {
			change = h.Span(h.Class("note"), g.Text("on the page of a host"))
		} else if v.caller.Change {
			change = h.A(h.Href(v.at("/act", "do", "set", "name", name)), g.Text("Change"), h.Span(h.Class("hidden"), g.Text(" "+name)))
		}
		now.add(h.Code(g.Text(name)), text(shown(name, values[name])), text(help), change)
	}
	history := table{name: "Versions", head: []string{"#Version", "When", "Who", "Why", "Changes"}, empty: "The settings were never changed."}
	for _, version := range slices.Backward(versions) {
		var changes g.Group
		for _, c := range version.Changes {
			changes = append(changes, h.Div(h.Code(g.Text(c.Name)), text(": "+shown(c.Name, c.From)+" → "+shown(c.Name, c.To))))
		}
		history.add(g.Text(count(version.Number)), when(version.Time), text(version.Who), text(version.Why), changes)
	}
	return &page{title: "Settings", parts: []part{
		{id: "versions", title: "Who changed what", wide: true, body: history.node(), command: v.command("history")},
		{id: "values", title: "Settings that can change while it runs", wide: true, body: now.node(), command: v.command("settings")},
	}}, nil
}
