package fields

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nlnwa/whatwg-url/url"
)

// form converts the text that a source found into a value.
type form struct {
	kind     kind
	argument string // for a number: its decimal sign; for a date: the order of day, month and year
}

// kind is one of the forms of a value.
type kind uint8

const (
	plain     kind = iota // text without leading and trailing white space, and with single spaces
	raw                   // text as it is in the document
	number                // a JSON number
	date                  // 2006-01-02, or RFC 3339 if the page has the time and its zone
	reference             // an absolute URL
)

// shape converts text to the form. base is the base URL of the page. ok is false if text
// does not have the form. A number is returned as the text of a JSON number.
func (f form) shape(text, base string, isURL bool) (shaped string, ok bool) {
	switch k := f.kind; {
	case k == raw:
		return text, text != ""
	case k == number:
		return parseNumber(text, f.argument)
	case k == date:
		return parseDate(text, f.argument)
	case k == reference || isURL:
		text = strings.TrimSpace(text)
		if text == "" { // ParseRef would return the base
			return "", false
		}
		absolute, err := url.ParseRef(base, text)
		if err != nil {
			return "", false
		}
		return absolute.Href(false), true
	}
	text = collapse(text)
	return text, text != ""
}

// whole reports whether values must not be cut, because the beginning of a number, date or
// URL is useless.
func (f form) whole(isURL bool) bool { return f.kind > raw || f.kind == plain && isURL }

// encode returns text as a JSON string of at most room bytes plus the quotes. If
// text is too long, encode cuts it.
func encode(text string, room int) (value []byte, short bool) {
	for n := room; ; n = n * room / (len(value) + 1) {
		begin := cut(text, n)
		value, _ = json.Marshal(begin) // encoding a string does not fail
		if short = len(begin) < len(text); len(value) <= room+2 {
			return value, short
		}
	}
}

// cut returns the beginning of text: at most n bytes, which do not end within a
// character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// collapse trims text and replaces each run of white space by one space. It removes NUL,
// which databases refuse.
func collapse(text string) string {
	var b strings.Builder
	b.Grow(min(len(text), 4<<10))
	space := false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case r == 0:
			continue
		case space:
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

// maxDigits is the largest number of digits of a number. Longer numbers are not prices.
const maxDigits = 40

// parseNumber returns the first number in text as JSON. sign is the decimal sign, "." or
// ",". If sign is empty, it is guessed. If the number has both points and commas, the last of
// them is the decimal sign. Otherwise a single point is the decimal sign. A single comma is the
// decimal sign too, unless exactly three digits follow it.
func parseNumber(text, sign string) (number string, ok bool) {
	start := strings.IndexAny(text, "0123456789")
	if start < 0 {
		return "", false
	}
	before, body := text[:start], numeral(text[start:])
	if rest, point := strings.CutSuffix(before, "."); point && sign != "," && !strings.ContainsAny(body, ".,") && !endsWord(rest) {
		before, body = rest, "0."+body // .99
	}
	if sign == "" {
		sign = decimalSign(body)
	}
	var b strings.Builder
	if negative(before) {
		b.WriteByte('-')
	}
	whole, fraction, _ := strings.Cut(body, sign)
	whole, fraction = digits(whole), digits(fraction)
	if len(whole)+len(fraction) > maxDigits {
		return "", false
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	b.WriteString(whole)
	if fraction != "" {
		b.WriteString("." + fraction)
	}
	return b.String(), true
}

// negative reports whether prefix, the text before a number, ends with a minus sign: "-5"
// is negative, "4-5" is not. A currency sign may follow the minus sign: "−$5".
func negative(prefix string) bool {
	prefix = strings.TrimRightFunc(prefix, func(r rune) bool { return unicode.Is(unicode.Sc, r) || unicode.IsSpace(r) })
	rest, minus := strings.CutSuffix(prefix, "-")
	if !minus {
		rest, minus = strings.CutSuffix(prefix, "−")
	}
	return minus && !endsWord(rest)
}

// endsWord reports whether text ends with a letter or a digit.
func endsWord(text string) bool {
	last, _ := utf8.DecodeLastRuneInString(text)
	return unicode.IsLetter(last) || unicode.IsDigit(last)
}

// numeral returns the digits at the beginning of text, with the signs between them. A
// space or an apostrophe counts as a sign only before three digits, as in "1 299".
func numeral(text string) string {
	end := 0
	for i, r := range text {
		if '0' <= r && r <= '9' {
			end = i + 1
			continue
		}
		if end != i || r == utf8.RuneError {
			break
		}
		rest := text[i+utf8.RuneLen(r):]
		group := r == '\'' || r == '’' || r == ' ' || r == '\u00a0' || r == '\u202f' || r == '\u2009'
		n := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if !(group && n == 3 || (r == '.' || r == ',') && n > 0) {
			break
		}
	}
	return text[:end]
}

// decimalSign returns the decimal sign of a numeral that has points or commas.
func decimalSign(numeral string) string {
	point, comma := strings.LastIndexByte(numeral, '.'), strings.LastIndexByte(numeral, ',')
	switch {
	case point >= 0 && comma > point:
		return ","
	case comma >= 0 && point > comma:
		return "."
	case strings.Count(numeral, ",") == 1 && len(numeral)-comma != 1+3:
		return ","
	case strings.Count(numeral, ".") == 1:
		return "."
	}
	return "none" // there is no decimal sign: all commas and points stand between groups of digits
}

// digits returns the digits of text.
func digits(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, text)
}
