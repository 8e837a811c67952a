package revisit

import (
	"time"
)

// Digest is the SHA-256 of a body or of a text.
type Digest [32]byte

// Row is what is remembered about a page. The zero value is a page that had no visit yet.
type Row struct {
	Visited time.Time // of the last visit that had an answer
	Changed time.Time // of the last visit that found another text
	Next    time.Time // when the page is due

	ETag, LastModified string // the site's own, for a conditional request; empty if it sent none
	Body, Text         Digest // of the last visit with content

	History History
	Missing int       // visits in a row that found the page gone
	Since   time.Time // of the first of them
}

// Answer is how a visit ended.
type Answer uint8

const (
	NoAnswer    Answer = iota // the host is down, blocks the crawler, or asks to wait: nothing is known about the page
	Content                   // 200, with a body
	NotModified               // 304, to a conditional request
	NotFound                  // 404 or 410
)

// Visit is what one visit of a page saw.
type Visit struct {
	At     time.Time
	Answer Answer

	ETag, LastModified string        // of the answer; after NotModified, an empty one keeps the row's (RFC 9111, section 4.3.4)
	Body, Text         Digest        // of the content
	MaxAge             time.Duration // for which the site says that the answer stays fresh; 0 means that it does not say
}

// Change is what a visit says about a page.
type Change string

// The changes. None of them is said of a visit without an answer, nor of the first visits that do not find a page.
const (
	New       Change = "new"
	Changed   Change = "changed"
	Unchanged Change = "unchanged" // also if the body has other bytes, but the same text
	Gone      Change = "gone"
)

const (
	goneVisits  = 2       // visits that do not find a page, after which it can be gone
	goneAfter   = day     // shortest time between the first and the last of them
	goneBackoff = 7 * day // until a page that is gone is asked for again; it doubles each time
)

// IsGone reports whether the page is gone.
func (r *Row) IsGone() bool {
	return r.Missing >= goneVisits && r.Visited.Sub(r.Since) >= goneAfter
}

// After returns the row after a visit, and what the visit says about the page. The plan and the weight of the page
// (1 for most) decide when it is due again, but not before the time that the site asked for with MaxAge, up to the longest
// time of the plan. A visit that is not later than the row's last one counts, but its interval is not remembered.
func (r Row) After(v Visit, p Plan, weight float64) (Row, Change) {
	r, change := r.after(v, p, weight)
	if p.every >= never { // also if the page is gone
		r.Next = v.At.Add(never)
	}
	return r, change
}

func (r Row) after(v Visit, p Plan, weight float64) (Row, Change) {
	if v.Answer == NoAnswer {
		r.Next = v.At.Add(p.Interval(Rate(r.History), weight))
		return r, ""
	}
	isNew, wasGone, interval := r.Visited.IsZero(), r.IsGone(), v.At.Sub(r.Visited)
	r.Visited = v.At
	if v.Answer == NotFound {
		return r.notFound(v, p, wasGone)
	}
	r.Missing, r.Since = 0, time.Time{}
	change := Unchanged
	switch {
	case isNew:
		change = New
	case v.Answer == Content && v.Text != r.Text || wasGone:
		change = Changed
	}
	if v.Answer == Content {
		r.ETag, r.LastModified, r.Body, r.Text = v.ETag, v.LastModified, v.Body, v.Text
	} else if v.ETag != "" || v.LastModified != "" {
		r.ETag, r.LastModified = or(v.ETag, r.ETag), or(v.LastModified, r.LastModified)
	}
	if !isNew && interval > 0 {
		r.History = r.History.add(Interval{interval, change == Changed})
	}
	if change != Unchanged {
		r.Changed = v.At
	}
	wait := p.Interval(Rate(r.History), weight)
	r.Next = v.At.Add(max(wait, min(v.MaxAge, p.limits.Most)))
	return r, change
}

// Says returns what a visit says about the page, as After does.
func (r Row) Says(v Visit) Change {
	_, change := r.After(v, Fixed(day, Limits{day, day}), 1)
	return change
}

// notFound returns the row after a visit that did not find the page. The page is gone if a visit a day later does not find it either.
func (r Row) notFound(v Visit, p Plan, wasGone bool) (Row, Change) {
	if r.Missing == 0 {
		r.Since = v.At
	}
	r.Missing = min(r.Missing+1, 255)
	switch {
	case !r.IsGone():
		r.Next = r.Since.Add(goneAfter)
		if !r.Next.After(v.At) {
			r.Next = v.At.Add(goneAfter)
		}
		return r, ""
	case wasGone:
		wait := goneBackoff << min(r.Missing-goneVisits, 8)
		r.Next = v.At.Add(max(wait, p.limits.Least))
		return r, Unchanged
	}
	r.Next, r.Changed = v.At.Add(goneBackoff), v.At
	return r, Gone
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
