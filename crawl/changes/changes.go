// Package changes compares the pages of two crawls, or of two times of one crawl.
//
// It owns what counts as a change. It does not read files: its sources are iterators over the
// records of crawls. It sorts what it needs of the records by URL, with up to 64 MiB of memory, and a
// temporary file for more.
package changes

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/crawl/table"
	"github.com/bloomfrontier/crawler/frontier"
)

// Change is a URL whose page has changed. It has the values before and after the change.
type Change struct {
	URL string `json:"url"`
	// Change is "new", "gone", or a list of status, title, canonical and redirect, joined by commas.
	Change string `json:"change"`

	StatusBefore    int    `json:"status_before,omitempty"`
	Status          int    `json:"status,omitempty"`
	OutcomeBefore   string `json:"outcome_before,omitempty"`
	Outcome         string `json:"outcome,omitempty"`
	TitleBefore     string `json:"title_before,omitempty"`
	Title           string `json:"title,omitempty"`
	CanonicalBefore string `json:"canonical_before,omitempty"`
	Canonical       string `json:"canonical,omitempty"`
	RedirectBefore  string `json:"redirect_before,omitempty"`
	Redirect        string `json:"redirect,omitempty"`
}

// page is what is compared of a record.
type page struct {
	URL       string    `json:"url"`
	Later     bool      `json:"later"` // the record is of the second crawl
	Round     uint32    `json:"round"`
	FetchedAt time.Time `json:"fetched_at"`
	Status    int       `json:"status"`
	Outcome   string    `json:"outcome"`
	Title     string    `json:"title"`
	Canonical string    `json:"canonical"`
	Redirect  string    `json:"redirect_to"`
}

// sameAs gives p, which says that the page is not modified, what an earlier record of the page says.
func (p *page) sameAs(earlier *page) {
	p.Status, p.Outcome, p.Title, p.Canonical, p.Redirect = earlier.Status, earlier.Outcome, earlier.Title, earlier.Canonical, earlier.Redirect
}

// Between calls the function read with the changes from one crawl to another, sorted by URL. The
// arguments before and after are the records of the crawls; of each URL, the one with the highest round
// counts. A URL is new if only the second crawl has a record of it, and gone if only the first one has.
// The directory temp is for the temporary file; empty means the system's. The function read is called
// once, and Between returns its error.
func Between(before, after table.Lines, temp string, read func(iter.Seq2[Change, error]) error) error {
	return sorted(func(yield func(page, error) bool) {
		for i, lines := range []table.Lines{before, after} {
			for p, err := range pagesOf(lines) {
				p.Later = i == 1
				if !yield(p, err) || err != nil {
					return
				}
			}
		}
	}, temp, read, func(versions []page) (before, after *page) {
		for i := range versions { // a later round comes later
			if versions[i].Later {
				after = &versions[i]
			} else {
				before = &versions[i]
			}
		}
		return before, after
	})
}

// MissingRoundError reports that no record of a crawl has a round above 0.
type MissingRoundError struct {
	Round, Last uint32 // the round that was asked for, and the last one of the crawl
}

// Error implements error.
func (e *MissingRoundError) Error() string {
	return fmt.Sprintf("no URL was fetched in round %d: the last round is %d", e.Round, e.Last)
}

// Rounds describes two times of one crawl: the ends of two of its rounds.
type Rounds struct{ Before, After uint32 }

// LastRounds returns the last round of a crawl and the one before it. It returns a MissingRoundError if
// the crawl has only round 0.
func LastRounds(records table.Lines) (r Rounds, err error) {
	for p, err := range pagesOf(records) {
		if err != nil {
			return r, err
		}
		r.After = max(r.After, p.Round)
	}
	if r.After == 0 {
		return r, &MissingRoundError{Round: 1}
	}
	r.Before = r.After - 1
	return r, nil
}

