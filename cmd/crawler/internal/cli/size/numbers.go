package size

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// The least rate that is asked for: below it the chance that two of 2³² keys
// share a fingerprint is no longer small beside it.
const leastRate = 1e-18

// parseNumber reads a number the way people write it: 250000, 10_000, 1,000,000,
// 1e9, 2.5M, with a unit of k, M, G (or B, a billion) or T.
func parseNumber(s string) (float64, error) {
	s = strings.TrimSpace(s)
	factor := 1.0
	if s != "" {
		switch s[len(s)-1] {
		case 'k', 'K':
			factor = 1e3
		case 'm', 'M':
			factor = 1e6
		case 'g', 'G', 'b', 'B':
			factor = 1e9
		case 't', 'T':
			factor = 1e12
		}
	}
	digits := s
	if factor > 1 {
		digits = strings.TrimSpace(s[:len(s)-1])
	}
	if strings.ContainsAny(digits, "xXpPnNiI") { // hexadecimal, NaN and infinities are numbers for Go only
		return 0, fmt.Errorf("%q is no number", s)
	}
	v, err := strconv.ParseFloat(strings.NewReplacer("_", "", ",", "").Replace(digits), 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", s)
	}
	return v * factor, nil
}

// parseRate reads a probability: 1e-6, 0.1%, "1 in 1000000", 1/1M.
func parseRate(s string) (float64, error) {
	s = strings.TrimSpace(s)
	for _, separator := range []string{" in ", "/"} {
		if some, of, found := strings.Cut(s, separator); found {
			a, errA := parseNumber(some)
			b, errB := parseNumber(of)
			if errA != nil || errB != nil || b == 0 {
				return 0, fmt.Errorf("%q is no rate", s)
			}
			return a / b, nil
		}
	}
	if percent, found := strings.CutSuffix(s, "%"); found {
		v, err := parseNumber(percent)
		return v / 100, err
	}
	return parseNumber(s)
}

// count is a flag for a number of things, at least one.
type count uint64

const maxCount = 1e15

func (c *count) Type() string { return "N" }
func (c *count) String() string {
	if *c == 0 {
		return ""
	}
	for _, unit := range []struct {
		size uint64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if uint64(*c)%unit.size == 0 {
			return fmt.Sprintf("%d%s", uint64(*c)/unit.size, unit.name)
		}
	}
	return strconv.FormatUint(uint64(*c), 10)
}

func (c *count) Set(s string) error {
	v, err := parseNumber(s)
	if err != nil || !(v >= 1 && v <= maxCount) || v != math.Trunc(v) {
		return fmt.Errorf("want a whole number from 1 to 1e15, such as 250000, 10M or 1e9")
	}
	*c = count(v)
	return nil
}

// rate is a flag for a probability.
type rate float64

func (r *rate) Type() string { return "P" }
func (r *rate) String() string {
	if *r == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*r), 'g', -1, 64)
}

func (r *rate) Set(s string) error {
	v, err := parseRate(s)
	if err != nil || !(v >= leastRate && v <= 0.99) {
		return fmt.Errorf("want a probability from 1e-18 to 0.99, such as 1e-6, 0.1%% or '1 in 1000000'")
	}
	*r = rate(v)
	return nil
}

// bytes is a flag for a size.
type bytes uint64

func (b *bytes) Type() string { return "SIZE" }
func (b *bytes) String() string {
	if *b == 0 {
		return ""
	}
	return strings.ReplaceAll(humanize.IBytes(uint64(*b)), " ", "")
}

func (b *bytes) Set(s string) error {
	v, err := humanize.ParseBytes(s)
	if err != nil { // 1e9
		var f float64
		if f, err = parseNumber(s); f >= 0 && f < 1<<60 {
			v = uint64(f)
		}
	}
	if err != nil || v < 1 || v > 1<<57 {
		return fmt.Errorf("want a size from 1B to 128PiB, such as 512MiB or 2GB")
	}
	*b = bytes(v)
	return nil
}

// loss is a flag for URLs that may be lost: a number of them, or a share.
type loss struct {
	number float64 // 0: none given
	share  float64 // 0: none given
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

// Set takes what is written as a rate (a percentage, "1 in n", or below 1) for a
// share, and the rest for a number.
func (l *loss) Set(s string) error {
	v, err := parseRate(s)
	if v == 0 && err == nil {
		return fmt.Errorf("a Bloom filter loses some; use an exact store to lose none")
	}
	asRate := strings.ContainsAny(s, "%/") || strings.Contains(s, " in ") || v < 1
	switch {
	case err == nil && asRate && v >= leastRate && v < 1:
		*l = loss{share: v}
	case err == nil && !asRate && v <= maxCount:
		*l = loss{number: v}
	default:
		return fmt.Errorf("want a number of URLs, such as 1000, or a rate from 1e-18, such as 0.01%% or '1 in 1M'")
	}
	return nil
}

// onOff is a switch that is written out.
type onOff bool

func (b *onOff) Type() string { return "on|off" }
func (b *onOff) String() string {
	if *b {
		return "on"
	}
	return "off"
}

func (b *onOff) Set(s string) error {
	switch s {
	case "on":
		*b = true
	case "off":
		*b = false
	default:
		return fmt.Errorf("want on or off")
	}
	return nil
}

// How numbers are printed.

func commas(n uint64) string { return humanize.Comma(int64(min(n, math.MaxInt64))) }

func ibytes(n uint64) string { return humanize.IBytesN(n, 3) }

// ibytesUp prints a size that suffices, as a flag takes it: rounded up.
func ibytesUp(n uint64) string {
	if rounded, err := humanize.ParseBytes(ibytes(n)); err == nil && rounded < n {
		n += n / 100 // three digits are good to 1 % or better
	}
	return strings.ReplaceAll(ibytes(n), " ", "")
}

// rateUp returns a rate that three digits print in full, p or the next above.
func rateUp(p float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(p))-2)
	return math.Ceil(p/unit) * unit
}

func plural(n uint64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return commas(n) + " " + thing + "s"
}

// oneIn prints a rate as people imagine it.
func oneIn(p float64) string {
	switch {
	case p <= 0:
		return "none"
	case p >= 0.01:
		return fmt.Sprintf("%.3g%%", 100*p)
	}
	value, prefix := humanize.ComputeSI(1 / p)
	if 1/p >= 1e15 {
		return fmt.Sprintf("1 in %.2g", 1/p)
	}
	return fmt.Sprintf("1 in %.3g%s", value, prefix)
}

// few prints a number of URLs that may be a fraction of one.
func few(n float64) string {
	if n < 10 {
		return fmt.Sprintf("%.2g", n)
	}
	return commas(uint64(math.Round(n)))
}
