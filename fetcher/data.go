package fetcher

import (
	"golang.org/x/net/html"

	"github.com/bloomfrontier/crawler/fetcher/fields"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/internal/extract"
	"github.com/bloomfrontier/crawler/internal/maintext"
	"github.com/bloomfrontier/crawler/internal/stage"
)

// maxDataBytes is the limit of the fields of a page, and of its main text.
const maxDataBytes = 1 << 20

// takeData extracts the fields and the main text of a page into its record. If the page has no
// document, v.lack has the reason. The caller must have called beginParsing. takeData may wait
// for memory (see hold).
func (v *visited) takeData(page *extract.Page, r *record.Record) {
	set := v.cfg.Fields.For(r.URL)
	if set == nil && !v.cfg.Text {
		return
	}
	stage.Parse.Begin()
	document := page.Document()
	v.noteLack(page, r)
	if v.lack == extract.LacksNothing && !v.growShare(2*min(int64(len(v.answer.Body)), maxDataBytes)) {
		page.Lack = extract.NoRoom
		v.noteLack(page, r)
	}
	if v.lack != extract.LacksNothing {
		if set != nil {
			r.Incomplete = set.Required()
		}
		return
	}
	TakeData(document.Nodes[0], page.Base.String(), set, v.cfg.Text, v.giveUp, r)
	v.data = len(r.Fields) + len(r.Text)
	if v.effort.spent {
		page.Lack = extract.TooSlow
		v.noteLack(page, r)
	}
}

// noteLack marks the record of a page whose data could not be taken. Because hold waits for
// memory, a lack of memory means that the page needs more than a page can get.
func (v *visited) noteLack(page *extract.Page, r *record.Record) {
	v.lack = page.Lack
	if v.lack == extract.NoRoom { // or requests were aborted, and the page is given back
		v.lack = extract.TooHeavy
	}
	r.NotTaken = v.lack.Mark()
	switch {
	case v.lack == extract.LacksNothing || r.Error != "":
	case v.lack == extract.TooSlow:
		r.Error = "not all data of the page was taken: " + v.lack.String()
	default:
		r.Error = "the page has no document to take data from: " + v.lack.String()
	}
}

// countNotTaken counts a finished page whose data was not taken.
func (t *tally) countNotTaken(why extract.Lack) {
	if why == extract.LacksNothing {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts.NotTaken.Add(why.Mark(), 1)
}

// TakeData extracts data from a document into a record: the fields of set (none if set is
// nil) and, if withText is true, the main text. References are relative to base. TakeData calls
// giveUp every few steps. If it returns true, TakeData soon ends with what it has found. giveUp
// is optional. TakeData returns the result for each field.
func TakeData(root *html.Node, base string, set *fields.Set, withText bool, giveUp func() bool, r *record.Record) (all []fields.Found) {
	if set != nil {
		all = set.Extract(fields.Page{Root: root, Base: base, GiveUp: giveUp})
		r.Fields, r.Incomplete, r.Cut = fields.JSON(all), fields.Missing(all), append(r.Cut, fields.Cut(all)...)
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
