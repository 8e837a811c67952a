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
	Later  int64   `json:"later"`                  // that were due when their hosts had enough in the queue
	More   bool    `json:"due_more,omitempty"`     // Due was not counted to the end
	Late   float64 `json:"late_seconds,omitempty"` // how long the first of Due has been due

	Visits    int64 `json:"visits"`    // in later rounds
	Unchanged int64 `json:"unchanged"` // of them, those that found the same text
	Changed   int64 `json:"changed"`   // of them, those that found another text
	// Stale counts the pages that were queued once more for a visit that was made already: they were not requested.
	Stale uint64 `json:"stale,omitempty"`

	MeanLate float64 `json:"mean_late_seconds"` // from when the last visits were due until they were made

	Fresh  float64 `json:"fresh"`   // estimated share of the pages that is up to date, if all are visited when they are due
	PerDay float64 `json:"per_day"` // visits a day for that
	// Measured is the share of the pages that was up to date when pages were visited at random moments, of the last 500 to 1000
	// such visits. Sampled is their number; without any, Measured is 0.
	Measured float64 `json:"measured_fresh"`
	Sampled  int64   `json:"sampled"`

	// TooSlow are hosts whose delay does not allow so many visits. Only the 20 hosts that want the most are looked at.
	TooSlow []HostVisits `json:"too_slow_hosts,omitempty"`
}

// HostVisits are the visits that the pages of a host want, and those that its delay allows.
type HostVisits struct {
	Host    string  `json:"host"`
	Pages   int64   `json:"pages"`
	Queued  int64   `json:"queued"`
	PerDay  float64 `json:"per_day"`
	Allowed float64 `json:"allowed_per_day"` // 0 means that there is no delay
	// What visits found of the changes that sitemaps announce (lastmod): that they were announced rightly, wrongly, or not at all.
	// With Lastmod, pages are due when a sitemap says that they have changed.
	Lastmod       bool  `json:"lastmod_trusted,omitempty"`
	LastmodRight  int64 `json:"lastmod_right,omitempty"`
	LastmodWrong  int64 `json:"lastmod_wrong,omitempty"`
	LastmodMissed int64 `json:"lastmod_missed,omitempty"`
}

// TooSlow reports whether the pages want more visits than the delay allows.
func (v *HostVisits) TooSlow() bool { return v.Allowed > 0 && v.PerDay > v.Allowed }

// String says how many visits the pages want, and what it would take.
func (v *HostVisits) String() string {
	text := fmt.Sprintf("%s want %s a day", human.Plural(uint64(max(v.Pages, 0)), "page"), human.Plural(uint64(v.PerDay+0.5), "visit"))
	if v.TooSlow() {
		const perDay = 24 * float64(time.Hour)
		text += fmt.Sprintf(", its delay of %v allows %s: it would take a delay of %v, or visits %.1f times as rare",
			time.Duration(perDay/v.Allowed).Round(time.Millisecond), human.Commas(uint64(v.Allowed)),
			time.Duration(perDay/v.PerDay).Round(time.Millisecond), v.PerDay/v.Allowed)
	}
	return text
}

// Words says how many pages are up to date, as estimated and as measured.
func (v *Visits) Words() string {
	text := fmt.Sprintf("%.1f %% estimated", 100*v.Fresh)
	if v.Sampled > 0 {
		text += fmt.Sprintf(", %.1f %% measured with %s", 100*v.Measured, human.Plural(uint64(v.Sampled), "early visit"))
	}
	return text
}

// InLine says how many pages are up to date, and how many wait for a visit.
func (v *Visits) InLine() string {
	return fmt.Sprintf("up to date: %s; %s due, %s queued", v.Words(), human.Commas(uint64(max(v.Due, 0))), human.Commas(uint64(max(v.Queued, 0))))
}

// write prints the account in a few lines. It prints nothing for nil.
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
	if v.Later > 0 {
		due += fmt.Sprintf("; %s of hosts that have enough in the queue", n(v.Later))
	}
	fact(b, "due", fmt.Sprintf("%s; %s queued; visits come %s late on average", due, n(v.Queued), human.Span(time.Duration(v.MeanLate*float64(time.Second)))))
	fact(b, "up to date", fmt.Sprintf("%s; %s a day keep it so", v.Words(), human.Plural(uint64(v.PerDay+0.5), "visit")))
	fact(b, "visits", fmt.Sprintf("%s after the first ones: %s unchanged (%s), %s changed", n(v.Visits), n(v.Unchanged),
		human.Percent(float64(v.Unchanged)/float64(max(v.Visits, 1))), n(v.Changed)))
	if v.Stale > 0 {
		fact(b, "stale", human.Plural(v.Stale, "URL")+", queued for visits that were made already")
	}
	for i := range v.TooSlow {
		fact(b, "too slow", human.Printable(v.TooSlow[i].Host)+": "+v.TooSlow[i].String())
	}
}
