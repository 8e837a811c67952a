package fields

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/andybalholm/cascadia"
)

// SyntaxError is a fault in the text of a field.
type SyntaxError struct {
	Field   string // the whole text
	At      int    // the character of Field, from 1, that has the fault
	Problem string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("field %q, character %d: %s", e.Field, e.At, e.Problem)
}

// field is one compiled field.
type field struct {
	name     string
	all      bool // an array of all values; otherwise the first value
	required bool
	form     form
	sources  []source // the first that has a value is used
}

// source finds the values of a field in one way, such as by a selector.
type source struct {
	text string // as given
	from finder
	url  bool // the values are references
}

// fieldName matches the name of a field.
var fieldName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// urlAttributes are the attributes whose value is one reference, which becomes an absolute
// URL.
var urlAttributes = map[string]bool{
	"action": true, "cite": true, "data": true, "formaction": true, "href": true, "poster": true, "src": true,
}

// parser parses the text of one field.
type parser struct{ text string }

// part is a piece of a parser's text without the white space around it.
type part struct {
	text   string
	offset int // where it begins, in bytes
}

// fault returns a SyntaxError for the fault at p.text[offset].
func (p *parser) fault(offset int, format string, args ...any) error {
	before := cut(p.text, offset) // whole characters
	return &SyntaxError{p.text, 1 + utf8.RuneCountInString(before), fmt.Sprintf(format, args...)}
}

// trim returns p.text[from:to], without the white space around it, as a part.
func (p *parser) trim(from, to int) part {
	text := p.text[from:to]
	left := strings.TrimLeft(text, " \t\r\n")
	return part{strings.TrimRight(left, " \t\r\n"), from + len(text) - len(left)}
}

// parse compiles one field: NAME[]=SOURCE || SOURCE | OPTION | OPTION.
func parse(text string) (f field, err error) {
	p := &parser{text}
	equals := strings.IndexByte(text, '=')
	if equals < 0 {
		return f, p.fault(len(text), "want NAME=SELECTOR, such as price=.price")
	}
	name := p.trim(0, equals)
	f.name, f.all = strings.CutSuffix(name.text, "[]")
	if !fieldName.MatchString(f.name) {
		return f, p.fault(name.offset, "want a name of up to 64 letters, digits, dots, dashes and underscores, [] behind it for all values")
	}
	sources, options, err := p.split(equals + 1)
	if err != nil {
		return f, err
	}
	f.form.kind = plain
	for _, option := range options {
		if err := p.option(&f, option); err != nil {
			return f, err
		}
	}
	for _, s := range sources {
		compiled, err := p.source(s)
		if err != nil {
			return f, err
		}
		f.sources = append(f.sources, compiled)
	}
	return f, nil
}

// split splits p.text[from:] into sources (separated by ||) and options (separated by |).
// It does not split within brackets and quotes.
func (p *parser) split(from int) (sources, options []part, err error) {
	begin, list := from, &sources
	var open []byte // the closing signs of the open brackets and quotes
	for i := from; i < len(p.text); i++ {
		c := p.text[i]
		quoted := len(open) > 0 && (open[len(open)-1] == '"' || open[len(open)-1] == '\'')
		switch {
		case c == '\\':
			i++
		case len(open) > 0 && c == open[len(open)-1]:
			open = open[:len(open)-1]
		case quoted:
		case c == '"' || c == '\'':
			open = append(open, c)
		case c == '[':
			open = append(open, ']')
		case c == '(':
			open = append(open, ')')
		case c == '|' && len(open) == 0:
			*list = append(*list, p.trim(begin, i))
			if strings.HasPrefix(p.text[i:], "||") {
				if list != &sources {
					return nil, nil, p.fault(i, "|| stands before the first |, between sources")
				}
				i++
			} else {
				list = &options
			}
			begin = i + 1
		}
	}
	*list = append(*list, p.trim(min(begin, len(p.text)), len(p.text)))
	return sources, options, nil
}

