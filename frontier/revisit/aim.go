package revisit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/internal/human"
)

// Aim says how often pages are visited again. At most one of its fields is set; the zero value visits none again.
type Aim struct {
	Every time.Duration // the same for all pages
	Share float64       // of the pages that is up to date; between 0 and 1
}

var errAim = errors.New("want off, a time from 1s, such as 7d, or a share from 1% to 99%, such as 80%")

// ParseAim parses off, a time, or a percentage.
func ParseAim(text string) (Aim, error) {
	if text == "off" {
		return Aim{}, nil
	}
	if percent, is := strings.CutSuffix(text, "%"); is {
		n, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(n >= 1 && n <= 99) {
			return Aim{}, errAim
		}
		return Aim{Share: n / 100}, nil
	}
	every, err := human.ParsePeriod(text)
	if err != nil || every < time.Second {
		return Aim{}, errAim
	}
	return Aim{Every: every}, nil
}

// On reports whether pages are visited again.
func (a Aim) On() bool { return a != Aim{} }

// never is the time until the next visit of a page that is not visited again.
const never = 100 * 365 * day

// Plan returns the plan for an aim. The census has the pages that are known.
func (a Aim) Plan(c *Census, limits Limits) Plan {
	if !a.On() {
		return Fixed(never, Limits{never, never})
	}
	if a.Every > 0 {
		return Fixed(a.Every, limits)
	}
	return Wanted(a.Share, c, limits)
}

// ParseLimits parses two times, such as 1h..90d.
func ParseLimits(text string) (l Limits, err error) {
	least, most, found := strings.Cut(text, "..")
	if l.Least, err = human.ParsePeriod(least); err == nil {
		l.Most, err = human.ParsePeriod(most)
	}
	if !found || err != nil || l.Validate() != nil || l.Least < time.Second {
		return Limits{}, errors.New("want two times from 1s, the shorter one first, such as 1h..90d")
	}
	return l, nil
}

// Again returns the row with the time of the next visit that a plan gives it. A page that was not found, or that is gone,
// keeps its time, unless the plan, or the one before it, is never to visit it again. notBefore is when the site's max-age ends.
func (r Row) Again(p Plan, weight float64, notBefore time.Time) Row {
	if r.Missing > 0 && p.every < never && r.Next.Sub(r.Visited) < never {
		return r
	}
	r.Next = r.Visited.Add(p.Interval(Rate(r.History), weight))
	if longest := r.Visited.Add(p.limits.Most); notBefore.After(longest) {
		notBefore = longest
	}
	if r.Next.Before(notBefore) {
		r.Next = notBefore
	}
	return r
}

// GoneSince returns when a page was found to be gone, or the zero time.
func (r *Row) GoneSince() time.Time {
	if !r.IsGone() {
		return time.Time{}
	}
	return r.Changed
}

// Pages returns how many pages the census counts.
func (c *Census) Pages() (n float64) {
	for _, pages := range c.pages {
		n += pages
	}
	return n
}

const censusBytes = 2 * 8 * buckets

// AppendBinary appends the census to b.
func (c *Census) AppendBinary(b []byte) ([]byte, error) {
	for _, numbers := range [...]*[buckets]float64{&c.weight, &c.pages} {
		for _, n := range numbers {
			b = binary.BigEndian.AppendUint64(b, math.Float64bits(n))
		}
	}
	return b, nil
}

// UnmarshalBinary sets the census to one that AppendBinary wrote.
func (c *Census) UnmarshalBinary(b []byte) error {
	if len(b) != censusBytes {
		return fmt.Errorf("revisit: a census of %d bytes, want %d", len(b), censusBytes)
	}
	for _, numbers := range [...]*[buckets]float64{&c.weight, &c.pages} {
		for i := range numbers {
			numbers[i] = math.Float64frombits(binary.BigEndian.Uint64(b))
			b = b[8:]
		}
	}
	return nil
}
