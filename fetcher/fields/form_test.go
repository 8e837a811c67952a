package fields

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseNumbers(t *testing.T) {
	for _, c := range []struct{ text, sign, want string }{
		{"19.90", "", "19.90"}, {"19,90", "", "19.90"}, {"19,9", "", "19.9"}, {"1,299", "", "1299"}, {"1.299", "", "1.299"},
		{"1.299", ",", "1299"}, {"1,299", ",", "1.299"}, {"1,299", ".", "1299"}, {"1.299,00 €", "", "1299.00"}, {"$1,299.00", "", "1299.00"},
		{"1.299.000", "", "1299000"}, {"1,299,000", "", "1299000"}, {"1 299,50", "", "1299.50"}, {"1 299 000", "", "1299000"},
		{"1'299.50", "", "1299.50"}, {"1\u202f299,5", "", "1299.5"}, {"from 12 of 500", "", "12"}, {"5 2026", "", "5"}, {"2 026", "", "2026"},
		{"-5", "", "-5"}, {"−$ 5.5", "", "-5.5"}, {"- 5", "", "-5"}, {"ISBN-978", "", "978"}, {"4-5", "", "4"}, {"007", "", "7"}, {"0.50", "", "0.50"}, {".99", "", "0.99"},
		{"$.99", "", "0.99"}, {"No.5", "", "5"}, {"5.", "", "5"}, {"5,", "", "5"}, {"5..5", "", "5"}, {"1,29,30", "", "12930"}, {"0", "", "0"}, {"000", "", "0"},
		{"", "", ""}, {"free", "", ""}, {"٣", "", ""}, {"1\xff299", "", "1"}, {strings.Repeat("9", 40), "", strings.Repeat("9", 40)}, {strings.Repeat("9", 41), "", ""},
		{"Preis: 1.299,-", "", "1.299"}, {"12.345.678,9", "", "12345678.9"}, {"12,345,678.9", "", "12345678.9"},
	} {
		got, ok := parseNumber(c.text, c.sign)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("parseNumber(%q, %q) = %q, %v, want %q", c.text, c.sign, got, ok, c.want)
		}
	}
}

func TestParseDates(t *testing.T) {
	for _, c := range []struct{ text, order, want string }{
		{"2026-01-02", "", "2026-01-02"}, {"2026-01-02T15:04:05Z", "", "2026-01-02T15:04:05Z"}, {"2026-01-02T15:04:05.5+0130", "", "2026-01-02T13:34:05.5Z"},
		{"2026-01-02T15:04+01:00", "", "2026-01-02T14:04:00Z"}, {"2026-01-02T15:04:05", "", "2026-01-02"}, {"2026-01-02 15:04", "", "2026-01-02"},
		{"2026-01-02 15:04:05+02", "", "2026-01-02T13:04:05Z"}, {"2026-01-02T15:04:05.5-03", "", "2026-01-02T18:04:05.5Z"},
		{"2026-01-02 15:04:05 +02:00", "", "2026-01-02T13:04:05Z"}, {"2026-01-02 15:04Z", "", "2026-01-02T15:04:00Z"},
		{"Fri, 02 Jan 2026 15:04:05 GMT", "", "2026-01-02T15:04:05Z"}, {"Fri, 02 Jan 2026 15:04:05 -0500", "", "2026-01-02T20:04:05Z"},
		{"Fri, 02 Jan 2026 15:04:05 EST", "", "2026-01-02"},
		{"2 January 2026", "", "2026-01-02"}, {"January 2nd, 2026", "", "2026-01-02"}, {"Posted on Sept. 3, 2026 at 5 pm", "", "2026-09-03"}, {"3 SEP 2026", "", "2026-09-03"},
		{"02.01.2026", "", "2026-01-02"}, {"2. 1. 2026", "", "2026-01-02"}, {"2026/1/2", "", "2026-01-02"}, {"13/1/2026", "", "2026-01-13"}, {"1/13/2026", "", "2026-01-13"},
		{"1/2/2026", "", ""}, {"1/2/2026", "dmy", "2026-02-01"}, {"1/2/2026", "mdy", "2026-01-02"}, {"5/5/2026", "", "2026-05-05"},
		{"30 February 2026", "", ""}, {"2026-02-30", "", ""}, {"31.12.26", "", ""}, {"yesterday", "", ""}, {"", "", ""}, {"May 2026", "", ""}, {strings.Repeat("x", 300), "", ""},
		{"1-2.2026", "", ""}, {"v1.2.2026", "", "2026-02-01"}, {"in May 5 people", "", ""},
	} {
		got, ok := parseDate(c.text, c.order)
		if got != c.want && ok || ok != (c.want != "") {
			t.Errorf("parseDate(%q, %q) = %q, %v, want %q", c.text, c.order, got, ok, c.want)
		}
	}
}

// FuzzForms: whatever the text is, nothing panics, a number that parseNumber finds is a JSON
// number, and encode returns JSON of a bounded length.
func FuzzForms(f *testing.F) {
	for _, text := range []string{"1.299,00 €", "−$.99", "1 2026", "2 Jan 2026", "1/2/2026", "http://[", "\xff\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, sign := range []string{"", ".", ","} {
			if n, ok := parseNumber(text, sign); ok && !json.Valid([]byte(n)) {
				t.Errorf("parseNumber(%q, %q) = %q, want a JSON number", text, sign, n)
			}
		}
		for _, k := range []kind{plain, raw, date, reference} {
			if shaped, ok := (form{kind: k}).shape(text, "https://a.test/", false); ok {
				if value, _ := encode(shaped, 64); !json.Valid(value) || len(value) > 66 {
					t.Errorf("%q in the form %v is encoded as %q, want JSON of at most 66 bytes", text, k, value)
				}
			}
		}
	})
}

// FuzzCheck: no text of a field makes the parser panic, and the place of a
// fault lies within the text.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{"a=b", "a[]=.b@href | url", "a=jsonld:A.b || og:c|number=,|required", "a=p:not([x=')'])@text", "a=:nth-child(2n+", "ä=\\"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := Check(text)
		if fault, is := errors.AsType[*SyntaxError](err); err != nil && (!is || fault.At < 1 || fault.At > 1+utf8.RuneCountInString(text)) {
			t.Errorf("Check(%q) = %v, want a SyntaxError with a place within the text", text, err)
		}
	})
}
