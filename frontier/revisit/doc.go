// Package revisit decides when a page is fetched again.
//
// A Row is what a crawl remembers about one page. Row.After returns the row after a visit, and what the visit found. The
// row's History has the intervals between its visits, from which Rate estimates how often the page changes. A Plan
// turns that rate into the time until the next visit: a fixed one, or one with which a wanted share of all pages is up
// to date with as few requests as possible.
//
// The package does no I/O, reads no clock, and knows nothing of hosts: politeness can make a visit later than its row
// says. Rows are values, and a Plan is not changed after it was made, so all of them are safe for concurrent use. A Census
// is not.
package revisit
