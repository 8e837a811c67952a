package testweb

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Report is the result of a comparison of a crawl's records with those of a correct
// crawl.
type Report struct {
	Records  int // lines read
	Expected int // URLs that a correct crawl records

	Missing    int // expected URLs without a record
	Unexpected int // records of URLs that a correct crawl does not find
	Duplicates int // further records of a URL in the same round

	Wrong map[string]int // records with a wrong field, by the name of the field

	Outcomes map[string]int // records by outcome
	// Optional counts the records of URLs that a correct crawl can request or leave out.
	Optional int

	Examples []string // up to ten of each fault
}

// Err returns nil if the records are as expected, or otherwise an error with the number
// of each fault and examples.
func (r *Report) Err() error {
	counts := []namedCount{{r.Missing, "missing"}, {r.Unexpected, "unexpected"}, {r.Duplicates, "recorded again"}}
	for _, field := range slices.Sorted(maps.Keys(r.Wrong)) {
		counts = append(counts, namedCount{r.Wrong[field], "wrong in " + field})
	}
	return faultError(counts, r.Examples)
}

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
	URL        string `json:"url"`
	Round      uint32 `json:"round"`
	Outcome    string `json:"outcome"`
	Status     int    `json:"status"`
	RedirectTo string `json:"redirect_to"`
	Title      string `json:"title"`
	Text       string `json:"text"`
	Truncated  bool   `json:"truncated"`
	Digest     string `json:"digest"` // sha256:HEX of the body
}

// Compare reads the records of a crawl and compares them with those of a correct crawl.
// Each line is a JSON object. A missing field counts as the zero value. If no record has a text, texts
// are not compared, because the crawl did not ask for them.
func (w *Web) Compare(records io.Reader) (Report, error) {
	c := &comparison{
		web: w, seen: map[target]bool{}, rounds: map[inRound]bool{},
		report: &Report{Outcomes: map[string]int{}, Wrong: map[string]int{}},
	}
	if err := decode(records, "records", c.observe); err != nil {
		return *c.report, err
	}
	if c.hasTexts {
		for _, lack := range c.otherTexts {
			c.wrong("text", lack.url, lack.got, lack.want)
		}
	}
	for t := range w.each {
		c.report.Expected++
		if !c.seen[t] {
			c.fault(&c.report.Missing, "missing", w.url(t))
		}
	}
	return *c.report, nil
}

type comparison struct {
	web    *Web
	seen   map[target]bool  // expected URLs that have a record
	rounds map[inRound]bool // records of expected URLs
	report *Report

	hasTexts   bool // a record has a text
	otherTexts []otherText
}

// otherText is the text of a page that lacks a sentence of it.
type otherText struct{ url, got, want string }

// inRound is a URL in a round of the crawl.
type inRound struct {
	target target
	round  uint32
}

func (c *comparison) observe(r *record) {
	c.report.Records++
	c.report.Outcomes[r.Outcome]++
	c.hasTexts = c.hasTexts || r.Text != ""
	t := c.web.targetOf(r.URL)
	if t.kind == noSitemap {
		c.observeNoSitemap(r)
		return
	}
	if t.kind == aResource && t.resource.role == withoutEnd {
		c.observeEndless(r)
		return
	}
	if !t.isExpected() {
		c.fault(&c.report.Unexpected, "unexpected", r.URL)
		return
	}
	if c.rounds[inRound{t, r.Round}] {
		c.fault(&c.report.Duplicates, "recorded again", fmt.Sprintf("%s in round %d", r.URL, r.Round))
		return
	}
	c.seen[t], c.rounds[inRound{t, r.Round}] = true, true
	e := c.web.expect(t)
	if e.Optional {
		c.report.Optional++
	}
	if e.isRead {
		e.BodySHA256, _ = c.web.digestOf(t)
	}
	c.judge(r, &e)
}

// observeNoSitemap judges the record of a URL at which crawlers look for a sitemap, such as
// /sitemap.xml, on a host without that sitemap. Any outcome except ok and redirect is right.
func (c *comparison) observeNoSitemap(r *record) {
	c.report.Optional++
	if r.Outcome == "ok" || r.Outcome == "redirect" {
		c.wrong("outcome", r.URL, r.Outcome, "that of a page that is missing")
	}
}

// observeEndless judges the record of a page of an endless site.
func (c *comparison) observeEndless(r *record) {
	c.report.Optional++
	if r.Outcome != "ok" && r.Outcome != "dropped" {
		c.wrong("outcome", r.URL, r.Outcome, "ok or dropped")
	}
}

func (c *comparison) judge(r *record, e *Expectation) {
	if !e.accepts(r.Outcome) {
		c.wrong("outcome", r.URL, r.Outcome, e.Outcome)
		return // other differences are consequences of this one
	}
	if !e.OrderFree {
		return
	}
	if r.Status != e.Status {
		c.wrong("status", r.URL, r.Status, e.Status)
	}
	if r.RedirectTo != e.RedirectTo {
		c.wrong("redirect_to", r.URL, r.RedirectTo, e.RedirectTo)
	}
	if !e.isRead {
		return // a correct crawl reads no body
	}
	if r.Title != e.Title {
		c.wrong("title", r.URL, r.Title, e.Title)
	}
	if !strings.Contains(r.Text, e.Text) {
		c.otherTexts = append(c.otherTexts, otherText{r.URL, r.Text, e.Text})
	}
	if r.Truncated != e.Truncated {
		c.wrong("truncated", r.URL, r.Truncated, e.Truncated)
	}
	if digest := "sha256:" + e.BodySHA256; r.Digest != digest {
		c.wrong("digest", r.URL, r.Digest, digest)
	}
}

// wrong counts a record with a wrong field.
func (c *comparison) wrong(field, url string, got, want any) {
	count := c.report.Wrong[field]
	c.fault(&count, field, fmt.Sprintf("%s: %#v, want %#v", url, got, want))
	c.report.Wrong[field] = count
}

// fault counts a fault, and keeps up to ten examples for each counter.
func (c *comparison) fault(count *int, name, example string) {
	if *count++; *count <= 10 {
		c.report.Examples = append(c.report.Examples, name+": "+example)
	}
}
