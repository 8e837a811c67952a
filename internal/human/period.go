package human

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Period is a time of more than 0, possibly with days, which have 24 hours; 0 means that no time
// was given.
type Period time.Duration

// Type implements pflag.Value.
func (p *Period) Type() string { return "TIME" }

func (p *Period) String() string {
	d := time.Duration(*p)
	if d == 0 {
		return ""
	}
	var days string
	if d >= 48*time.Hour {
		days = strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
		d %= 24 * time.Hour
	}
	if d == 0 {
		return days
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if short, is := strings.CutSuffix(text, zero); is {
			text = short + zero[:1]
		}
	}
	return days + text
}

// Set implements pflag.Value.
func (p *Period) Set(s string) error {
	d, err := ParsePeriod(s)
	if err == nil && d == 0 {
		err = errPeriod
	}
	if err == nil {
		*p = Period(d)
	}
	return err
}

var errPeriod = errors.New("want a time with its unit, such as 90s, 24h or 30d")

// ParsePeriod parses a time of 0 or more, possibly with days.
func ParsePeriod(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		days, rest = "0", s
	}
	n, err := strconv.ParseInt(days, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/int64(25*time.Hour) {
		return 0, errPeriod
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil || more < 0 || d+more < d {
			return 0, errPeriod
		}
		d += more
	}
	return d, nil
}
