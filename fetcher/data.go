package fetcher

import (
	"time"

	"golang.org/x/net/html"

	"github.com/bloomfrontier/crawler/fetcher/fields"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/internal/extract"
	"github.com/bloomfrontier/crawler/internal/maintext"
	"github.com/bloomfrontier/crawler/internal/stage"
)

// roomTime is the longest time for which takeData waits for the memory that the document of
// a page needs.
const roomTime = documentTime / 2

// takeData extracts the fields and the main text of a page into its record. The caller
// must have a place in Crawl.readers (see takeReader). takeData gives the place back
// while it waits. If requests were aborted during the wait, takeData returns false, and
// the caller no longer has the place.
func (v *visited) takeData(page *extract.Page, r *record.Record) (held bool) {
	set := v.cfg.Fields.For(r.URL)
	if set == nil && !v.cfg.Text {
		return true
	}
	stage.Parse.Begin()
	document := page.Document()
	for patience := time.Now().Add(roomTime); page.Lack == extract.NoRoom && time.Now().Before(patience); document = page.Document() {
		// Other visits may hold the memory and need this place to continue.
		<-v.readers
		pause(v.hard, 20*time.Millisecond)
		if !v.takeReader() {
			return false
		}
	}
	if page.Lack != extract.LacksNothing {
		if r.Error == "" {
			r.Error = "the page has no document to take data from: " + page.Lack.String()
		}
		if set != nil {
			r.Incomplete = set.Required()
		}
		return true
	}
	TakeData(document.Nodes[0], page.Base.String(), set, v.cfg.Text, v.impatience(), r)
	v.data = len(r.Fields) + len(r.Text)
	return true
}

// TakeData extracts data from a document into a record: the fields of set (none if set is
// nil) and, if withText is true, the main text. References are relative to base. If giveUp
// returns true, TakeData stops early. giveUp is optional. TakeData returns the result for
// each field.
func TakeData(root *html.Node, base string, set *fields.Set, withText bool, giveUp func() bool, r *record.Record) (all []fields.Found) {
	if set != nil {
		all = set.Extract(fields.Page{Root: root, Base: base, GiveUp: giveUp})
		r.Fields, r.Incomplete, r.Cut = fields.JSON(all), fields.Missing(all), fields.Cut(all)
	}
	if withText {
		found := maintext.Extract(root, giveUp)
		r.Text, r.Lang, r.Author, r.Published = found.Text, found.Lang, found.Author, found.Published
		if found.Cut {
			r.Cut = append(r.Cut, "text")
		}
	}
	return all
}
