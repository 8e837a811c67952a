package changes

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/bloomfrontier/crawler/crawl/table"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// Revision is a visit of a page that found something else than the visit before it.
type Revision struct {
	At     time.Time `json:"at"` // UTC
	Round  int       `json:"round"`
	Status int       `json:"status"`
	// Change is "new" for the first visit. Otherwise it is a list of what differs, joined by commas: status, outcome, type,
	// redirect, title, canonical, lang, author, published, the name of a field after "fields.", body, and text.
	Change string `json:"change"`
	// Diff has the lines that differ, in the unified format. A text that was not kept is a line with its digest.
	Diff string `json:"diff,omitempty"`
}

// Revisions calls the function read with the revisions of one page, the oldest first. The url is canonical. A visit that
// says nothing about the page (revisit.NoAnswer), or found it not modified, is not compared. If rounds are named, only the last visits up to each of
// them are compared. Revisions reads all records once, and sorts those of the page in 64 MiB of memory and a temporary file
// in the directory temp; empty means the system's. The function read is called once, and Revisions returns its error. The
// number of visits includes those that are not compared.
func Revisions(records table.Lines, url string, rounds []uint32, temp string, read func(iter.Seq2[Revision, error]) error) (visits uint64, err error) {
	schema := table.Records()
	var keys []table.SortKey
	for _, name := range []string{"round", "fetched_at"} {
		key, err := schema.SortKey(name)
		if err != nil {
			return 0, err
		}
		keys = append(keys, key)
	}
	own := func(yield func([]byte, error) bool) {
		for line, err := range records {
			if err == nil {
				var of struct{ URL, Check string }
				if err = json.Unmarshal(line, &of); err == nil && (of.URL != url || of.Check != "") {
					continue
				}
				visits++
			}
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
	err = schema.Sorted(own, keys, temp, func(sorted table.Lines) error {
		return read(func(yield func(Revision, error) bool) {
			var last *content
			for c, err := range chosen(contents(sorted), rounds) {
				if err != nil {
					yield(Revision{}, err)
					return
				}
				if r := c.since(last); r.Change != "" && !yield(r, nil) {
					return
				}
				last = c
			}
		})
	})
	return visits, err
}

// content is what one visit found: lines of text by name, in their order.
type content struct {
	record *record.Record
	names  []string
	lines  map[string]string
}

// contents returns the visits with an answer that is compared.
func contents(lines table.Lines) iter.Seq2[*content, error] {
	return func(yield func(*content, error) bool) {
		for line, err := range lines {
			r := new(record.Record)
			if err == nil {
				err = json.Unmarshal(line, r)
			}
			if err != nil {
				yield(nil, fmt.Errorf("changes: %w", err))
				return
			}
			if answer := r.Visit().Answer; answer == revisit.NoAnswer || answer == revisit.NotModified {
				continue
			}
			c, err := contentOf(r)
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// chosen returns the last visits up to some rounds, or all if there are no rounds.
func chosen(all iter.Seq2[*content, error], rounds []uint32) iter.Seq2[*content, error] {
	if len(rounds) == 0 {
		return all
	}
	return func(yield func(*content, error) bool) {
		last := make([]*content, len(rounds))
		for c, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			for i, round := range rounds {
				if c.record.Round <= int(round) {
					last[i] = c
				}
			}
		}
		for _, c := range last {
			if c != nil && !yield(c, nil) {
				return
			}
		}
	}
}

func contentOf(r *record.Record) (*content, error) {
	c := &content{record: r, lines: make(map[string]string)}
	add := func(name, value string) {
		if value != "" {
			c.names, c.lines[name] = append(c.names, name), value
		}
	}
	add("status", strconv.Itoa(r.Status))
	add("outcome", r.Outcome)
	add("type", r.ContentType)
	add("redirect", r.RedirectTo)
	add("title", r.Title)
	add("canonical", r.Canonical)
	add("lang", r.Lang)
	add("author", r.Author)
	add("published", r.Published)
	var fields map[string]json.RawMessage
	if len(r.Fields) > 0 {
		if err := json.Unmarshal(r.Fields, &fields); err != nil {
			return nil, fmt.Errorf("changes: the fields of round %d: %w", r.Round, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		add("fields."+name, string(fields[name]))
	}
	switch {
	case r.Text != "":
		add("text", r.Text)
	case r.TextDigest != "":
		add("text", r.TextDigest)
	default:
		add("body", r.Digest)
	}
	return c, nil
}

// since compares c with an earlier visit, or with nil.
func (c *content) since(last *content) (r Revision) {
	r = Revision{At: c.record.FetchedAt, Round: c.record.Round, Status: c.record.Status, Change: "new"}
	if last == nil {
		return r
	}
	var what []string
	for _, name := range c.names {
		if last.lines[name] != c.lines[name] {
			what = append(what, name)
		}
	}
	for _, name := range last.names {
		if c.lines[name] == "" {
			what = append(what, name)
		}
	}
	r.Change = strings.Join(what, ",")
	if what != nil {
		name := func(c *content) string {
			return fmt.Sprintf("round %d, %s", c.record.Round, c.record.FetchedAt.UTC().Format(time.DateTime))
		}
		text := string(diff.Diff(name(last), last.text(), name(c), c.text()))
		_, r.Diff, _ = strings.Cut(text, "\n") // the line "diff OLD NEW"
	}
	return r
}

// text returns all lines.
func (c *content) text() []byte {
	var b []byte
	for _, name := range c.names {
		if name == "text" && c.record.Text != "" {
			b = append(append(b, '\n'), c.lines[name]...)
		} else {
			b = append(append(append(b, name...), ": "...), c.lines[name]...)
		}
		b = append(b, '\n')
	}
	return b
}
