package trap

import (
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// firstYear is the earliest year of a plausible date in a URL that names a calendar.
const firstYear = 1900

// lastPlainYear is the latest year of a date that only its form shows. A calendar reaches the
// years before it first, and later years are more often numbers of another kind.
const lastPlainYear = 2199

// writtenIn is the year in which this code was written. A clock that shows an earlier year is wrong.
const writtenIn = 2026

// ThisYear returns the year of the time now, from which Limits.LastYear is computed. If this year is
// before writtenIn, the clock is wrong, and ThisYear returns writtenIn. With the year of that clock,
// most dates would be in the future.
func ThisYear(now time.Time) int { return max(now.Year(), writtenIn) }

// dateOutside returns the year of the first date in a path with its query that is after the
// year latest or, if the URL names a calendar, before firstYear. It returns 0 if there is no
// such date. A number counts as a date only if a parameter, a segment of the path, or its form
// says that it is one: TestDates has the forms.
func dateOutside(pathAndQuery string, latest int) int {
	if !mayHaveDate(pathAndQuery, latest) {
		return 0
	}
	path, query, _ := strings.Cut(pathAndQuery, "?")
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	s := dateSearch{latest: latest}
	if year := s.inPath(path); year != 0 {
		return year
	}
	return s.inQuery(query)
}

// mayHaveDate reports whether s has a run of digits that can be a date outside
// firstYear..latest. It is fast, because nearly all URLs have none.
func mayHaveDate(s string, latest int) bool {
	outside := func(year string) bool {
		n, _ := strconv.Atoi(year)
		return n < firstYear || n > latest
	}
	for i := 0; i < len(s); i++ {
		if s[i] == '%' {
			i += 2 // the digits of an escape
			continue
		}
		if !isDigit(s[i]) {
			continue
		}
		run := digitsOf(s[i:])
		switch len(run) {
		case 4, 6, 8, 12, 14:
			if outside(run[:4]) || len(run) == 8 && outside(run[4:]) {
				return true
			}
		case 9, 10, 13:
			if i > 0 && s[i-1] == '-' || outside(strconv.Itoa(yearOfEpoch(run))) {
				return true
			}
		}
		i += len(run) - 1
	}
	return false
}

// dateSearch searches a URL for dates. Its flags are what the words of the path and of the
// values of the query say about the URL.
type dateSearch struct {
	latest   int
	calendar bool // a calendar
	period   bool // a calendar, a month, a week, a day or a date
	events   bool // a list of events
	archive  bool
	hasMonth bool // another parameter is named like a month or a day
}

// learn sets the flags that a text of the URL gives. Words of dates count if the text has no
// others: "month" does, "six-month-loans" does not. onlyDates reports whether it has no others.
func (s *dateSearch) learn(text string) (onlyDates bool) {
	onlyDates = lastWord(text) != ""
	hasCalendar := false
	for word := range words(text) {
		onlyDates = onlyDates && (isYearName(word) || isDateName(word) && !isTime(word))
		hasCalendar = hasCalendar || isCalendar(word)
		s.calendar = s.calendar || hasCalendar && len(word) > len("agenda")
		s.events = s.events || word == "events" || word == "upcoming"
		s.archive = s.archive || word == "archive" || word == "archives"
	}
	s.calendar = s.calendar || onlyDates && hasCalendar
	s.period = s.period || s.calendar || onlyDates
	return onlyDates
}

// inPath returns the year of the first date in a path that is too far away, or 0.
func (s *dateSearch) inPath(path string) int {
	name := "" // the segment before, if it names a date
	for rest := strings.TrimPrefix(path, "/"); rest != ""; {
		segment, _, _ := strings.Cut(rest, "/")
		onlyDates := s.learn(segment)
		if i := strings.IndexAny(segment, "~:="); i >= 0 {
			name, rest, segment = segment[:i], rest[i+1:], segment[i+1:]
		}
		if d := parseDate(rest); d.form != noDate && (s.named(name, d) || s.plain(d, len(segment))) {
			return d.year
		}
		if i := strings.IndexAny(segment, "-_"); i > 0 && s.period && s.plain(parseDate(rest[i+1:]), 0) {
			return parseDate(rest[i+1:]).year // calendar-2032-05.html
		}
		if name = segment; !onlyDates {
			name = ""
		}
		_, rest, _ = strings.Cut(rest, "/")
	}
	whole := strings.Trim(path, "/")
	if d := parseDate(whole); d.form == month && d.separator == '/' && d.length == len("2032/05") && d.length == len(whole) &&
		d.year > s.latest && d.year <= lastPlainYear { // all months of a blog: /2032/05/
		return d.year
	}
	return 0
}

// inQuery returns the year of the first date in a query that is too far away, or 0.
func (s *dateSearch) inQuery(query string) int {
	params := strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
	for i, param := range params {
		if plain, err := url.QueryUnescape(param); err == nil {
			params[i] = plain
		}
		name, value, _ := strings.Cut(params[i], "=")
		if firstDigit := strings.IndexFunc(value, unicode.IsDigit); firstDigit < 0 {
			s.learn(value)
		}
		switch lastWord(name) {
		case "m", "mo", "mon", "month", "monat", "mois", "mes", "mese", "d", "dy", "day", "tag", "jour", "dia":
			s.hasMonth = true
		}
	}
	for _, param := range params {
		name, value, _ := strings.Cut(param, "=")
		if d := parseDate(value); d.form != noDate && s.named(name, d) {
			return d.year
		}
	}
	return 0
}

// plain reports whether d, a date in a path, is too far away, by its form and the words of
// the path. The argument segment is the length of the segment in which d begins.
func (s *dateSearch) plain(d date, segment int) bool {
	if d.year >= firstYear && d.year <= s.latest || d.year < firstYear && !s.calendar {
		return false
	}
	isNear := d.year <= lastPlainYear
	switch d.form {
	case month, reversed:
		isWhole := d.separator == '-' && d.length == segment
		return s.period || isNear && (s.archive || s.events && isWhole)
	case day:
		isWhole := d.separator == '/' || d.separator == '-' && d.length == segment
		return s.period || isNear && isWhole && d.length == len("2032-05-01")
	case compactDay:
		return isNear && (s.period || s.events)
	}
	return false
}

// named reports whether d, the value of a name, is a date that is too far away, and the name
// says that it is a date.
func (s *dateSearch) named(name string, d date) bool {
	isCalendarName, isDate := s.calendar, false
	for word := range words(name) {
		isCalendarName = isCalendarName || isCalendar(word)
		isDate = isDate || isDateName(word)
	}
	if d.year >= firstYear && d.year <= s.latest || d.year < firstYear && !isCalendarName {
		return false
	}
	last := lastWord(name)
	switch d.form {
	case bareYear:
		return isYearName(last) || last == "y" && (s.hasMonth || isCalendarName)
	case compactMonth: // 6 digits can also be a day (251231) or a time of day (204412)
		return isDate && !isTime(last) && d.year < 2100
	case compactDay, epoch:
		return isDate
	case day:
		if isRangeName(last) {
			return true
		}
	}
	return isDate || isYearName(last) || s.calendar && d.year <= lastPlainYear
}

// words returns the words of a text in lower case. A word ends before a character that is no
// letter, and before an upper-case letter that follows a lower-case one.
func words(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start, before := -1, ' '
		for i, r := range text + " " {
			isLetter := unicode.IsLetter(r)
			if start >= 0 && (!isLetter || unicode.IsUpper(r) && unicode.IsLower(before)) {
				if !yield(strings.ToLower(text[start:i])) {
					return
				}
				start = -1
			}
			if isLetter && start < 0 {
				start = i
			}
			before = r
		}
	}
}

