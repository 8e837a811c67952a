package dashboard

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/internal/human"
)

// mostLetters is the number of dead letters that a page shows.
const mostLetters = 20

// relays is the page of the relays, and of the dead letters of one of them.
func relays(v *view) (*page, error) {
	t := table{name: "Relays", empty: "No relay delivers the events of this crawl.",
		head: []string{"Relay", "#Events behind", "#Bytes behind", "#Oldest", "#Dead letters", "State"}}
	for i := range v.board.Status.Relays {
		r := &v.board.Status.Relays[i]
		dead := g.Node(g.Text("0"))
		if r.Dead > 0 {
			dead = h.A(h.Href(v.at("/relays", "relay", r.Name)), g.Text(count(r.Dead)), h.Span(h.Class("hidden"), text(" of "+r.Title())))
		}
		behind := count(r.Events)
		if r.More {
			behind = "more than " + behind
		}
		state := text(r.Words())
		if r.Away != "" || r.Fault != "" || r.Missing() || r.Dead > 0 {
			state = h.Span(h.Class("bad"), state)
		}
		t.add(text(r.Title()), g.Text(behind), g.Text(humanize.IBytes(r.Bytes)), g.Text(seconds(r.Seconds)), dead, state)
	}
	parts := []part{{id: "relays", title: "Relays", live: true, wide: true, body: t.node(), command: v.command("relays")}}
	if relay := v.r.URL.Query().Get("relay"); relay != "" {
		letters, n, err := v.letters(relay)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{id: "letters", title: "Dead letters of " + human.Printable(relay), wide: true, body: v.letterTable(relay, letters, n), command: v.command("letters")})
	}
	return &page{title: "Relays", parts: parts}, nil
}

// letters returns the first dead letters of a relay, and their number.
func (v *view) letters(relay string) (first []events.DeadLetter, n int, err error) {
	boxes, err := v.handle.Outboxes(v.r.Context())
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, boxes.Close()) }()
	list, err := boxes.List(v.r.Context())
	for i := range list {
		letters, err := list[i].Dead(v.r.Context(), relay)
		if err != nil {
			return nil, 0, err
		}
		n += len(letters)
		first = append(first, letters[:min(len(letters), mostLetters-len(first))]...)
	}
	return first, n, err
}

// letterTable lists dead letters.
func (v *view) letterTable(relay string, letters []events.DeadLetter, n int) g.Node {
	t := table{name: "Dead letters", head: []string{"When", "URL", "Why the other program refused it", "Change"}, empty: "It has no dead letters."}
	var ids []string
	for i := range letters {
		l := &letters[i]
		ids = append(ids, l.Event.ID)
		change := g.Group(nil)
		if v.caller.Change {
			act := func(label, do string) g.Node {
				return h.A(h.Href(v.at("/act", "do", do, "relay", relay, "ids", l.Event.ID)), g.Text(label), h.Span(h.Class("hidden"), text(" "+l.Event.Subject)))
			}
			change = g.Group{act("Send again", "resend"), g.Text(" · "), act("Discard", "discard")}
		}
		reason := l.Reason
		if l.Resend {
			reason += " (it is sent again as soon as the relay runs)"
		}
		t.add(when(l.At), v.urlLink(l.Event.Subject), text(reason), change)
	}
	all := g.Node(nil)
	if v.caller.Change && n > 0 {
		these, of := fmt.Sprintf(" these %d", len(letters)), strings.Join(ids, " ")
		all = h.P(h.Class("row"), button("Send"+these+" again …", v.at("/act", "do", "resend", "relay", relay, "ids", of)),
			button("Discard"+these+" …", v.at("/act", "do", "discard", "relay", relay, "ids", of)))
	}
	return h.Div(t.node(), h.P(h.Class("note"), g.Text(fmt.Sprintf("The oldest %d of %d.", len(letters), n))), all)
}
