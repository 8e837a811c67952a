package testweb

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Report is the result of a comparison of a crawl's records with those of a correct
// crawl.
type Report struct {
	Records  int // lines read
	Expected int // URLs that a correct crawl records

	Missing    int // expected URLs without a record
	Unexpected int // records of URLs that a correct crawl does not find
	Duplicates int // further records of a URL in the same round

	WrongOutcome   int
	WrongStatus    int
	WrongRedirect  int
	WrongTitle     int
	WrongTruncated int
	WrongDigest    int

	Outcomes map[string]int // records by outcome
	// Optional counts the records of URLs that a correct crawl can request or leave out.
	Optional int

	Examples []string // up to ten of each fault
}

// faults returns the name and the count of each fault.
func (r *Report) faults() []namedCount {
	return []namedCount{
		{r.Missing, "missing"},
		{r.Unexpected, "unexpected"},
		{r.Duplicates, "recorded again"},
		{r.WrongOutcome, "wrong in outcome"},
		{r.WrongStatus, "wrong in status"},
		{r.WrongRedirect, "wrong in redirect_to"},
		{r.WrongTitle, "wrong in title"},
		{r.WrongTruncated, "wrong in truncated"},
		{r.WrongDigest, "wrong in digest"},
	}
}

// Err returns nil if the records are as expected, or otherwise an error with the number
// of each fault and examples.
func (r *Report) Err() error { return faultError(r.faults(), r.Examples) }

// namedCount is the number of faults of one kind.
type namedCount struct {
	count int
	what  string
}

