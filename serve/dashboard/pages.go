package dashboard

import (
	"strconv"

	"github.com/dustin/go-humanize"
	g "maragu.dev/gomponents"
)

// pages is the page of the last records.
func pages(v *view) (*page, error) {
	return &page{title: "Pages", parts: []part{
		{id: "recent", title: "Records of the last moments", live: true, wide: true, body: v.recent(len(v.board.Recent)), command: v.command("records")},
	}}, nil
}

// recent lists at most n of the last records.
func (v *view) recent(n int) g.Node {
	t := table{name: "Last records", empty: "This process has written no record yet.", head: []string{"When", "URL", "#Status", "Outcome", "#Size", "Title or error"}}
	for _, r := range v.board.Recent[:min(n, len(v.board.Recent))] {
		status, words := "", r.Title
		if r.Status > 0 {
			status = strconv.Itoa(r.Status)
		}
		if r.Error != "" {
			words = r.Error
		}
		t.add(when(r.Time), v.urlLink(r.URL), g.Text(status), g.Text(r.Outcome), g.Text(humanize.IBytes(uint64(max(r.Bytes, 0)))), text(words))
	}
	return t.node()
}
