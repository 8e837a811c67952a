package size

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/bloomfrontier/crawler/internal/human"
)

// loss is a flag for the accepted loss of URLs: a number of URLs, or a share.
type loss struct {
	number float64 // 0 means that no number was given
	share  float64 // 0 means that no share was given
}

func (l *loss) set() bool { return l.number > 0 || l.share > 0 }

func (l *loss) Type() string { return "N|RATE" }
func (l *loss) String() string {
	switch {
	case l.share > 0:
		return strconv.FormatFloat(l.share, 'g', -1, 64)
	case l.number > 0:
		return strconv.FormatFloat(l.number, 'f', -1, 64)
	}
	return ""
}

// Set parses a percentage, "1 in n" or a number below 1 as a share, and other values
// as a number.
func (l *loss) Set(s string) error {
	v, err := human.ParseRate(s)
	if v == 0 && err == nil {
		return errors.New("want more than 0: a Bloom filter loses some, an exact store loses none")
	}
	asRate := strings.ContainsAny(s, "%/") || strings.Contains(s, " in ") || v < 1
	switch {
	case err == nil && asRate && v >= human.MinRate && v < 1:
		*l = loss{share: v}
	case err == nil && !asRate && v <= human.MaxCount:
		*l = loss{number: v}
	default:
		return errors.New("want a number of URLs, such as 1000, or a rate from 1e-18, such as 0.01% or '1 in 1M'")
	}
	return nil
}

// ibytesUp rounds a size up, and formats it as the value of a flag.
func ibytesUp(n uint64) string {
	if rounded, err := humanize.ParseBytes(human.IBytes(n)); err == nil && rounded < n {
		n += n / 100 // three digits are precise to 1 %
	}
	return strings.ReplaceAll(human.IBytes(n), " ", "")
}

// rateUp rounds p up. The result has three significant digits.
func rateUp(p float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(p))-2)
	return math.Ceil(p/unit) * unit
}

// days formats a time in a suitable unit.
func days(seconds float64) string {
	const day, year = 24 * 3600, 365.25 * 24 * 3600
	switch {
	case seconds >= 2*year:
		return fmt.Sprintf("%.3g years", seconds/year)
	case seconds >= 2*day:
		return fmt.Sprintf("%.3g days", seconds/day)
	default:
		return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
	}
}