func lastWord(text string) (last string) {
	for word := range words(text) {
		last = word
	}
	return last
}

func isYearName(word string) bool {
	switch word {
	case "yr", "yyyy", "jahr", "annee", "année", "ano", "año", "anno", "rok", "vuosi", "år", "aar", "yil":
		return true
	}
	return strings.HasSuffix(word, "year")
}

func isCalendar(word string) bool {
	switch word {
	case "cal", "calendars", "kalender", "calendrier", "calendario", "kalendarz", "agenda":
		return true
	}
	return strings.HasSuffix(word, "calendar")
}

// isDateName reports whether a word names a calendar, a date, or a month, week or day.
func isDateName(word string) bool {
	switch word {
	case "datum", "fecha", "dates", "day", "jour", "giorno", "dia", "month", "monat", "mois", "mes", "mese",
		"week", "woche", "semaine", "semana", "settimana", "yearmonth":
		return true
	case "update", "candidate", "validate":
		return false
	}
	return strings.HasSuffix(word, "date") || isCalendar(word) || isTime(word)
}

// isTime reports whether a word names a point in time, which a number of seconds can be.
func isTime(word string) bool { return word == "time" || word == "timestamp" || word == "ts" }

// isRangeName reports whether a word names an end of a range, which can be a range of dates.
func isRangeName(word string) bool {
	switch word {
	case "d", "dt", "data", "when", "start", "end", "begin", "from", "to", "since", "until", "after", "before":
		return true
	}
	return false
}

