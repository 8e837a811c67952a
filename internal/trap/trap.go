// Package trap recognises URLs that a site generates without end: paths that repeat
// themselves, queries with more and more parameters, calendars that never stop.
//
// It judges one canonical URL by its form only. It keeps no counts. The frontier keeps the
// counts of hosts and domains, and package follow applies the limit of depth.
package trap

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// The defaults of Limits.
const (
	DefaultMaxURL     = 2048
	DefaultMaxRepeats = 4
	DefaultMaxParams  = 32
	DefaultMaxAhead   = 5
)

// NoLimit switches a limit off.
const NoLimit = -1

// Limits are limits for the form of a URL. A zero field means its default, except Year.
// NoLimit disables a limit.
type Limits struct {
	MaxURL     int // bytes of the canonical URL
	MaxRepeats int // times that one path segment may occur
	MaxParams  int // parameters of the query
	// MaxAhead limits dates: a date in the URL may be at most MaxAhead years after Year. If the
	// URL names a calendar, dates before 1900 are refused as well. A number is a date only if
	// its name, the path or its form says so: year=2032, date=20320501, /calendar/2032/05,
	// /2032/05/01.
	MaxAhead int
	Year     int // this year; 0 means that no date is refused
}

// Validate returns nil or an error that names every fault.
func (l Limits) Validate() error {
	var errs []error
	for _, limit := range []struct {
		name  string
		value int
	}{{"MaxURL", l.MaxURL}, {"MaxRepeats", l.MaxRepeats}, {"MaxParams", l.MaxParams}, {"MaxAhead", l.MaxAhead}} {
		if limit.value < NoLimit {
			errs = append(errs, fmt.Errorf("trap: %s is %d, want NoLimit or more", limit.name, limit.value))
		}
	}
	return errors.Join(errs...)
}

// Judge returns why a URL is refused, and the limit in words. The reason is empty
// if the URL is not refused.
func (l *Limits) Judge(url canon.URL) (frontier.Reason, string) {
	path, query, _ := strings.Cut(url.Path(), "?")
	longest, often := cmp.Or(l.MaxURL, DefaultMaxURL), cmp.Or(l.MaxRepeats, DefaultMaxRepeats)
	params, ahead := cmp.Or(l.MaxParams, DefaultMaxParams), cmp.Or(l.MaxAhead, DefaultMaxAhead)
	switch {
	case longest != NoLimit && len(url.String()) > longest:
		return frontier.ReasonTooLong, fmt.Sprintf("longer than %d bytes", longest)
	case often != NoLimit && repeats(path) > often:
		return frontier.ReasonRepeats, fmt.Sprintf("one path segment more than %d times", often)
	case params != NoLimit && query != "" && strings.Count(query, "&") >= params:
		return frontier.ReasonParams, fmt.Sprintf("more than %d parameters", params)
	}
	if ahead == NoLimit || l.Year == 0 {
		return "", ""
	}
	if year := dateOutside(url.Path(), l.Year+ahead); year != 0 {
		return frontier.ReasonCalendar, fmt.Sprintf("a date of %d, outside %d to %d", year, firstYear, l.Year+ahead)
	}
	return "", ""
}

// Permission returns the flag of the command line with which no URL is refused for a reason that
// Judge returns.
func Permission(reason frontier.Reason) string {
	switch reason {
	case frontier.ReasonTooLong:
		return "--max-url-bytes 0"
	case frontier.ReasonRepeats:
		return "--max-path-repeats 0"
	case frontier.ReasonParams:
		return "--max-params 0"
	case frontier.ReasonCalendar:
		return "--max-years-ahead -1"
	}
	return ""
}

// maxSegments limits the work for one path. In a trap, segments already repeat within
// the first 64.
const maxSegments = 64

// repeats returns how often the most frequent segment of a path occurs.
func repeats(path string) int {
	most := 0
	var segments [maxSegments]string
	n := 0
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" {
			continue
		}
		if n == maxSegments {
			break
		}
		segments[n] = segment
		n++
		same := 0
		for _, s := range segments[:n] {
			if s == segment {
				same++
			}
		}
		most = max(most, same)
	}
	return most
}