// Read is like Between, for the times at which the rounds r.Before and r.After of one crawl were over. A
// round is over when the first URL of a later round is fetched. Of each URL, the last record of that time
// counts. A URL is new if its first record is from between these times. A URL that was promoted (see
// frontier.Stats) belongs to the round of its record. Read iterates over the records twice.
func (r Rounds) Read(records table.Lines, temp string, read func(iter.Seq2[Change, error]) error) error {
	var ends [2]time.Time // of the rounds; zero if there is no later round
	last := uint32(0)
	for p, err := range pagesOf(records) {
		if err != nil {
			return err
		}
		last = max(last, p.Round)
		for i, of := range []uint32{r.Before, r.After} {
			if p.Round > of && (ends[i].IsZero() || p.FetchedAt.Before(ends[i])) {
				ends[i] = p.FetchedAt
			}
		}
	}
	if max(r.Before, r.After) > last {
		return &MissingRoundError{max(r.Before, r.After), last}
	}
	return sorted(pagesOf(records), temp, read, func(versions []page) (before, after *page) {
		for i := range versions {
			at := versions[i].FetchedAt
			if ends[0].IsZero() || at.Before(ends[0]) {
				before = &versions[i]
			}
			if ends[1].IsZero() || at.Before(ends[1]) {
				after = &versions[i]
			}
		}
		return before, after
	})
}

// pagesOf parses records.
func pagesOf(lines table.Lines) iter.Seq2[page, error] {
	return func(yield func(page, error) bool) {
		n := 0
		for line, err := range lines {
			var p page
			n++
			if err == nil {
				if err = json.Unmarshal(line, &p); err != nil {
					err = fmt.Errorf("changes: record %d: %w", n, err)
				}
			}
			if err == nil && frontier.Outcome(p.Outcome).IsCheck() {
				continue // not a page of the crawl
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// sorted sorts pages by URL and round. It calls the function read with the changes of each URL. The
// function choose returns the versions of a page that are compared, nil if there is none.
func sorted(pages iter.Seq2[page, error], temp string, read func(iter.Seq2[Change, error]) error, choose func([]page) (before, after *page)) error {
	lines := func(yield func([]byte, error) bool) {
		for p, err := range pages {
			var line []byte
			if err == nil {
				line, err = json.Marshal(p)
			}
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
	schema := table.SchemaOf[page]()
	var keys []table.SortKey
	for _, name := range []string{"url", "later", "round", "fetched_at"} {
		key, err := schema.SortKey(name)
		if err != nil {
			return err
		}
		keys = append(keys, key)
	}
	return schema.Sorted(lines, keys, temp, func(lines table.Lines) error {
		return read(func(yield func(Change, error) bool) {
			var versions []page
			compare := func() bool {
				c, changed := changeOf(choose(versions))
				return !changed || yield(c, nil)
			}
			for p, err := range pagesOf(lines) {
				if err != nil {
					yield(Change{}, err)
					return
				}
				if len(versions) > 0 && versions[0].URL != p.URL {
					if !compare() {
						return
					}
					versions = versions[:0]
				}
				if n := len(versions); n > 0 && p.Outcome == string(frontier.NotModified) {
					p.sameAs(&versions[n-1])
				}
				versions = append(versions, p)
			}
			compare()
		})
	})
}

// changeOf compares two versions of a page.
func changeOf(before, after *page) (c Change, changed bool) {
	if before != nil {
		c = Change{URL: before.URL, StatusBefore: before.Status, OutcomeBefore: before.Outcome, TitleBefore: before.Title,
			CanonicalBefore: before.Canonical, RedirectBefore: before.Redirect}
	}
	if after != nil {
		c.URL, c.Status, c.Outcome, c.Title, c.Canonical, c.Redirect = after.URL, after.Status, after.Outcome, after.Title, after.Canonical, after.Redirect
	}
	var what []string
	differ := func(name string, is bool) {
		if is {
			what = append(what, name)
		}
	}
	switch {
	case before == nil && after == nil:
	case before == nil:
		what = []string{"new"}
	case after == nil:
		what = []string{"gone"}
	default:
		differ("status", before.Status != after.Status)
		differ("title", before.Title != after.Title)
		differ("canonical", before.Canonical != after.Canonical)
		differ("redirect", before.Redirect != after.Redirect)
	}
	c.Change = strings.Join(what, ",")
	return c, what != nil
}