// faultError returns an error that names each fault with its number, followed by the
// examples. It returns nil if all numbers are 0.
func faultError(counts []namedCount, examples []string) error {
	var faults []error
	for _, c := range counts {
		if c.count > 0 {
			faults = append(faults, fmt.Errorf("%d %s", c.count, c.what))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	for _, example := range examples {
		faults = append(faults, errors.New(example))
	}
	return errors.Join(faults...)
}

// record has the fields of a crawler's record that Compare reads.
type record struct {
	URL        string  `json:"url"`
	Round      uint32  `json:"round"`
	Outcome    *string `json:"outcome"`
	Status     *int    `json:"status"`
	RedirectTo *string `json:"redirect_to"`
	Title      *string `json:"title"`
	Truncated  *bool   `json:"truncated"`
	Digest     *string `json:"digest"` // sha256:HEX of the body
}

// Compare reads the records of a crawl and compares them with those of a correct crawl.
// Each line is a JSON object with at least the field url. A field that no record has is
// not compared. If a field is missing in some records only, it counts as the zero value
// there. Compare takes two bits of memory for each URL.
func (w *Web) Compare(records io.Reader) (Report, error) {
	c := w.newComparison()
	if err := decode(records, "records", c.observe); err != nil {
		return *c.report, err
	}
	for _, f := range []*field{&c.status, &c.redirect, &c.title, &c.truncated, &c.digest} {
		if f.isWritten && f.leftOut > 0 {
			*f.count += f.leftOut
			c.example(f.name, fmt.Sprintf("%d records lack it, the first is of %s", f.leftOut, f.first))
		}
	}
	w.each(func(t target) bool {
		c.report.Expected++
		if ordinal, _ := w.ordinal(t); !c.seen.has(ordinal) {
			c.report.Missing++
			c.example("missing", w.url(t))
		}
		return true
	})
	return *c.report, nil
}

type comparison struct {
	web    *Web
	seen   bitset              // expected URLs that have a record
	round0 bitset              // expected URLs that have a record of round 0
	later  map[laterRound]bool // records of later rounds
	shown  map[string]int      // number of examples of each fault
	report *Report

	status, redirect, title, truncated, digest field
}

// laterRound is a URL in a round after the first.
type laterRound struct {
	ordinal int
	round   uint32
}

// A field counts the faults of one field of the records.
type field struct {
	name      string
	count     *int   // number of records in which the field is wrong
	isWritten bool   // some record has the field
	leftOut   int    // number of records that lack the field, but should have it
	first     string // URL of the first of these records
}

func (w *Web) newComparison() *comparison {
	report := &Report{Outcomes: map[string]int{}}
	return &comparison{
		web: w, seen: newBitset(w.ordinals()), round0: newBitset(w.ordinals()),
		later: map[laterRound]bool{}, shown: map[string]int{}, report: report,
		status:    field{name: "status", count: &report.WrongStatus},
		redirect:  field{name: "redirect_to", count: &report.WrongRedirect},
		title:     field{name: "title", count: &report.WrongTitle},
		truncated: field{name: "truncated", count: &report.WrongTruncated},
		digest:    field{name: "digest", count: &report.WrongDigest},
	}
}

func (c *comparison) observe(r *record) {
	c.report.Records++
	if r.Outcome != nil {
		c.report.Outcomes[*r.Outcome]++
	}
	t := c.web.targetOf(r.URL)
	if t.kind == noSitemap {
		c.observeNoSitemap(r)
		return
	}
	ordinal, isExpected := c.web.ordinal(t)
	if !isExpected {
		c.report.Unexpected++
		c.example("unexpected", r.URL)
		return
	}
	if !c.isFirst(ordinal, r.Round) {
		c.report.Duplicates++
		c.example("recorded again", fmt.Sprintf("%s in round %d", r.URL, r.Round))
		return
	}
	e := c.web.expect(t)
	if e.Optional {
		c.report.Optional++
	}
	if e.isRead && r.Digest != nil {
		e.BodySHA256, _ = c.web.digestOf(t)
	}
	c.judge(r, &e)
}

// observeNoSitemap judges a record whose path is usual for sitemaps, such as
// /sitemap.xml, but has no sitemap. Any outcome except ok and redirect is right.
func (c *comparison) observeNoSitemap(r *record) {
	c.report.Optional++
	if r.Outcome != nil && (*r.Outcome == "ok" || *r.Outcome == "redirect") {
		c.report.WrongOutcome++
		c.example("outcome", fmt.Sprintf("%s: %q, and there is nothing", r.URL, *r.Outcome))
	}
}

// isFirst reports whether this is the first record of a URL in this round.
func (c *comparison) isFirst(ordinal int, round uint32) bool {
	c.seen.add(ordinal)
	if round == 0 {
		return c.round0.add(ordinal)
	}
	key := laterRound{ordinal, round}
	wasThere := c.later[key]
	c.later[key] = true
	return !wasThere
}

func (c *comparison) judge(r *record, e *Expectation) {
	if r.Outcome != nil && !e.accepts(*r.Outcome) {
		c.report.WrongOutcome++
		c.example("outcome", fmt.Sprintf("%s: %q, want %q", r.URL, *r.Outcome, e.Outcome))
		return // other differences are consequences of this one
	}
	if !e.OrderFree {
		return
	}
	c.compare(&c.status, r, text(r.Status, strconv.Itoa), strconv.Itoa(e.Status), e.Status == 0)
	c.compare(&c.redirect, r, r.RedirectTo, e.RedirectTo, e.RedirectTo == "")
	if !e.isRead {
		return // a correct crawl reads no body
	}
	c.compare(&c.title, r, r.Title, e.Title, e.Title == "")
	c.compare(&c.truncated, r, text(r.Truncated, strconv.FormatBool), strconv.FormatBool(e.Truncated), !e.Truncated)
	c.compare(&c.digest, r, r.Digest, "sha256:"+e.BodySHA256, false)
}

// text formats value, or returns nil if value is nil.
func text[T any](value *T, format func(T) string) *string {
	if value == nil {
		return nil
	}
	s := format(*value)
	return &s
}

// compare judges a field of r. The argument got is nil if the record does not have the
// field. A missing field is right if the wanted value is the zero value (isZero).
func (c *comparison) compare(f *field, r *record, got *string, want string, isZero bool) {
	switch {
	case got != nil && *got == want:
		f.isWritten = true
	case got != nil:
		f.isWritten = true
		*f.count++
		c.example(f.name, fmt.Sprintf("%s: %q, want %q", r.URL, *got, want))
	case !isZero:
		if f.leftOut == 0 {
			f.first = r.URL
		}
		f.leftOut++
	}
}

// example keeps up to ten examples of each fault.
func (c *comparison) example(fault, example string) {
	if c.shown[fault]++; c.shown[fault] <= 10 {
		c.report.Examples = append(c.report.Examples, fault+": "+example)
	}
}
