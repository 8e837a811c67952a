package links

import (
	"hash/maphash"
	"iter"
	"maps"
	"math"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// Broken is a URL that has no page although pages link to it. Sitemaps that list it count as such pages.
type Broken struct {
	Pages   int      `json:"pages"` // number of pages that link to the URL
	Status  int      `json:"status,omitempty"`
	Outcome string   `json:"outcome"`
	Target  string   `json:"target"`        // the URL
	Sources []string `json:"sources"`       // three of the pages, or all if they are fewer
	Why     string   `json:"why,omitempty"` // the error in the record of the URL
}

// BrokenLink is a link whose target has no page.
type BrokenLink struct {
	Source  string `json:"source"`
	Target  string `json:"target"`
	Status  int    `json:"status,omitempty"`
	Outcome string `json:"outcome"`       // outcome of the target
	Why     string `json:"why,omitempty"` // the error in the target's record
	Text    string `json:"text,omitempty"`
	Rel     string `json:"rel,omitempty"`
	Kind    string `json:"kind"`
}

const (
	// maxTargets is how many broken targets are in memory at once.
	maxTargets = 100_000
	// maxSources is how many pages Broken names.
	maxSources = 3
)

// Broken yields the URLs that have no page, and to which pages link, in no particular order. It
// decides as BrokenLinks does, but needs 300 bytes more for each target.
func (s Source) Broken() iter.Seq2[Broken, error] {
	return func(yield func(Broken, error) bool) {
		for some, err := range s.broken(maxTargets) {
			if err == nil {
				err = some.count(s)
			}
			if err != nil {
				yield(Broken{}, err)
				return
			}
			for url, t := range some.targets {
				if t.pages > 0 && !yield(Broken{t.pages, t.status, t.outcome, url, t.sources, t.why}, nil) {
					return
				}
			}
		}
	}
}

// BrokenLinks yields the links whose targets have no page, according to the last record of
// the target. It leaves out targets without a record, and links that a page had only before
// its last round. It reads the records twice and the links once.
//
// It keeps in memory the broken targets, about 300 bytes each, but at most 100,000 of them. If there
// are more, it does all this for a half, a quarter and so on of the targets at a time. It also keeps 40
// bytes for each URL that has a record with a Round above 0.
func (s Source) BrokenLinks() iter.Seq2[BrokenLink, error] {
	return func(yield func(BrokenLink, error) bool) {
		for some, err := range s.broken(maxTargets) {
			if err != nil {
				yield(BrokenLink{}, err)
				return
			}
			for link, err := range s.Links() {
				if err != nil {
					yield(BrokenLink{}, err)
					return
				}
				t := some.target(link)
				if t == nil {
					continue
				}
				row := BrokenLink{link.Source, link.Target, t.status, t.outcome, t.why, link.Text, link.Rel, link.Kind}
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// target is the last record of a URL to which links or redirects lead.
type target struct {
	round, status int
	outcome, why  string

	pages   int // that link to the URL
	sources []string
}

// brokenTargets are URLs whose outcomes are broken according to frontier.Outcome.IsBroken, in the last round of the URL.
type brokenTargets struct {
	targets map[string]*target
	last    map[[16]byte]int // the last rounds of URLs, if they are not 0, by keyOf
}

// target returns the broken target of a link. It returns nil if the target is not broken, or if the page
// does not have the link any more.
func (b *brokenTargets) target(link Link) *target {
	t := b.targets[link.Target]
	if t == nil || link.Round < b.last[keyOf(link.Source)] {
		return nil
	}
	return t
}

// count counts the pages that link to each target.
func (b *brokenTargets) count(s Source) error {
	for link, err := range s.Links() {
		if err != nil {
			return err
		}
		t := b.target(link)
		if t == nil {
			continue
		}
		if t.pages++; len(t.sources) < maxSources {
			t.sources = append(t.sources, link.Source)
		}
	}
	return nil
}

// broken yields all broken targets, in parts of about limit targets. The hash of a URL decides to which
// part it belongs.
func (s Source) broken(limit int) iter.Seq2[*brokenTargets, error] {
	return func(yield func(*brokenTargets, error) bool) {
		seed, parts := maphash.MakeSeed(), uint64(1) // parts is a power of two
		in := func(part uint64, url string) bool { return maphash.String(seed, url)%parts == part }
		for part := uint64(0); part < parts; part++ {
			some := &brokenTargets{make(map[string]*target), make(map[[16]byte]int)}
			for r, err := range s.Records() {
				if err != nil {
					yield(nil, err)
					return
				}
				if !frontier.Outcome(r.Outcome).IsBroken() || !in(part, r.URL) {
					continue
				}
				if old, round := some.targets[r.URL], roundOf(&r); old == nil || old.round < round {
					some.targets[r.URL] = &target{round: round, status: r.Status, outcome: r.Outcome, why: r.Error}
				}
				for part == 0 && len(some.targets) > limit {
					parts *= 2
					maps.DeleteFunc(some.targets, func(url string, _ *target) bool { return !in(part, url) })
				}
			}
			err := some.settle(s)
			if !yield(some, err) || err != nil {
				return
			}
		}
	}
}

// roundOf returns the round of a record. The rounds of a check (see frontier.CheckURL) come before those
// of a page, so that the page counts if a URL was checked and crawled.
func roundOf(r *record.Record) int {
	if r.Check != "" {
		return r.Round - math.MaxInt32
	}
	return r.Round
}

// settle removes the targets whose last record is not broken, and sets the last rounds.
func (b *brokenTargets) settle(s Source) error {
	for r, err := range s.Records() {
		if err != nil {
			return err
		}
		if old := b.targets[r.URL]; old != nil && old.round < roundOf(&r) {
			delete(b.targets, r.URL)
		}
		if r.Round == 0 || r.Check != "" {
			continue
		}
		if key := keyOf(r.URL); r.Round > b.last[key] {
			b.last[key] = r.Round
		}
	}
	return nil
}
