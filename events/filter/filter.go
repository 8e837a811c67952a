// Package filter selects events by the outcome, host and class of their page. It does no
// I/O.
package filter

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/frontier"
)

// Parse returns a function that reports whether an event has one of types and matches all
// filters. No types means all types. Without types and filters the function is nil.
//
// A filter is FIELD=VALUE[,VALUE...]. FIELD!=VALUE[,VALUE...] matches events that have none
// of the values. The fields are
//
//   - outcome: the record's outcome, such as ok or timeout
//   - host: the host key; a value *.example.org means all hosts below
//     example.org, but not itself
//   - class: the class of the URL: bulk, exact, sitemap or listed
//
// An event whose record is not valid JSON matches no filter.
func Parse(types, filters []string) (func(e *events.Event) bool, error) {
	for _, kind := range types {
		if kind != events.PageDone && kind != events.PageFailed {
			return nil, fmt.Errorf("type of events is %q, want %s or %s", kind, events.PageDone, events.PageFailed)
		}
	}
	terms := make([]term, len(filters))
	for i, text := range filters {
		var err error
		if terms[i], err = parseTerm(text); err != nil {
			return nil, err
		}
	}
	if len(types)+len(terms) == 0 {
		return nil, nil
	}
	return func(e *events.Event) bool {
		if len(types) > 0 && !slices.Contains(types, e.Type) {
			return false
		}
		return len(terms) == 0 || matches(e, terms)
	}, nil
}

func matches(e *events.Event, terms []term) bool {
	var r fields
	if err := json.Unmarshal(e.Data, &r); err != nil {
		return false
	}
	r.Host = e.Host
	if r.Class == "" {
		r.Class = frontier.Bulk.String()
	}
	for _, t := range terms {
		if slices.ContainsFunc(t.values, func(value string) bool { return t.has(&r, value) }) == t.not {
			return false
		}
	}
	return true
}

// fields are the values of an event that filters compare.
type fields struct {
	Outcome string `json:"outcome"`
	Class   string `json:"class"`
	Host    string `json:"-"`
}

// term is one filter.
type term struct {
	has    func(r *fields, value string) bool
	values []string
	not    bool
}

// field is a field that a filter can name.
type field struct {
	has   func(r *fields, value string) bool
	valid func(value string) bool
}

var known = map[string]field{
	"outcome": {
		has:   func(r *fields, value string) bool { return r.Outcome == value },
		valid: func(value string) bool { return frontier.Outcome(value).State() != frontier.Unknown },
	},
	"host": {has: hasHost, valid: func(value string) bool { return value != "" }},
	"class": {
		has:   func(r *fields, value string) bool { return r.Class == value },
		valid: func(value string) bool { return value != "" }, // rules of --exact name classes, too
	},
}

func hasHost(r *fields, value string) bool {
	if parent, wild := strings.CutPrefix(value, "*."); wild {
		return strings.HasSuffix(r.Host, "."+parent)
	}
	return r.Host == value
}

func parseTerm(text string) (term, error) {
	name, list, found := strings.Cut(text, "=")
	name, not := strings.CutSuffix(name, "!")
	f, is := known[name]
	if !found || !is {
		return term{}, fmt.Errorf("filter is %q, want outcome=, host= or class= (or !=) and values with commas between them", text)
	}
	t := term{has: f.has, values: strings.Split(list, ","), not: not}
	for _, value := range t.values {
		if !f.valid(value) {
			return term{}, fmt.Errorf("filter %q: %q is no %s", text, value, name)
		}
	}
	return t, nil
}
