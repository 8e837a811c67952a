package trap

import (
	"strings"
	"time"
)

// firstYear is the earliest whose dates are taken for real.
const firstYear = 1900

// writtenIn is when this was written: no clock that works shows an earlier year.
const writtenIn = 2026

// ThisYear returns the year of now for Limits.Year. One that can only be a
// clock's error is put right, or half the web would lie in the future.
func ThisYear(now time.Time) int { return max(now.Year(), writtenIn) }

// dateOutside returns the first year in s that reads as that of a date and lies
// outside from..to, 0 if there is none.
//
// A date is four digits, neither preceded nor followed by another, that begin a
// year, a separator and a month of two digits ("2031/02", "2031-02"), or four
// digits after "year=" or "y=".
func dateOutside(s string, from, to int) int {
	digits := 0 // in a row, up to here
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
		year := number(s[end-4 : end])
		if year >= from && year <= to {
			continue
		}
		if named(s[:end-4]) || month(s[end:]) {
			return year
		}
	}
	return 0
}

// named reports whether what stands before a number calls it a year.
func named(before string) bool {
	for _, name := range [...]string{"year=", "y=", "jahr=", "annee="} {
		if rest, ok := strings.CutSuffix(before, name); ok && (rest == "" || strings.IndexByte("?&;/", rest[len(rest)-1]) >= 0) {
			return true
		}
	}
	return false
}

// month reports whether a separator and a month of two digits, and no third
// one, follow a year.
func month(after string) bool {
	if len(after) < 3 || strings.IndexByte("/-_.", after[0]) < 0 || !isDigit(after[1]) || !isDigit(after[2]) {
		return false
	}
	m := number(after[1:3])
	return m >= 1 && m <= 12 && (len(after) == 3 || !isDigit(after[3]))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func number(digits string) (n int) {
	for _, c := range []byte(digits) {
		n = n*10 + int(c-'0')
	}
	return n
}
