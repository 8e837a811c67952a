package revisit

import (
	"math"
	"time"
)

// MaxIntervals is how many intervals a History keeps.
const MaxIntervals = 20

// An Interval is the time between two visits of a page that had an answer.
type Interval struct {
	Length  time.Duration // more than 0
	Changed bool          // the page changed meanwhile, once or more often
}

// History has the last intervals of a page, at most MaxIntervals, the oldest first.
type History []Interval

// add returns the history with one more interval. It does not change h.
func (h History) add(i Interval) History {
	if len(h) >= MaxIntervals {
		h = h[len(h)-MaxIntervals+1:]
	}
	return append(h[:len(h):len(h)], i)
}

const day = 24 * time.Hour

// assumed is the length of two intervals that Rate adds to each history: one with a change and one without. So a short
// history has a rate, too, and without any other interval it is 2 × ln 2 changes a day.
const assumed = day / 2

// Rate returns the changes of a page per day, which is more than 0, from its history. It is the maximum
// likelihood estimate for a page that changes at random moments (a Poisson process) and of which only "changed or not"
// is known: the rate r for which the sum of t/(exp(r t) - 1) over the intervals with a change equals the sum of t over
// the others (Cho and Garcia-Molina, Estimating frequency of change, 2003).
func Rate(h History) float64 {
	changed, still := []float64{days(assumed)}, days(assumed)
	for _, i := range h {
		if i.Changed {
			changed = append(changed, days(i.Length))
		} else {
			still += days(i.Length)
		}
	}
	surplus := func(rate float64) float64 { // falls with the rate
		sum := -still
		for _, t := range changed {
			sum += t / math.Expm1(rate*t)
		}
		return sum
	}
	return bisect(1e-6, 1e5, func(rate float64) bool { return surplus(rate) > 0 })
}

// bisect returns the point between low and high, both more than 0, up to which below is true.
func bisect(low, high float64, below func(float64) bool) float64 {
	for range 40 {
		middle := math.Sqrt(low * high)
		if below(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

func days(d time.Duration) float64 { return float64(d) / float64(day) }

func fromDays(n float64) time.Duration { return time.Duration(min(n*float64(day), math.MaxInt64/2)) }

// Fresh returns the probability that a copy of a page is up to date at a random moment, if the page changes rate times
// a day and is visited at each interval.
func Fresh(rate float64, interval time.Duration) float64 {
	x := rate * days(interval)
	if x < 1e-9 {
		return 1
	}
	return -math.Expm1(-x) / x
}
