package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/internal/human"
)

// Visits are the pages that a crawl visits again, and what that found.
type Visits struct {
	Pages  int64   `json:"pages"`                  // that are remembered
	Gone   int64   `json:"gone"`                   // of them, those that are gone
	Purged int64   `json:"purged"`                 // that were gone for long, and are forgotten
	Queued int64   `json:"queued"`                 // that wait in the queue for their next visit
	Due    int64   `json:"due"`                    // that are due, and are not queued yet
	More   bool    `json:"due_more,omitempty"`     // Due was not counted to the end
	Late   float64 `json:"late_seconds,omitempty"` // how long the first of Due has been due

	Visits    int64 `json:"visits"`    // in later rounds
	Unchanged int64 `json:"unchanged"` // of them, those that found the same text
	Changed   int64 `json:"changed"`   // of them, those that found another text

	Fresh  float64 `json:"fresh"`   // estimated share of the pages that is up to date, if all are visited when they are due
	PerDay float64 `json:"per_day"` // visits a day for that
}

// write prints the account in three lines. It prints nothing for nil.
func (v *Visits) write(b *strings.Builder) {
	if v == nil {
		return
	}
	n := func(n int64) string { return human.Commas(uint64(max(n, 0))) }
	fact(b, "known", fmt.Sprintf("%s, %s of them gone; %s forgotten", human.Plural(uint64(max(v.Pages, 0)), "page"), n(v.Gone), n(v.Purged)))
	due := n(v.Due)
	if v.More {
		due += " or more"
	}
	if v.Due > 0 {
		due += fmt.Sprintf(", the first since %s", human.Span(time.Duration(v.Late*float64(time.Second))))
	}
	fact(b, "due", fmt.Sprintf("%s; %s queued; %s a day keep an estimated %.1f %% up to date", due, n(v.Queued), human.Plural(uint64(v.PerDay+0.5), "visit"), 100*v.Fresh))
	fact(b, "visits", fmt.Sprintf("%s after the first ones: %s unchanged, %s changed", n(v.Visits), n(v.Unchanged), n(v.Changed)))
}
