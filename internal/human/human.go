// Package human reads and prints numbers the way people write them: 10M, 1e9,
// 0.1%, 1 in 1000000, 512MiB.
//
// Its types are values of flags. Set accepts what String returns, and restores the same value.
// There is one exception: 0 as a Count, Rate or Bytes means that no value was given. Its
// String is empty, and Set refuses an empty text. The package does not depend on any command.
package human

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// ParseNumber reads 250000, 10_000, 1,000,000, 1e9 or 2.5M: a number with the unit k, M,
// G (or B, a billion) or T, or without a unit.
func ParseNumber(s string) (float64, error) {
	digits, factor := strings.TrimSpace(s), 1.0
	if digits != "" {
		switch digits[len(digits)-1] {
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
	if factor > 1 {
		digits = strings.TrimSpace(digits[:len(digits)-1])
	}
	if strings.ContainsAny(digits, "xXpPnNiI") { // strconv would accept hexadecimal numbers, NaN and infinities
		return 0, fmt.Errorf("%q is no number", s)
	}
	v, err := strconv.ParseFloat(strings.NewReplacer("_", "", ",", "").Replace(digits), 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", s)
	}
	return v * factor, nil
}

// ParseRate reads a rate: 1e-6, 0.1%, "1 in 1000000", 1/1M.
func ParseRate(s string) (float64, error) {
	s = strings.TrimSpace(s)
	for _, separator := range []string{" in ", "/"} {
		some, of, found := strings.Cut(s, separator)
		if !found {
			continue
		}
		a, errA := ParseNumber(some)
		b, errB := ParseNumber(of)
		if errA != nil || errB != nil || b == 0 {
			return 0, fmt.Errorf("%q is no rate", s)
		}
		return a / b, nil
	}
	if percent, found := strings.CutSuffix(s, "%"); found {
		v, err := ParseNumber(percent)
		return v / 100, err
	}
	return ParseNumber(s)
}

// Count is a number of things, at least one; 0 means that no number was given.
type Count uint64

// MaxCount is the largest Count. A float64 can represent all integers up to it.
const MaxCount = 1e15

// Type implements pflag.Value.
func (c *Count) Type() string { return "N" }

func (c *Count) String() string {
	if *c == 0 {
		return ""
	}
	for _, unit := range []struct {
		size uint64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if uint64(*c)%unit.size == 0 {
			return strconv.FormatUint(uint64(*c)/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatUint(uint64(*c), 10)
}

// Set implements pflag.Value.
func (c *Count) Set(s string) error {
	v, err := ParseNumber(s)
	if err != nil || !(v >= 1 && v <= MaxCount) || v != math.Trunc(v) {
		return errors.New("want a whole number from 1 to 1e15, such as 250000, 10M or 1e9")
	}
	*c = Count(v)
	return nil
}

// Rate is a probability; 0 means that no probability was given.
type Rate float64

// MinRate is the smallest Rate. For much smaller rates, the probability that two of 2³²
// keys have the same fingerprint would matter.
const MinRate = 1e-18

// Type implements pflag.Value.
func (r *Rate) Type() string { return "P" }

func (r *Rate) String() string {
	if *r == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*r), 'g', -1, 64)
}

// Set implements pflag.Value.
func (r *Rate) Set(s string) error {
	v, err := ParseRate(s)
	if err != nil || !(v >= MinRate && v <= 0.99) {
		return errors.New("want a probability from 1e-18 to 0.99, such as 1e-6, 0.1% or '1 in 1000000'")
	}
	*r = Rate(v)
	return nil
}

// Bytes is a size in bytes; 0 means that no size was given.
type Bytes uint64

const maxBytes = 1 << 57

// Type implements pflag.Value.
func (b *Bytes) Type() string { return "SIZE" }

func (b *Bytes) String() string {
	if *b == 0 {
		return ""
	}
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if size := Bytes(1) << (40 - 10*i); *b%size == 0 {
			return fmt.Sprintf("%d%s", *b/size, unit)
		}
	}
	return fmt.Sprintf("%dB", *b)
}

// Set implements pflag.Value.
func (b *Bytes) Set(s string) error {
	v, err := humanize.ParseBytes(s)
	if err != nil { // for example 1e9
		var f float64
		if f, err = ParseNumber(s); f >= 0 && f <= maxBytes {
			v = uint64(f)
		}
	}
	if err != nil || v < 1 || v > maxBytes {
		return errors.New("want a size from 1B to 128PiB, such as 512MiB or 2GB")
	}
	*b = Bytes(v)
	return nil
}

// Switch is a flag with the values on and off.
type Switch bool

// Type implements pflag.Value.
func (s *Switch) Type() string { return "on|off" }

func (s *Switch) String() string {
	if *s {
		return "on"
	}
	return "off"
}

// Set implements pflag.Value. It also accepts true and false, because some YAML
// programs turn "on" into "true" and "off" into "false".
func (s *Switch) Set(text string) error {
	switch text {
	case "on", "true":
		*s = true
	case "off", "false":
		*s = false
	default:
		return errors.New("want on or off")
	}
	return nil
}

// Commas prints 1234567 as 1,234,567.
func Commas(n uint64) string { return humanize.Comma(int64(min(n, math.MaxInt64))) }

// IBytes prints a size with three digits: 34.3 MiB.
func IBytes(n uint64) string { return humanize.IBytesN(n, 3) }

// Plural prints a number of things: 1 URL, 2,000 URLs.
func Plural[N ~int | ~uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return humanize.Comma(int64(min(uint64(max(n, 0)), math.MaxInt64))) + " " + thing + "s"
}

// OneIn prints a small rate as 1 in 1.2M, and a rate of 1 % or more as a percentage.
func OneIn(p float64) string {
	switch {
	case p <= 0:
		return "none"
	case p >= 0.01:
		return fmt.Sprintf("%.3g%%", 100*p)
	case 1/p >= 1e15:
		return fmt.Sprintf("1 in %.2g", 1/p)
	}
	value, prefix := humanize.ComputeSI(1 / p)
	return fmt.Sprintf("1 in %.3g%s", value, prefix)
}

// Few prints a number of things that may be less than one.
func Few(n float64) string {
	if n < 10 {
		return fmt.Sprintf("%.2g", n)
	}
	return Commas(uint64(math.Round(n)))
}
