// Package fields extracts named values from HTML documents, such as a price by its CSS
// selector or a date from JSON-LD.
//
// It owns the language in which fields are written (docs/reference/fields.md), the
// choice of fields for a URL, and the extraction from a parsed document. It fetches
// nothing, builds no documents (package extract does) and writes no records (package
// record does).
//
// New compiles everything once. On some pages a selector matches a million times, or is
// slow. So MaxFieldBytes and MaxPageBytes bound the values of each page, and the caller can
// stop an extraction with Page.GiveUp, which is called between elements.
package fields

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

const (
	// MaxFieldBytes bounds the values of one field of a page, as JSON. Values
	// beyond it are left out. If the first value is a longer text, it is cut.
	MaxFieldBytes = 256 << 10
	// MaxPageBytes bounds the values of all fields of a page, as JSON.
	MaxPageBytes = 1 << 20
)

// Group is a list of fields for some of the pages.
type Group struct {
	URL    string   // regular expression that matches somewhere in the URL of a page; empty means every page
	Fields []string // each is NAME=SOURCE, see docs/reference/fields.md
}

// Rules select the fields of each page. They are safe for concurrent use.
type Rules struct {
	every *Set // the fields of pages whose URL no pattern matches
	some  []pattern
}

// pattern has the fields of pages whose URL matches.
type pattern struct {
	url *regexp.Regexp
	set *Set
}

// New compiles groups. A page has the fields of every group without a URL, and those of
// the first group whose URL matches it. If groups without a URL have faults, the error
// names only the faults of these groups. Otherwise the error names every fault. It contains
// a *SyntaxError for each named fault of a field. If there is no field and no URL in
// groups, New returns nil Rules.
func New(groups ...Group) (*Rules, error) {
	var (
		general []string
		errs    []error
		rules   = new(Rules)
	)
	for _, g := range groups {
		if g.URL == "" {
			general = append(general, g.Fields...)
		}
	}
	every, err := compile(general)
	if err != nil {
		return nil, err
	}
	rules.every = every
	for _, g := range groups {
		if g.URL == "" {
			continue
		}
		url, err := regexp.Compile(g.URL)
		errs = append(errs, err)
		set, err := compile(slices.Concat(general, g.Fields))
		if err != nil {
			err = fmt.Errorf("fields of %s: %w", g.URL, err)
		}
		errs = append(errs, err)
		rules.some = append(rules.some, pattern{url, set})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(general) == 0 && len(rules.some) == 0 {
		return nil, nil
	}
	return rules, nil
}

// For returns the fields of the page at url, or nil if it has none.
func (r *Rules) For(url string) *Set {
	if r == nil {
		return nil
	}
	set := r.every
	for _, p := range r.some {
		if p.url.MatchString(url) {
			set = p.set
			break
		}
	}
	if len(set.fields) == 0 {
		return nil
	}
	return set
}

// Set is a list of compiled fields. It is safe for concurrent use.
type Set struct{ fields []field }

// Required returns the names of the required fields.
func (s *Set) Required() []string {
	var names []string
	for i := range s.fields {
		if s.fields[i].required {
			names = append(names, s.fields[i].name)
		}
	}
	return names
}

// compile compiles texts, which become one set.
func compile(texts []string) (*Set, error) {
	var errs []error
	set := new(Set)
	seen := make(map[string]bool)
	for _, text := range texts {
		f, err := parse(text)
		if err == nil && seen[f.name] {
			err = &SyntaxError{Field: text, At: 1, Problem: fmt.Sprintf("there is a field %s already", f.name)}
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		seen[f.name] = true
		set.fields = append(set.fields, f)
	}
	return set, errors.Join(errs...)
}

// Check returns the fault of one field as a *SyntaxError, or nil.
func Check(text string) error {
	_, err := parse(text)
	return err
}
