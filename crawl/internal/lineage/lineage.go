// Package lineage finds the result of each seed of a crawl: which pages were found from
// it, and why the crawl went no further.
//
// It owns the format of seeds.jsonl, and the computation of its lines from the records
// and from the items that wait. It opens no store and no file: the caller passes the
// records and the items.
package lineage

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/bloomfrontier/crawler/frontier"
)

// Seed is a line of seeds.jsonl.
type Seed struct {
	URL        string           `json:"url"` // canonical, or as it was given if the seed was refused
	Why        Why              `json:"why"`
	Outcome    frontier.Outcome `json:"outcome,omitempty"` // of the seed itself; empty means that it has none yet
	Status     int              `json:"status,omitempty"`
	RedirectTo string           `json:"redirect_to,omitempty"`
	Error      string           `json:"error,omitempty"`

	// Counts of the URLs that were found from the seed, directly or through other pages.
	// Pages and URLs do not count the seed itself.
	Pages   uint64 `json:"pages"`   // URLs with the outcome ok
	URLs    uint64 `json:"urls"`    // URLs with any outcome, counted once for each round
	Waiting uint64 `json:"waiting"` // URLs that are queued or leased; the seed itself counts
}

// Why is the reason why a crawl went no further from a seed.
type Why string

const (
	Complete Why = "complete" // all URLs found from the seed have an outcome
	Limit    Why = "limit"    // some URLs wait: a limit or the user ended the run, or the run goes on
	Robots   Why = "robots"   // robots.txt forbids the seed, or the URL to which the seed redirects
	Use      Why = "use"      // its owner refuses a use of the crawl, for the seed or the URL to which it redirects
	Dead     Why = "dead"     // the seed, or the URL to which the seed redirects, has failed
	Refused  Why = "refused"  // the seed was never queued
)

// Crawl is the input of Each.
type Crawl struct {
	// Lines returns the records in the order in which they were written: the record of
	// a page comes before the records of the pages that it links to. It is called
	// twice, and must yield the same lines both times.
	Lines func() iter.Seq2[[]byte, error]
	// Waiting yields each item that is queued or leased.
	Waiting iter.Seq2[frontier.Item, error]
}

// Each calls emit for each seed that was ever queued. Seeds without an outcome come
// first. Seeds with an outcome follow in the order in which they were finished. If the
// crawl runs meanwhile, Each might leave out a seed that is finished during the call.
//
// Each keeps the ids of seeds and of pages with new links in memory, about 24 bytes for
// each, and 48 bytes more for each seed. It keeps no URL.
func Each(c Crawl, emit func(Seed) error) error {
	t := tree{seedOf: make(map[id]uint32)}
	var n uint64
	for line, err := range c.Lines() {
		r, err := parse(line, err)
		if err != nil {
			return err
		}
		t.addRecord(&r, n)
		n++
	}
	for item, err := range c.Waiting {
		if err == nil && t.addWaiting(&item) {
			err = emit(Seed{URL: item.URL, Why: Limit, Waiting: 1})
		}
		if err != nil {
			return err
		}
	}
	return t.emitSeeds(c.Lines(), emit)
}

// line is the part of a record that is needed here.
type line struct {
	URL        string           `json:"url"`
	ID         id               `json:"id"`
	Referrer   id               `json:"referrer_id"`
	Outcome    frontier.Outcome `json:"outcome"`
	Status     int              `json:"status"`
	LinksAdded uint64           `json:"links_added"`
	RedirectTo string           `json:"redirect_to"`
	Error      string           `json:"error"`
}

// id is the id of a record or of a referrer. Zero means none.
type id frontier.Referrer

// UnmarshalText reads 16 hex digits.
func (i *id) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(i)) {
		return fmt.Errorf("id %q, want 16 hex digits", text)
	}
	_, err := hex.Decode(i[:], text)
	return err
}

func parse(text []byte, err error) (r line, _ error) {
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("lineage: record %.80q: %w", text, err)
	}
	return r, nil
}

// tree maps each page to its seed.
type tree struct {
	seedOf map[id]uint32 // has seeds and pages with new links; the values are indexes in seeds
	seeds  []seed
}

// seed has the state of a seed while records are read.
type seed struct {
	last                 uint64 // number of the line with the newest record of the seed itself
	pages, urls, waiting uint32
	outcome              frontier.Outcome // the newest outcome of the URL in the field tail
	tail                 id               // the last URL that the seed redirects to, or the seed itself
}

// addRecord adds the record in line n.
func (t *tree) addRecord(r *line, n uint64) {
	if r.Outcome.IsCheck() {
		return
	}
	i, known := t.seedOf[r.Referrer]
	switch {
	case r.Referrer == id{}:
		if i, known = t.seedOf[r.ID]; !known {
			i = uint32(len(t.seeds))
			t.seeds = append(t.seeds, seed{})
			t.seedOf[r.ID] = i
		}
		s := &t.seeds[i]
		s.tail, s.outcome, s.last = r.ID, r.Outcome, n
		return
	case !known: // the referrer's record was moved away
		return
	}
	s := &t.seeds[i]
	s.urls++
	if r.Outcome == frontier.OK {
		s.pages++
	}
	if s.tail == r.Referrer && s.outcome == frontier.Redirect || s.tail == r.ID {
		s.tail, s.outcome = r.ID, r.Outcome
	}
	if r.LinksAdded > 0 {
		t.seedOf[r.ID] = i
	}
}

// addWaiting adds an item that waits. It reports whether the item is a seed that never had an
// outcome.
func (t *tree) addWaiting(item *frontier.Item) (fresh bool) {
	if frontier.IsCheck(item.URL) {
		return false
	}
	from, seed := id(item.Referrer), item.Referrer == frontier.Referrer{}
	// A seed has no referrer, so its own id is looked up. If t.seedOf has this id, the seed
	// already has an outcome and was queued again.
	if seed {
		from = id(frontier.ReferrerOf(item.Fingerprint))
	}
	i, known := t.seedOf[from]
	if known {
		t.seeds[i].waiting++
	}
	return seed && !known
}

// emitSeeds calls emit for each seed, in the order of the seeds' newest records. It reads
// these records from lines. No record and no item can be added afterwards.
func (t *tree) emitSeeds(lines iter.Seq2[[]byte, error], emit func(Seed) error) error {
	rest := t.seeds
	slices.SortFunc(rest, func(a, b seed) int { return cmp.Compare(a.last, b.last) })
	var n uint64
	for line, err := range lines {
		if len(rest) == 0 {
			return nil
		}
		if err == nil && n < rest[0].last {
			n++
			continue
		}
		r, err := parse(line, err)
		if err == nil {
			err = emit(rest[0].result(&r))
		}
		if err != nil {
			return err
		}
		rest = rest[1:]
		n++
	}
	return nil
}

// result returns the seed's line for seeds.jsonl. The argument r is the seed's newest record.
func (of *seed) result(r *line) Seed {
	s := Seed{URL: r.URL, Outcome: r.Outcome, Status: r.Status, RedirectTo: r.RedirectTo, Error: r.Error,
		Pages: uint64(of.pages), URLs: uint64(of.urls), Waiting: uint64(of.waiting)}
	switch {
	case of.waiting > 0:
		s.Why = Limit
	case of.outcome == frontier.Robots:
		s.Why = Robots
	case of.outcome == frontier.RefusedUse:
		s.Why = Use
	case of.outcome.State() == frontier.Failed:
		s.Why = Dead
	default:
		s.Why = Complete
	}
	return s
}
