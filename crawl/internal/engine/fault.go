package engine

import (
	"fmt"
	"io/fs"

	"github.com/bloomfrontier/crawler/frontier"
)

// ErrNoCrawl reports a location without a crawl.
var ErrNoCrawl = fmt.Errorf("crawl: no crawl there: %w", fs.ErrNotExist)

// LocationError reports a location that lacks something that the crawl needs, or that
// contradicts the crawl. The caller must change the location.
type LocationError struct {
	Crawl    string // its name, without secrets
	Problem  string // such as "its exact keys are in Postgres"
	Postgres bool   // the location must name a Postgres
	Err      error  // the cause; nil means none
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

// errElsewhere returns the error for a part of a crawl that is in Postgres, if the address of
// Postgres was not given. The argument part is "exact keys" or "records".
func errElsewhere(crawl, part string) error {
	return &LocationError{Crawl: crawl, Problem: "its " + part + " are in Postgres", Postgres: true}
}

// textError is an error with its own text and a cause for errors.Is.
type textError struct {
	text  string
	cause error
}

func (w *textError) Error() string { return w.text }
func (w *textError) Unwrap() error { return w.cause }

// ErrInUse returns the error for a directory that another process has open.
func ErrInUse(dir, by string) error {
	return &textError{fmt.Sprintf("%s is in use by another %s", dir, by), frontier.ErrLocked}
}

// ErrSharedLoss returns the error for a crawl in Redis that shall accept a loss of records.
func ErrSharedLoss(crawl string) error {
	return &LocationError{Crawl: crawl, Problem: "only a crawl in a directory can accept a loss: in Redis the records that are there are counted"}
}
