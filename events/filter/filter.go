// Package filter selects events by the outcome, host and class of their page. It does no
// I/O.
package filter

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// Parse returns a function that reports whether the type of an event is in types, and the
// event matches all filters. If types is empty, every type is accepted, but events.PageDropped only
// if a filter names the outcome dropped. events.PageWithdrawn is always accepted, and matches all filters but those of hosts. If types and filters are empty, the function is nil.
//
// A filter is FIELD=VALUE[,VALUE...]. FIELD!=VALUE[,VALUE...] matches events that have none
// of the values. The fields are
//
//   - outcome: the record's outcome, such as ok or network
//   - host: the host key, in any spelling that a URL can have; a value *.example.org means
//     all hosts below example.org, but not example.org
//   - class: the class of the URL, such as bulk, exact, sitemap or listed
//   - change: new, changed, unchanged or gone, in a crawl that visits pages again
//
// Unless a filter names the field change, events of pages that are unchanged are left out.
//
// An event whose record is not valid JSON matches no filter.
func Parse(types, filters []string) (func(e *events.Event) bool, error) {
	for _, kind := range types {
		if kind != events.PageDone && kind != events.PageFailed && kind != events.PageDropped {
			return nil, fmt.Errorf("type of events is %q, want %s, %s or %s", kind, events.PageDone, events.PageFailed, events.PageDropped)
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
	if len(types) == 0 {
		types = []string{events.PageDone, events.PageFailed}
		if slices.ContainsFunc(terms, func(t term) bool {
			return t.field == "outcome" && !t.not && slices.Contains(t.values, string(frontier.Dropped))
		}) {
			types = append(types, events.PageDropped)
		}
	}
	changes := slices.ContainsFunc(terms, func(t term) bool { return t.field == "change" })
	return func(e *events.Event) bool {
		if e.Type == events.PageWithdrawn { // the other fields of its page are not known
			return !slices.ContainsFunc(terms, func(t term) bool {
				return t.field == "host" && !matches(e, []term{t})
			})
		}
		if !slices.Contains(types, e.Type) || !changes && e.Unchanged() {
			return false
		}
		return len(terms) == 0 || matches(e, terms)
	}, nil
}

func matches(e *events.Event, terms []term) bool {
	var r struct {
		Outcome string `json:"outcome"`
		Class   string `json:"class"`
		Change  string `json:"change"`
	}
	if err := json.Unmarshal(e.Data, &r); err != nil {
		return false
	}
	fields := map[string]string{"outcome": r.Outcome, "host": e.Host, "class": cmp.Or(r.Class, frontier.Bulk.String()), "change": r.Change}
	return !slices.ContainsFunc(terms, func(t term) bool {
		return slices.ContainsFunc(t.values, func(value string) bool { return equal(t.field, fields[t.field], value) }) == t.not
	})
}

// equal reports whether a field of an event matches a value of a filter. The argument actual
// is the value in the event.
func equal(field, actual, value string) bool {
	if parent, wild := strings.CutPrefix(value, "*."); wild && field == "host" {
		return strings.HasSuffix(actual, "."+parent)
	}
	return actual == value
}

// term is one filter.
type term struct {
	field  string
	values []string
	not    bool
}

func parseTerm(text string) (term, error) {
	name, list, found := strings.Cut(text, "=")
	name, not := strings.CutSuffix(name, "!")
	if !found || !slices.Contains([]string{"outcome", "host", "class", "change"}, name) {
		return term{}, fmt.Errorf("filter is %q, want outcome=, host=, class= or change= (or !=) and values with commas between them", text)
	}
	t := term{field: name, values: strings.Split(list, ","), not: not}
	for i, value := range t.values {
		valid := value != "" // a class can have any name, because the rules of --exact can define new ones
		switch name {
		case "outcome":
			valid = frontier.Outcome(value).State() != frontier.Unknown
		case "change":
			valid = slices.Contains([]revisit.Change{revisit.New, revisit.Changed, revisit.Unchanged, revisit.Gone}, revisit.Change(value))
		case "host":
			t.values[i], valid = canonicalHost(value)
		}
		if !valid {
			return term{}, fmt.Errorf("filter %q: %q is no %s", text, value, name)
		}
	}
	return t, nil
}

// canonicalHost returns the value of a filter in the form that host keys have. A value is
// valid if it is a host, or *. followed by a host.
func canonicalHost(value string) (canonical string, valid bool) {
	host, wild := strings.CutPrefix(value, "*.")
	form, _ := canon.New(canon.Options{}) // these options are valid
	// The text parsed here is the host with the port 1 and the path "/". If the host already
	// contains a port or a path, the parsed URL has another port or path, or is not valid.
	u, err := form.Parse("http://" + host + ":1/")
	if err != nil || u.Port() != "1" || u.Path() != "/" || strings.ContainsAny(host, "*@") {
		return "", false
	}
	if wild {
		return "*." + u.Host(), true
	}
	return u.Host(), true
}
