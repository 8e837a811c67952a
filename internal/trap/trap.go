// Package trap recognises URLs that a site generates without end: paths that repeat
// themselves, queries with more and more parameters, calendars that never stop.
//
// It judges one canonical URL by its form only. It keeps no counts. The frontier keeps the
// counts of hosts and domains, and package follow applies the limit of depth.
package trap

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// The defaults of Limits. DefaultMaxAhead is the number of years after this year.
const (
	DefaultMaxURL     = 2048
	DefaultMaxRepeats = 4
	DefaultMaxParams  = 32
	DefaultMaxAhead   = 5
)

// Limits are limits for the form of a URL. A limit of 0 means that there is none.
type Limits struct {
	MaxURL     int // bytes of the canonical URL
	MaxRepeats int // times that one path segment may occur
	MaxParams  int // parameters of the query
	// LastYear is the latest year of a date in the URL. If the URL names a calendar, dates before
	// 1900 are refused as well. A number is a date only if its name, the path or its form says so:
	// year=2032, date=20320501, /calendar/2032/05, /2032/05/01. It is a year and not a number of
	// years from now, because this package reads no clock; see ThisYear.
	LastYear int
}

// Default returns the default limits at a time.
func Default(now time.Time) Limits {
	return Limits{MaxURL: DefaultMaxURL, MaxRepeats: DefaultMaxRepeats, MaxParams: DefaultMaxParams, LastYear: ThisYear(now) + DefaultMaxAhead}
}

// Validate returns nil or an error that names every fault.
func (l Limits) Validate() error {
	var errs []error
	for _, limit := range []struct {
		name  string
		value int
	}{{"MaxURL", l.MaxURL}, {"MaxRepeats", l.MaxRepeats}, {"MaxParams", l.MaxParams}, {"LastYear", l.LastYear}} {
		if limit.value < 0 {
			errs = append(errs, fmt.Errorf("trap: %s is %d, want 0 or more", limit.name, limit.value))
		}
	}
	return errors.Join(errs...)
}

// Judge returns why a URL is refused, and the limit in words. The reason is empty
// if the URL is not refused.
func (l *Limits) Judge(url canon.URL) (frontier.Reason, string) {
	path, query, _ := strings.Cut(url.Path(), "?")
	switch {
	case l.MaxURL > 0 && len(url.String()) > l.MaxURL:
		return frontier.ReasonTooLong, fmt.Sprintf("longer than %d bytes", l.MaxURL)
	case l.MaxRepeats > 0 && strings.Count(path, "/") > l.MaxRepeats && repeats(path) > l.MaxRepeats:
		return frontier.ReasonRepeats, fmt.Sprintf("one path segment more than %d times", l.MaxRepeats)
	case l.MaxParams > 0 && query != "" && strings.Count(query, "&") >= l.MaxParams:
		return frontier.ReasonParams, fmt.Sprintf("more than %d parameters", l.MaxParams)
	}
	if l.LastYear == 0 {
		return "", ""
	}
	if year := dateOutside(url.Path(), l.LastYear); year != 0 {
		return frontier.ReasonCalendar, fmt.Sprintf("a date of %d, outside %d to %d", year, firstYear, l.LastYear)
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
