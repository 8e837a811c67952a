package crawl

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
)

// Kept says for how many pages of a crawl optional data was kept. A page counts if it was fetched
// by a run that keeps the data, even if the page has none.
type Kept struct {
	Pages   uint64 `json:"pages"`   // all pages that were fetched
	Links   uint64 `json:"links"`   // see Records.Links
	Text    uint64 `json:"text"`    // see Config.Text
	Fields  uint64 `json:"fields"`  // see Settings.Fields
	Answers uint64 `json:"answers"` // see Records.Save
}

func (k *Kept) add(other Kept) {
	k.Pages += other.Pages
	k.Links += other.Links
	k.Text += other.Text
	k.Fields += other.Fields
	k.Answers += other.Answers
}

// kept returns what a run with these settings keeps of a number of pages.
func (p *Plan) kept(pages uint64) Kept {
	s := &p.Settings
	of := func(on bool) uint64 {
		if on {
			return pages
		}
		return 0
	}
	return Kept{Pages: pages, Links: of(s.Links), Text: of(s.Text), Fields: of(len(s.Fields) > 0), Answers: of(s.Save != "none")}
}

// Kept returns the sums over all runs of the crawl whose directories are on this machine. Of a run
// that was killed or still runs, the last minute can be missing.
func (h *Handle) Kept() (sum Kept, err error) {
	if h.own != nil && h.own.monitor != nil {
		return h.own.monitor.totals().Kept, nil
	}
	dirs, err := h.place.RunDirs()
	if err != nil {
		return sum, nil // the directories are on other machines
	}
	for _, dir := range dirs {
		read, err := engine.ReadJSON[totals](filepath.Join(dir, totalsFile))
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return sum, err
		case read != nil:
			sum.add(read.Kept)
		}
	}
	return sum, nil
}
