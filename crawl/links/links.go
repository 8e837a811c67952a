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

// Link is a link on a page of a crawl.
type Link struct {
	Source string `json:"source"` // URL of the page
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

// Broken is a link whose target has no page.
type Broken struct {
	Source  string `json:"source"`
	Target  string `json:"target"`
	Status  int    `json:"status,omitempty"`
	Outcome string `json:"outcome"`       // outcome of the target
	Why     string `json:"why,omitempty"` // the error in the target's record
	Text    string `json:"text,omitempty"`
	Rel     string `json:"rel,omitempty"`
	Kind    string `json:"kind"`
}

// isBroken reports whether an outcome means that a URL has no page. It returns false
// for a URL that the crawl did not request, or whose content type the crawl did not
// want.
func isBroken(outcome string) bool {
	switch frontier.Outcome(outcome) {
	case frontier.ClientError, frontier.ServerError, frontier.Throttled, frontier.Network, frontier.HostDead:
		return true
	}
	return false
}

// Broken yields the links whose targets have no page, according to the last record of
// the target. It leaves out targets without a record, and links that a page had only before
// its last round. It reads the records twice and the links once. It keeps in memory the broken
// targets, and also each URL that has a record with a Round above 0. Each takes about 300 bytes.
func (s Source) Broken() iter.Seq2[Broken, error] {
	return func(yield func(Broken, error) bool) {
		targets, last, err := s.brokenTargets()
		if err != nil {
			yield(Broken{}, err)
			return
		}
		for link, err := range s.Links() {
			target, broken := targets[link.Target]
			if err == nil && (!broken || link.Round < last[link.Source]) {
				continue
			}
			row := Broken{link.Source, link.Target, target.status, target.outcome, target.why, link.Text, link.Rel, link.Kind}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

type target struct {
	round, status int
	outcome, why  string
}

// brokenTargets returns the URLs whose outcomes are broken according to isBroken, in the last
// round of the URL. The result last has the last rounds of URLs, if they are not 0.
func (s Source) brokenTargets() (targets map[string]target, last map[string]int, err error) {
	targets, last = make(map[string]target), make(map[string]int)
	for r, err := range s.Records() {
		if err != nil {
			return nil, nil, err
		}
		if !isBroken(r.Outcome) {
			continue
		}
		if old, known := targets[r.URL]; !known || old.round < r.Round {
			targets[r.URL] = target{r.Round, r.Status, r.Outcome, r.Error}
		}
	}
	for r, err := range s.Records() {
		if err != nil {
			return nil, nil, err
		}
		if old, known := targets[r.URL]; known && old.round < r.Round {
			delete(targets, r.URL)
		}
		if r.Round > last[r.URL] {
			last[r.URL] = r.Round
		}
	}
	return targets, last, nil
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
	case isBroken(r.Outcome) && r.Status > 0:
		return fmt.Sprintf("it has no page: %s, status %d", r.Outcome, r.Status)
	case isBroken(r.Outcome):
		return "it has no page: " + r.Outcome
	case r.Canonical != "" && r.Canonical != r.URL:
		return "its own canonical URL is " + r.Canonical
	}
	return ""
}
