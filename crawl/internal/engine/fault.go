package engine

import (
	"fmt"
	"io/fs"

	"github.com/bloomfrontier/crawler/frontier"
)

// ErrNoCrawl reports a location without a crawl.
var ErrNoCrawl = fmt.Errorf("crawl: no crawl there: %w", fs.ErrNotExist)

// LocationError reports that a location does not say enough, or the wrong thing,
// about its crawl: the caller has to change it.
type LocationError struct {
	Crawl    string // its name, without secrets
	Problem  string // such as "its exact keys are in Postgres"
	Postgres bool   // the location has to name a Postgres
	Err      error  // the cause; nil: none
}

// Error implements error.
func (e *LocationError) Error() string {
	text := e.Crawl + ": " + e.Problem
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *LocationError) Unwrap() error { return e.Err }

// errExactElsewhere reports that the exact keys of a crawl are in a Postgres
// whose address was not given.
func errExactElsewhere(crawl string) error {
	return &LocationError{Crawl: crawl, Problem: "its exact keys are in Postgres", Postgres: true}
}

// errRowsElsewhere reports that records are in a Postgres whose address was not
// given.
func errRowsElsewhere(crawl string) error {
	return &LocationError{Crawl: crawl, Problem: "its records are in Postgres", Postgres: true}
}

// worded is an error with a text of its own and a cause for errors.Is.
type worded struct {
	text  string
	cause error
}

func (w *worded) Error() string { return w.text }
func (w *worded) Unwrap() error { return w.cause }

// errInUse reports a directory that another process has open.
func errInUse(dir, by string) error {
	return &worded{fmt.Sprintf("%s is in use by another %s", dir, by), frontier.ErrLocked}
}
