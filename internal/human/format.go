package human

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// PerSecond prints a number of things per second with about three digits: "0.05", "1.2", "1,234".
func PerSecond(perSecond float64) string {
	switch {
	case math.IsNaN(perSecond) || math.IsInf(perSecond, 0):
		return "?"
	case perSecond >= 99.5:
		return humanize.Comma(int64(math.Round(perSecond)))
	case perSecond == math.Trunc(perSecond):
		return strconv.Itoa(int(perSecond))
	case perSecond < 0.095:
		return strconv.FormatFloat(perSecond, 'g', 1, 64)
	default:
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
}

// Percent prints a share of 1 as a percentage with one decimal. A share below 1 is
// printed as 99.9% at most.
func Percent(share float64) string {
	percent := 100 * share
	if share < 1 {
		percent = min(percent, 99.9)
	}
	return fmt.Sprintf("%.1f%%", percent)
}

// Span prints a duration with its two largest units: "0s", "42s", "12m03s",
// "5h07m", "3d04h".
func Span(d time.Duration) string {
	s := int64(max(d, 0).Round(time.Second) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 48*3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
	}
}

// Printable returns s with a question mark in place of each character that is not
// printable. Names of hosts and files come from strangers, and a terminal would obey
// control characters in them.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
