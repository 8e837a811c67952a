package revisit

import (
	"fmt"
	"math"
	"sort"
	"time"
)

// Bounds of the time between two visits, unless Limits say otherwise.
const (
	DefaultLeast = time.Hour
	DefaultMost  = 90 * day
)

// Limits are the bounds of the time between two visits of a page.
type Limits struct{ Least, Most time.Duration }

// Validate returns nil or an error that names the fault.
func (l Limits) Validate() error {
	if l.Least <= 0 || l.Most < l.Least {
		return fmt.Errorf("revisit: limits of %v and %v, want more than 0, and the second no less than the first", l.Least, l.Most)
	}
	return nil
}

func (l Limits) clamp(d time.Duration) time.Duration { return max(l.Least, min(d, l.Most)) }

// Plan says how soon a page is visited again.
type Plan struct {
	limits Limits
	every  time.Duration // if it is fixed
	price  float64       // of a request; see Wanted
}

// Fixed returns a plan that visits each page after the same time.
func Fixed(every time.Duration, limits Limits) Plan { return Plan{limits: limits, every: every} }

// Wanted returns the plan with which a share of the pages, by weight, is up to date at a random moment. The share is between
// 0 and 1. The census has the rates and the weights of all pages.
//
// To ask each page x times as often as it changes would give the same share to all pages, but a page that changes all
// the time takes requests that many slower pages need: asking all pages equally often keeps more of them up to date
// (Cho and Garcia-Molina, Effective page refresh policies, 2003). So the plan asks as few requests as possible for the share
// of all pages together. A page with weight w and rate r is asked n times a day, where n maximizes
// w × Fresh - price × n, and the price of a request is the same for all pages. Limits keep pages that are not worth their
// requests from starving. If the limits do not allow the share, the plan is the closest one.
func Wanted(share float64, c *Census, limits Limits) Plan {
	p := Plan{limits: limits}
	p.price = bisect(1e-9, 1e9, func(price float64) bool {
		p.price = price
		return c.Fresh(p) > share
	})
	return p
}

// Interval returns the time between two visits of a page that changes rate times a day. The weight says how much more
// the page matters than one of weight 1.
func (p Plan) Interval(rate, weight float64) time.Duration {
	if p.every > 0 {
		return p.limits.clamp(p.every)
	}
	return p.limits.clamp(fromDays(changesAt(rate*p.price/weight) / rate))
}

// changesAt returns the number of changes, x, after which a page should be visited: w × Fresh - price × n is largest where
// price × rate / w = 1 - exp(-x) (1 + x). It is infinite if the left side, which is the argument, is 1 or more: no visit is worth its price.
func changesAt(worth float64) float64 {
	at := sort.SearchFloat64s(worths[:], worth)
	switch {
	case worth >= 1 || at == len(worths):
		return math.Inf(1)
	case at == 0:
		return math.Sqrt(2 * worth) // the limit for small x
	}
	part := (worth - worths[at-1]) / (worths[at] - worths[at-1])
	return changesOf(float64(at-1) + part)
}

// worths has the argument of changesAt for changesOf(0), changesOf(1) and so on.
var worths = func() (all [points]float64) {
	for at := range all {
		x := changesOf(float64(at))
		all[at] = 1 - math.Exp(-x)*(1+x)
	}
	return all
}()

// points is how many numbers the table worths has.
const points = 512

// changesOf returns numbers from 1e-4 to 20, for 0 to points - 1.
func changesOf(at float64) float64 {
	return 1e-4 * math.Pow(20/1e-4, at/(points-1))
}

// Census counts pages by their rates and weights, so that Wanted need not read all rows. Its memory does not grow.
type Census struct {
	weight [buckets]float64 // sum of the weights of the pages of a bucket
	pages  [buckets]float64
}

// Buckets of a census: eight for each doubling of the rate, from 2^-20 to 2^12 changes a day.
const (
	perDoubling = 8
	slowest     = -20
	buckets     = perDoubling * 32
)

// Add counts n pages with this rate and weight. With -1 for n it takes one away that was added before.
func (c *Census) Add(rate, weight float64, n int) {
	at := int((math.Log2(rate) - slowest) * perDoubling)
	at = max(0, min(at, buckets-1))
	c.weight[at] += weight * float64(n)
	c.pages[at] += float64(n)
}

// Fresh returns the share of the pages, by weight, that a plan keeps up to date. It is 1 without pages.
func (c *Census) Fresh(p Plan) float64 {
	fresh, sum := 0.0, 0.0
	c.each(func(rate, weight, pages float64) {
		fresh += weight * Fresh(rate, p.Interval(rate, weight/pages))
		sum += weight
	})
	if sum == 0 {
		return 1
	}
	return fresh / sum
}

// Requests returns how many requests a day a plan makes for all pages.
func (c *Census) Requests(p Plan) (perDay float64) {
	c.each(func(rate, weight, pages float64) { perDay += pages / days(p.Interval(rate, weight/pages)) })
	return perDay
}

// each calls f for each bucket that has pages, with the rate in its middle.
func (c *Census) each(f func(rate, weight, pages float64)) {
	for at := range c.pages {
		if c.pages[at] > 0.5 && c.weight[at] > 0 {
			f(math.Exp2(slowest+(float64(at)+0.5)/perDoubling), c.weight[at], c.pages[at])
		}
	}
}
