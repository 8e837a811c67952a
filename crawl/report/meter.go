package report

import (
	"cmp"
	"slices"
	"time"
)

const (
	// rateOver is the time over which rates are computed. It is long enough for a host
	// that gets a request every few seconds, and short enough to show a change.
	rateOver = 10 * time.Second
	// leftOver is the time over which the pace is measured. The remaining time is
	// computed from the pace. If no URL was added in the last minute, the crawl is
	// expected to end when the queued URLs are done.
	leftOver = time.Minute
	// voters is the number of samples that decide what limits the crawl.
	voters = 15
)

// A Meter computes rates from samples, and counts for how long each Kind of
// limit slowed the crawl down. The zero Meter is ready. A Meter is not safe for concurrent use.
type Meter struct {
	samples []Sample               // in the order of time; only the first can be older than leftOver
	took    map[Kind]time.Duration // how long each kind limited the crawl
}

// Reading is a Sample with rates that were computed from earlier samples.
type Reading struct {
	Sample
	Over           time.Duration // the time over which the rates are computed; 0 means that there are none yet
	PagesPerSecond float64
	BytesPerSecond float64
	Limit          Factor
	End            End
}

// End is the bound that the crawl will reach first. The zero End means that none is
// known.
type End struct {
	By    Bound         `json:"by,omitempty"`
	Share float64       `json:"share"` // how much of the way to the bound is done, 0 to 1
	Left  time.Duration `json:"left"`  // remaining time at the pace of the last minute, in ns; negative means unknown
}

// Bound is something that ends a crawl.
type Bound string

// The bounds, with the names that the display shows.
const (
	ByPages   Bound = "--max-pages"
	ByTime    Bound = "--max-time"
	ByQueue   Bound = "the queue"            // if Sample.Closed is true: no URL can be added
	BySettled Bound = "if nothing new comes" // no URL was added in the last minute
)

// Read adds the next sample and returns its reading. The caller should read one sample
// a second. The time between two samples is counted for the kind of the newer sample.
func (m *Meter) Read(s Sample) Reading {
	if n := len(m.samples); n > 0 {
		if m.took == nil {
			m.took = make(map[Kind]time.Duration)
		}
		m.took[s.Gauges.Kind()] += max(s.Time.Sub(m.samples[n-1].Time), 0)
	}
	m.samples = append(m.samples, s)
	if from := m.indexBefore(leftOver); from > 0 {
		m.samples = slices.Delete(m.samples, 0, from)
	}
	r := Reading{Sample: s, Limit: m.Limit(), End: m.end()}
	base := m.samples[m.indexBefore(rateOver)]
	if r.Over = s.Time.Sub(base.Time); r.Over > 0 {
		r.PagesPerSecond = perSecond(base.Pages, s.Pages, r.Over)
		r.BytesPerSecond = perSecond(base.Bytes, s.Bytes, r.Over)
	}
	return r
}

// indexBefore returns the index of the newest sample that is at least d old, or 0 if there
// is none.
func (m *Meter) indexBefore(d time.Duration) int {
	now := m.samples[len(m.samples)-1].Time
	for i := len(m.samples) - 1; i > 0; i-- {
		if now.Sub(m.samples[i].Time) >= d {
			return i
		}
	}
	return 0
}

// Limit returns what limits the crawl now, from the last samples.
func (m *Meter) Limit() Factor {
	recent := m.samples[max(len(m.samples)-voters, 0):]
	history := make([]Gauges, len(recent))
	for i, s := range recent {
		history[i] = s.Gauges
	}
	return Limiting(history)
}

// end returns the bound that is reached first.
func (m *Meter) end() End {
	s, base := m.samples[len(m.samples)-1], m.samples[0]
	over := s.Time.Sub(base.Time)
	var ends []End
	if s.MaxPages > 0 {
		ends = append(ends, End{ByPages, share(s.Pages, s.MaxPages),
			timeLeft(s.MaxPages-min(s.Pages, s.MaxPages), perSecond(base.Pages, s.Pages, over))})
	}
	if !s.Deadline.IsZero() {
		whole := s.Deadline.Sub(s.Started)
		ends = append(ends, End{ByTime, share(uint64(max(s.Time.Sub(s.Started), 0)), uint64(max(whole, 0))),
			max(s.Deadline.Sub(s.Time), 0)})
	}
	settled := over >= leftOver && s.Added == base.Added && s.Finished > base.Finished
	if s.Closed || settled {
		by, open := ByQueue, s.Queued+s.Leased
		if !s.Closed {
			by = BySettled
		}
		ends = append(ends, End{by, share(s.Finished, s.Finished+open),
			timeLeft(open, perSecond(base.Finished, s.Finished, over))})
	}
	if len(ends) == 0 {
		return End{}
	}
	return slices.MinFunc(ends, func(a, b End) int {
		if (a.Left < 0) != (b.Left < 0) { // known times are before unknown ones
			return cmp.Compare(b.Left, a.Left)
		}
		return cmp.Compare(a.Left, b.Left)
	})
}

// Share is how long one kind limited the crawl.
type Share struct {
	Kind    Kind    `json:"kind"`
	Seconds float64 `json:"seconds"`
	Share   float64 `json:"share"` // share of the measured time, 0 to 1
}

// Shares returns what limited the crawl so far, longest first.
func (m *Meter) Shares() []Share {
	var whole time.Duration
	for _, d := range m.took {
		whole += d
	}
	var shares []Share
	for _, kind := range Kinds {
		if d := m.took[kind]; d > 0 {
			shares = append(shares, Share{kind, d.Seconds(), d.Seconds() / whole.Seconds()})
		}
	}
	slices.SortStableFunc(shares, func(a, b Share) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return shares
}

func perSecond(from, to uint64, over time.Duration) float64 {
	if over <= 0 || to < from { // the counter started again at 0
		return 0
	}
	return float64(to-from) / over.Seconds()
}

// share returns part/whole, at most 1, and 1 if both are 0.
func share(part, whole uint64) float64 {
	if part >= whole {
		return 1
	}
	return float64(part) / float64(whole)
}

// timeLeft returns the time that n further steps take at a rate, or a negative duration if
// the rate is 0.
func timeLeft(n uint64, perSecond float64) time.Duration {
	const longest = 100 * 365 * 24 * time.Hour
	if n == 0 {
		return 0
	}
	if perSecond <= 0 {
		return -1
	}
	return time.Duration(min(float64(n)/perSecond*float64(time.Second), float64(longest)))
}
