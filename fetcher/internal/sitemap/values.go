package sitemap

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// trim removes white space and a byte order mark from both ends.
func trim(s string) string { return strings.Trim(s, "\ufeff \t\r\n\f") }

// parseDate parses a date in the W3C format of sitemaps. It also takes a space instead of the T, and a time without a zone, which it takes
// as UTC. The date is between first and until.
func parseDate(text string) (first, until time.Time, is bool) {
	for _, form := range []struct {
		layout              string
		years, months, days int
		length              time.Duration
	}{
		{"2006-01-02", 0, 0, 1, 0}, {time.RFC3339, 0, 0, 0, time.Second}, {"2006-01-02T15:04Z07:00", 0, 0, 0, time.Minute},
		{"2006-01-02T15:04:05", 0, 0, 0, time.Second}, {"2006-01-02 15:04:05", 0, 0, 0, time.Second}, {"2006-01-02T15:04:05Z0700", 0, 0, 0, time.Second},
		{"2006-01-02 15:04:05Z07:00", 0, 0, 0, time.Second}, {"2006-01-02 15:04", 0, 0, 0, time.Minute}, {"2006-01", 0, 1, 0, 0}, {"2006", 1, 0, 0, 0},
	} {
		if first, err := time.Parse(form.layout, text); err == nil {
			first = first.UTC()
			return first, first.AddDate(form.years, form.months, form.days).Add(form.length), true
		}
	}
	return first, until, false
}

// isURL reports whether a line of a text sitemap is an entry.
func isURL(line string) bool {
	for _, scheme := range []string{"http://", "https://"} {
		if len(line) > len(scheme) && strings.EqualFold(line[:len(scheme)], scheme) {
			return true
		}
	}
	return false
}

// local returns a tag's name without its prefix, because a file may choose any prefix for
// the namespace of sitemaps.
func local(tag []byte) string {
	return string(tag[bytes.LastIndexByte(tag, ':')+1:])
}

// appendUnescaped appends text to b and replaces the five entities of XML and numeric
// ones. Other ampersands stay: HTML would turn ?a&copy=1 into ?a©=1.
func appendUnescaped(b, text []byte) []byte {
	for {
		amp := bytes.IndexByte(text, '&')
		if amp < 0 {
			return append(b, text...)
		}
		b = append(b, text[:amp]...)
		text = text[amp:]
		end := bytes.IndexByte(text[:min(len(text), len("&#x10ffff;"))], ';')
		char, known := rune(0), false
		if end > 0 {
			char, known = entity(string(text[1:end]))
		}
		if known {
			b, text = utf8.AppendRune(b, char), text[end+1:]
		} else {
			b, text = append(b, '&'), text[1:]
		}
	}
}

// entity returns the character that a name between & and ; stands for.
func entity(name string) (char rune, known bool) {
	switch name {
	case "amp":
		return '&', true
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "quot":
		return '"', true
	case "apos":
		return '\'', true
	}
	digits, numeric := strings.CutPrefix(name, "#")
	if !numeric {
		return 0, false
	}
	base := 10
	if hex, is := strings.CutPrefix(strings.ToLower(digits), "x"); is {
		digits, base = hex, 16
	}
	code, err := strconv.ParseUint(digits, base, 21)
	return rune(code), err == nil && utf8.ValidRune(rune(code))
}
