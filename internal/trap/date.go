package trap

import (
	"strconv"
	"strings"
	"time"
)

// firstYear is the earliest year of a plausible date.
const firstYear = 1900

// writtenIn is the year in which this code was written. A clock that shows an earlier year is wrong.
const writtenIn = 2026

// ThisYear returns a value for Limits.Year: the year of the time now. If this year is before
// writtenIn, the clock is wrong, and ThisYear returns writtenIn. With the year of that clock,
// most dates would be in the future.
func ThisYear(now time.Time) int { return max(now.Year(), writtenIn) }

// dateOutside returns the first year in s that is part of a date and is not in earliest..latest, or 0.
//
// A year has four digits, with no other digit before or after them. It is part of a date if
// a separator and a month of two digits follow it ("2031/02", "2031-02"), or if it follows
// a name such as "year=" or "y=".
func dateOutside(s string, earliest, latest int) int {
	digits := 0 // number of digits in a row that end at i
	for i := range len(s) {
		if !isDigit(s[i]) {
			digits = 0
			continue
		}
		digits++
		end := i + 1
		if digits != 4 || end < len(s) && isDigit(s[end]) {
			continue
		}
		year, _ := strconv.Atoi(s[end-4 : end])
		if year >= earliest && year <= latest {
			continue
		}
		if hasYearName(s[:end-4]) || startsWithMonth(s[end:]) {
			return year
		}
	}
	return 0
}

// hasYearName reports whether the text before a number ends with a name for a year.
func hasYearName(before string) bool {
	for _, name := range [...]string{"year=", "y=", "jahr=", "annee="} {
		if rest, ok := strings.CutSuffix(before, name); ok && (rest == "" || strings.IndexByte("?&;/", rest[len(rest)-1]) >= 0) {
			return true
		}
	}
	return false
}

// startsWithMonth reports whether rest, the text after a year, begins with a separator
// and a month of exactly two digits.
func startsWithMonth(rest string) bool {
	if len(rest) < 3 || strings.IndexByte("/-_.", rest[0]) < 0 || !isDigit(rest[1]) || !isDigit(rest[2]) {
		return false
	}
	m, _ := strconv.Atoi(rest[1:3])
	return m >= 1 && m <= 12 && (len(rest) == 3 || !isDigit(rest[3]))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
