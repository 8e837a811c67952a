package fields

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// moments are layouts of times with the zone as an offset. universal are layouts of times
// with the zone GMT or UTC. isoDay matches text that begins with an ISO date.
var (
	moments = []string{
		time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05.999999999Z0700", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z0700",
		"2006-01-02T15:04:05Z07", "2006-01-02 15:04:05Z07", "2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04Z07:00",
		time.RFC1123Z, "Mon, 2 Jan 2006 15:04:05 -0700", "2 Jan 2006 15:04:05 -0700",
	}
	universal = []string{time.RFC1123, "Mon, 2 Jan 2006 15:04:05 MST", "2006-01-02 15:04:05 MST"}
	isoDay    = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}\b`)
)

// parseDate returns the date in text. If text has a time with its zone, the result is RFC
// 3339 in UTC. Otherwise it is the day as 2006-01-02. The parameter order says in which
// order a date made of numbers has its day, month and year, such as "dmy". If order is
// empty, a date whose order is not clear is refused.
func parseDate(text, order string) (found string, ok bool) {
	if text = collapse(text); len(text) > 200 {
		return "", false
	}
	for _, layout := range moments {
		if t, err := time.Parse(layout, text); err == nil {
			return moment(t)
		}
	}
	for _, layout := range universal { // only these two named zones are unambiguous
		if t, err := time.Parse(layout, text); err == nil && (strings.HasSuffix(text, "GMT") || strings.HasSuffix(text, "UTC")) {
			return moment(t)
		}
	}
	if isoDay.MatchString(text) {
		return day(text[:4], text[5:7], text[8:10])
	}
	return looseDate(text, order)
}

func moment(t time.Time) (string, bool) {
	if t.Year() < 0 || t.Year() > 9999 {
		return "", false
	}
	return t.UTC().Format(time.RFC3339Nano), true
}

// day returns a date as 2006-01-02. ok is false if the calendar does not have this date.
func day(year, month, day string) (string, bool) {
	pad := func(s string) string { return strings.Repeat("0", max(0, 2-len(s))) + s }
	text := year + "-" + pad(month) + "-" + pad(day)
	_, err := time.Parse(time.DateOnly, text)
	return text, err == nil
}

// looseDate finds a date in the forms that people write, such as "2 January 2006", "Jan.
// 2nd, 2006", "02.01.2006" and "1/2/2006".
func looseDate(text, order string) (string, bool) {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, word := range words {
		month, ok := monthOf(word)
		if !ok {
			continue
		}
		for _, near := range [][2]int{{i - 1, i + 1}, {i + 1, i + 2}} { // 2 Jan 2006, Jan 2 2006
			if near[0] < 0 || near[0] >= len(words) || near[1] >= len(words) {
				continue
			}
			if d, y := ordinal(words[near[0]]), words[near[1]]; d != "" && len(y) == 4 && digits(y) == y {
				return day(y, strconv.Itoa(month), d)
			}
		}
	}
	return numericDate(text, order)
}

// monthOf returns the number of the month whose English name is word. The first three
// letters of the name are enough.
func monthOf(word string) (int, bool) {
	word = strings.ToLower(word)
	for m := time.January; m <= time.December; m++ {
		name := strings.ToLower(m.String())
		if word == name || word == name[:3] || word == "sept" && m == time.September {
			return int(m), true
		}
	}
	return 0, false
}

// ordinal returns the digits of a word such as 2, 02 or 2nd. It returns "" for any other
// word.
func ordinal(word string) string {
	word = strings.ToLower(word)
	for _, suffix := range []string{"st", "nd", "rd", "th"} {
		word = strings.TrimSuffix(word, suffix)
	}
	if len(word) > 2 || digits(word) != word {
		return ""
	}
	return word
}

// threeNumbers matches a date made of numbers.
var threeNumbers = regexp.MustCompile(`(?:^|\D)(\d{1,4})\s*([./-])\s*(\d{1,2})\s*([./-])\s*(\d{1,4})(?:\D|$)`)

// numericDate finds a date made of numbers. If order is empty, a date with points counts as
// dmy, and any other date is found only if the order of its numbers is clear.
func numericDate(text, order string) (string, bool) {
	found := threeNumbers.FindStringSubmatch(text)
	if found == nil || found[2] != found[4] {
		return "", false
	}
	n := []string{found[1], found[3], found[5]}
	above := func(s string, most int) bool { v, _ := strconv.Atoi(s); return v > most }
	switch {
	case len(n[0]) == 4:
		order = "ymd"
	case order != "":
	case found[2] == ".", above(n[0], 12):
		order = "dmy"
	case above(n[1], 12), n[0] == n[1]:
		order = "mdy"
	default:
		return "", false
	}
	at := func(part byte) string { return n[strings.IndexByte(order, part)] }
	year := at('y')
	if len(year) != 4 || slices.ContainsFunc([]string{at('m'), at('d')}, func(s string) bool { return len(s) > 2 }) {
		return "", false
	}
	return day(year, at('m'), at('d'))
}
