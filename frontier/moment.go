package frontier

import (
	"math"
	"time"
)

// Moment is the time since the creation of a crawl in two bytes: in minutes for the first 22 days, then in hours. The last
// Moment stands for all times after 3.8 years.
type Moment uint16

const minuteMoments = 1 << 15

// MomentAt returns the last Moment that is not later than a time since the creation of the crawl.
func MomentAt(since time.Duration) Moment {
	n := max(since, 0) / time.Minute
	if n > minuteMoments {
		n = min(minuteMoments+(n-minuteMoments)/60, math.MaxUint16)
	}
	return Moment(n)
}

// Since returns the time between the creation of the crawl and m.
func (m Moment) Since() time.Duration {
	n := time.Duration(m)
	if n > minuteMoments {
		n = minuteMoments + (n-minuteMoments)*60
	}
	return n * time.Minute
}

// LookOldest makes it the oldest URL of h if its Added is earlier than that of the oldest one so far, or if it is the
// first one. age is the time since the creation of the crawl.
func (h *HostState) LookOldest(it *Item, age time.Duration) {
	if waited := max(age-it.Added.Since(), 0); h.OldestURL == "" || waited > h.OldestAge {
		h.OldestURL, h.OldestAge = it.URL, waited
	}
}