// form is how a date is written.
type form uint8

const (
	noDate       form = iota
	bareYear          // 2032
	month             // 2032-05, 2032/5, 2032-W18
	day               // 2032-05-01
	reversed          // 05/2032, 1.5.2032, 5/1/2032
	compactMonth      // 203205
	compactDay        // 20320501, 01052032, 20320501120000
	epoch             // seconds or milliseconds since 1970
)

// date is a date at the beginning of a text.
type date struct {
	form      form
	year      int
	separator byte // of month and day
	length    int  // in bytes
}

// parseDate returns the date at the beginning of a text, in the longest form that is valid.
func parseDate(text string) date {
	if rest, isNegative := strings.CutPrefix(text, "-"); isNegative {
		if n := digitsOf(rest); len(n) >= 9 && len(n) <= 13 {
			return date{form: epoch, year: 1970 - (yearOfEpoch(n) - 1970) - 1}
		}
		return date{}
	}
	first := digitsOf(text)
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	switch len(first) {
	case 4:
		return parseYear(text, number(first))
	case 1, 2:
		second, year := "", ""
		if rest, separator := after(text, first); separator != 0 {
			second = digitsOf(rest)
			if more, same := after(rest, second); same == separator {
				year = digitsOf(more)
			}
		}
		if len(second) == 4 && isMonth(first) {
			return date{form: reversed, year: number(second)}
		}
		if len(year) == 4 && isDay(first) && isDay(second) && (isMonth(first) || isMonth(second)) {
			return date{form: reversed, year: number(year)}
		}
	case 6:
		if isMonth(first[4:]) {
			return date{form: compactMonth, year: number(first[:4])}
		}
	case 8, 12, 14:
		if isMonth(first[4:6]) && isDay(first[6:8]) {
			return date{form: compactDay, year: number(first[:4])}
		}
		if len(first) == 8 && isDay(first[:2]) && isDay(first[2:4]) && (isMonth(first[:2]) || isMonth(first[2:4])) {
			return date{form: compactDay, year: number(first[4:])}
		}
	case 10, 13:
		return date{form: epoch, year: yearOfEpoch(first)}
	}
	return date{}
}

// parseYear returns the date at the beginning of a text that begins with a year.
func parseYear(text string, year int) date {
	d := date{form: bareYear, year: year, length: 4}
	rest, separator := after(text, text[:4])
	if separator == 0 {
		rest = text[4:]
	}
	if week, isWeek := strings.CutPrefix(rest, "W"); isWeek && len(digitsOf(week)) == 2 {
		return date{form: month, year: year, separator: separator, length: len(text) - len(week) + 2}
	}
	second := digitsOf(rest)
	if separator == 0 || !isMonth(second) {
		return d
	}
	d = date{form: month, year: year, separator: separator, length: 5 + len(second)}
	if more, same := after(rest, second); same == separator && isDay(digitsOf(more)) {
		d.form, d.length = day, d.length+1+len(digitsOf(more))
	}
	return d
}

// after returns what follows the separator behind a prefix of text. The separator is 0 if there
// is none.
func after(text, prefix string) (rest string, separator byte) {
	rest = text[len(prefix):]
	if rest == "" || strings.IndexByte("-/._ ", rest[0]) < 0 {
		return "", 0
	}
	return rest[1:], rest[0]
}

// isMonth and isDay report whether one or two digits are a month or a day of a month.
func isMonth(s string) bool { n, _ := strconv.Atoi(s); return len(s) <= 2 && n >= 1 && n <= 12 }
func isDay(s string) bool   { n, _ := strconv.Atoi(s); return len(s) <= 2 && n >= 1 && n <= 31 }

// yearOfEpoch returns the year of a time that is given in seconds since 1970 or, with more than
// ten digits, in milliseconds.
func yearOfEpoch(digits string) int {
	n, _ := strconv.ParseInt(digits, 10, 64)
	if len(digits) > 10 {
		n /= 1000
	}
	return time.Unix(n, 0).UTC().Year()
}

// digitsOf returns the digits at the beginning of a text.
func digitsOf(s string) string {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:n]
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
