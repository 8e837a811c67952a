package report

import (
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/internal/human"
)

// MaxMoments is the largest number of moments in a Timeline.
const MaxMoments = 360

// Timeline has the counters of a crawl at moments of its whole life, oldest first. Its size is bounded: a Timeline that is
// full drops every second moment, and adds later ones half as often. The crawl adds moments only while it runs. The zero
// Timeline is empty.
type Timeline struct {
	Every   human.Seconds `json:"every_seconds"` // the least time between two moments
	Moments []Moment      `json:"moments"`
}

// Moment has the counters of a crawl at one time. They start at the beginning of the crawl.
type Moment struct {
	Time     time.Time `json:"time"`
	Pages    uint64    `json:"pages"`
	Bytes    uint64    `json:"bytes"`    // of bodies
	Finished uint64    `json:"finished"` // URLs that are done or failed
	Waiting  uint64    `json:"waiting"`  // URLs that are queued or leased
}

// Add adds a moment, unless the last one is too recent.
func (t *Timeline) Add(m Moment) {
	t.Every = max(t.Every, human.Seconds(time.Second))
	if n := len(t.Moments); n > 0 && m.Time.Sub(t.Moments[n-1].Time) < time.Duration(t.Every)-time.Second/10 {
		return
	}
	if len(t.Moments) >= MaxMoments {
		kept := t.Moments[:0]
		for i := 0; i < len(t.Moments); i += 2 {
			kept = append(kept, t.Moments[i])
		}
		t.Moments, t.Every = kept, 2*t.Every
	}
	t.Moments = append(t.Moments, m)
}

// Clone returns a copy that shares no memory with t.
func (t *Timeline) Clone() Timeline { return Timeline{t.Every, slices.Clone(t.Moments)} }

// Rates are the rates between two moments of a Timeline.
type Rates struct {
	Time           time.Time // the later moment
	PagesPerSecond float64
	BytesPerSecond float64
	Gap            bool // the crawl did not run for a part of the time, so the rates are not known
}

// Rates returns the rates between each two moments.
func (t *Timeline) Rates() []Rates {
	var all []Rates
	for i := 1; i < len(t.Moments); i++ {
		a, b := &t.Moments[i-1], &t.Moments[i]
		over := b.Time.Sub(a.Time)
		r := Rates{Time: b.Time, Gap: over > 3*time.Duration(t.Every)+5*time.Second}
		if !r.Gap {
			r.PagesPerSecond, r.BytesPerSecond = perSecond(a.Pages, b.Pages, over), perSecond(a.Bytes, b.Bytes, over)
		}
		all = append(all, r)
	}
	return all
}
