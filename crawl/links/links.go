// Package links makes reports of the links that a crawl kept: broken links, chains
// of redirects, canonical conflicts, and the graph.
//
// It owns the definitions of these reports. It does not read files: its sources are
// iterators, which it iterates over several times. The comment of each report says how
// much memory it needs.
package links

import (
	"fmt"
	"iter"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// Link is a link on a page of a crawl, or a URL that a sitemap lists.
type Link struct {
	Source string `json:"source"` // URL of the page, or of the sitemap
	record.Edge
	// Round is the round of the page's record. It is usually 0 for the first record of a page, and
	// larger each time the page is queued again after it was finished. See frontier.Item.
	Round int `json:"round,omitempty"`
}

// Source has the records and the links of a crawl. Each call of one of its functions
// starts a new iteration.
type Source struct {
	Records func() iter.Seq2[record.Record, error]
	Links   func() iter.Seq2[Link, error]
}

// To yields the links to a URL, which must be canonical.
func (s Source) To(url string) iter.Seq2[Link, error] {
	return func(yield func(Link, error) bool) {
		for link, err := range s.Links() {
			if (err != nil || link.Target == url) && !yield(link, err) || err != nil {
				return
			}
		}
	}
}

// Conflict is a page whose rel=canonical names a URL that cannot be the canonical one.
type Conflict struct {
	URL       string `json:"url"`
	Canonical string `json:"canonical"`
	Why       string `json:"why"`
}

// Conflicts yields the pages whose rel=canonical is another URL that was crawled and
// that cannot be canonical. Such a URL has no page, redirects, or names a third URL as
// canonical. A page is judged by the record of its last round. Conflicts reads the records
// three times. It keeps in memory the canonical URLs, and also each URL that has a record with
// a Round above 0. Each takes about 300 bytes.
func (s Source) Conflicts() iter.Seq2[Conflict, error] {
	return func(yield func(Conflict, error) bool) {
		named := make(map[string]record.Record) // only with the fields that are needed below
		last := make(map[string]int)            // the last rounds of URLs, if not 0
		for r, err := range s.Records() {
			if err != nil {
				yield(Conflict{}, err)
				return
			}
			if r.Canonical != "" && r.Canonical != r.URL {
				named[r.Canonical] = record.Record{Round: -1}
			}
			if r.Round > last[r.URL] {
				last[r.URL] = r.Round
			}
		}
		for r, err := range s.Records() {
			if err != nil {
				yield(Conflict{}, err)
				return
			}
			if old, is := named[r.URL]; is && old.Round < r.Round {
				named[r.URL] = record.Record{Round: r.Round, URL: r.URL, Outcome: r.Outcome, Status: r.Status, Canonical: r.Canonical, RedirectTo: r.RedirectTo}
			}
		}
		for r, err := range s.Records() {
			if err != nil {
				yield(Conflict{}, err)
				return
			}
			if r.Canonical == "" || r.Canonical == r.URL || r.Round < last[r.URL] {
				continue
			}
			if why := conflictReason(named[r.Canonical]); why != "" && !yield(Conflict{r.URL, r.Canonical, why}, nil) {
				return
			}
		}
	}
}

// conflictReason returns why the URL of a record cannot be canonical, or "" if it can.
func conflictReason(r record.Record) string {
	switch {
	case r.RedirectTo != "":
		return "it redirects to " + r.RedirectTo
	case frontier.Outcome(r.Outcome).IsBroken() && r.Status > 0:
		return fmt.Sprintf("it has no page: %s, status %d", r.Outcome, r.Status)
	case frontier.Outcome(r.Outcome).IsBroken():
		return "it has no page: " + r.Outcome
	case r.Canonical != "" && r.Canonical != r.URL:
		return "its own canonical URL is " + r.Canonical
	}
	return ""
}