// option parses the text after a |.
func (p *parser) option(f *field, option part) error {
	name, argument, _ := strings.Cut(option.text, "=")
	switch {
	case option.text == "required":
		f.required = true
		return nil
	case f.form.kind != plain:
		return p.fault(option.offset, "a field has one of the forms raw, number, date and url")
	case option.text == "raw":
		f.form.kind = raw
		return nil
	case option.text == "url":
		f.form.kind = reference
		return nil
	case name == "number" && (option.text == name || argument == "." || argument == ","):
		f.form = form{kind: number, argument: argument}
		return nil
	case name == "date" && (option.text == name || argument == "dmy" || argument == "mdy" || argument == "ymd"):
		f.form = form{kind: date, argument: argument}
		return nil
	}
	return p.fault(option.offset, "unknown option %q, want one of required, raw, number, number=. number=, date, date=dmy date=mdy date=ymd, url", option.text)
}

// source compiles one source.
func (p *parser) source(s part) (source, error) {
	if s.text == "" {
		return source{}, p.fault(s.offset, "want a CSS selector, or one of meta:NAME, og:NAME, jsonld:PATH, microdata:PATH")
	}
	for _, kind := range structured {
		rest, is := strings.CutPrefix(s.text, kind.prefix)
		if !is {
			continue
		}
		from, err := kind.compile(rest)
		if err != nil {
			return source{}, p.fault(s.offset+len(kind.prefix), "%v", err)
		}
		return source{text: s.text, from: from}, nil
	}
	return p.selector(s)
}

// selector compiles SELECTOR or SELECTOR@ATTRIBUTE.
func (p *parser) selector(s part) (source, error) {
	selector, taken := s.text, "text"
	if at := lastMark(s.text); at >= 0 {
		selector = strings.TrimSpace(s.text[:at])
		taken = strings.ToLower(strings.TrimSpace(s.text[at+1:]))
		if taken == "" || strings.ContainsAny(taken, " \t\r\n\"'<>/=") {
			return source{}, p.fault(s.offset+at+1, "want text, html or the name of an attribute behind the @")
		}
	}
	compiled, err := compileSelector(selector)
	if err != nil {
		return source{}, p.fault(s.offset+faultOf(selector, err), "selector %q: %v", selector, reason(err))
	}
	return source{
		text: s.text, from: &selected{match: compiled, taken: taken}, url: urlAttributes[taken],
	}, nil
}

// lastMark returns the index of the last @, or -1 if there is none. It also returns -1 if a
// bracket or quote follows the @, because the @ is then part of the selector.
func lastMark(text string) int {
	at := strings.LastIndexByte(text, '@')
	if at >= 0 && strings.ContainsAny(text[at:], `])"'`) {
		return -1
	}
	return at
}

// leftOver matches the error of cascadia for text after a valid selector.
var leftOver = regexp.MustCompile(`^parsing .*: (\d+) bytes left over$`)

// faultOf returns the index of the byte at which a selector is wrong, or the length of the
// selector if it ends too early. Some errors of cascadia contain this index. For other errors,
// faultOf finds the shortest prefix of the selector that has the same fault, and returns the
// index of the last byte of this prefix.
func faultOf(selector string, fault error) int {
	if found := leftOver.FindStringSubmatch(fault.Error()); found != nil {
		var bytes int
		_, _ = fmt.Sscan(found[1], &bytes) // it is a number
		return len(selector) - bytes
	}
	if strings.Contains(fault.Error(), "EOF") {
		return len(selector)
	}
	n := 1
	for ; n < len(selector); n++ {
		if _, err := cascadia.ParseGroup(selector[:n]); err != nil && err.Error() == fault.Error() {
			break
		}
	}
	return n - 1
}

// reason returns the fault of a selector without its position.
func reason(fault error) error {
	if leftOver.MatchString(fault.Error()) {
		return errors.New("this is not part of a selector")
	}
	return fault
}
