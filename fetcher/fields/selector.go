package fields

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
)

// compileSelector compiles a CSS selector. Which selectors are valid, and what they mean, is
// decided by package cascadia. This function only finds the parts of a valid selector: cascadia
// compiles each simple selector, and the conditions of this package put them together.
func compileSelector(text string) (condition, error) {
	if _, err := cascadia.ParseGroup(text); err != nil {
		return nil, err
	}
	s := &selectorText{text: text}
	compiled := s.list()
	if s.fault == nil && s.at != len(text) {
		s.fault = errUnknown
	}
	return compiled, s.fault
}

// errUnknown is an error for a selector that cascadia accepts and this package does not know.
var errUnknown = errors.New("this selector is not supported")

// selectorText is a valid selector that is being compiled.
type selectorText struct {
	text  string
	at    int   // the index of the next byte
	fault error // of a simple selector
}

// next returns the next byte, or 0 at the end.
func (s *selectorText) next() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// space skips white space and comments, and reports whether there was any.
func (s *selectorText) space() bool {
	from := s.at
	for {
		rest := strings.TrimLeft(s.text[s.at:], " \t\r\n\f")
		s.at = len(s.text) - len(rest)
		if !strings.HasPrefix(rest, "/*") {
			return s.at > from
		}
		end := strings.Index(rest[2:], "*/")
		if end < 0 {
			return s.at > from
		}
		s.at += 2 + end + 2
	}
}

// list compiles selectors that are separated by commas.
func (s *selectorText) list() condition {
	list := anyOf{s.complex()}
	for s.next() == ',' {
		s.at++
		list = append(list, s.complex())
	}
	if len(list) == 1 {
		return list[0]
	}
	return list
}

// complex compiles sequences of simple selectors, with combinators between them.
func (s *selectorText) complex() condition {
	s.space()
	left := s.sequence()
	for {
		combinator := byte(0)
		if s.space() {
			combinator = ' '
		}
		switch c := s.next(); c {
		case '>', '+', '~':
			combinator = c
			s.at++
			s.space()
		case ',', ')', 0:
			return left
		}
		if combinator == 0 || s.fault != nil {
			return left
		}
		right := s.sequence()
		switch combinator {
		case ' ':
			left = &behind{left, right, parentOf}
		case '~':
			left = &behind{left, right, previousOf}
		case '>':
			left = &before{left, right, parentOf}
		case '+':
			left = &before{left, right, elementBefore}
		}
	}
}

// sequence compiles simple selectors that all apply to one element.
func (s *selectorText) sequence() condition {
	var all allOf
	switch c := s.next(); {
	case c == '*':
		s.at++
		if strings.HasPrefix(s.text[s.at:], "|*") {
			s.at += len("|*")
		}
	case strings.IndexByte("#.[:", c) < 0:
		from := s.at
		s.name()
		all = append(all, s.simple(from, 0))
	}
	for s.fault == nil {
		from := s.at
		switch s.next() {
		case '#', '.':
			s.at++
			s.name()
			all = append(all, s.simple(from, 0))
		case '[':
			all = append(all, s.attribute())
		case ':':
			all = append(all, s.pseudoClass())
		default:
			if len(all) == 1 {
				return all[0]
			}
			return all
		}
	}
	return all
}

// simple compiles the simple selector that begins at from and ends here.
func (s *selectorText) simple(from, steps int) condition {
	compiled, err := cascadia.Parse(s.text[from:s.at])
	if err != nil {
		s.fault = err
	}
	return &simple{compiled, steps}
}

// name skips an identifier and returns it. ASCII letters become lower case.
func (s *selectorText) name() string {
	var name []byte
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case c == '\\':
			name = append(name, s.escape()...)
			continue
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case c == '-' || c == '_' || c > 127 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z':
		default:
			return string(name)
		}
		name = append(name, c)
		s.at++
	}
	return string(name)
}

// escape skips a backslash and what it escapes, which it returns: a character by up to six
// hexadecimal digits with a white space behind them, or one byte.
func (s *selectorText) escape() string {
	s.at++
	rest := s.text[s.at:]
	digits := 0
	for digits < min(6, len(rest)) && strings.IndexByte("0123456789abcdefABCDEF", rest[digits]) >= 0 {
		digits++
	}
	if digits == 0 {
		n := min(1, len(rest))
		s.at += n
		return strings.ToLower(rest[:n])
	}
	code, _ := strconv.ParseUint(rest[:digits], 16, 32) // it has at most six digits
	s.at += digits
	switch rest = rest[digits:]; {
	case strings.HasPrefix(rest, "\r\n"):
		s.at += 2
	case rest != "" && strings.IndexByte(" \t\r\n\f", rest[0]) >= 0:
		s.at++
	}
	return strings.ToLower(string(rune(code)))
}

// value skips a string in quotes, or a name.
func (s *selectorText) value() {
	quote := s.next()
	if quote != '"' && quote != '\'' {
		s.name()
		return
	}
	s.at++
	for s.at < len(s.text) && s.text[s.at] != quote {
		if s.text[s.at] == '\\' {
			s.at++
		}
		s.at++
	}
	s.at = min(s.at+1, len(s.text))
}

// skip skips a byte that must be here.
func (s *selectorText) skip(c byte) {
	if s.next() != c {
		s.fault = errUnknown
		return
	}
	s.at++
}

// attribute compiles a selector in square brackets.
func (s *selectorText) attribute() condition {
	from := s.at
	s.at++
	s.space()
	key := s.name()
	s.space()
	var expr condition
	if s.next() != ']' {
		operator := s.next()
		s.at++
		if operator != '=' {
			s.skip('=')
		}
		s.space()
		if operator == '#' {
			expr = s.expression(valuesOf(key))
		} else {
			s.value()
		}
		s.space()
		if s.next()|0x20 == 'i' {
			s.at++
			s.space()
		}
	}
	s.skip(']')
	if expr != nil {
		return expr
	}
	return s.simple(from, 0)
}

// expression compiles a regular expression, which ends before the first bracket that it does
// not open.
func (s *selectorText) expression(texts func(n *html.Node, yield func(string) bool)) condition {
	from, open := s.at, 0
	for ; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '(', '[':
			open++
		case ')', ']':
			open--
		}
		if open < 0 {
			break
		}
	}
	text := s.text[from:s.at]
	expr, err := regexp.Compile(text)
	if err != nil {
		s.fault = err
		return nil
	}
	return &matched{expr, instructions(text), texts}
}

// instructions returns the number of instructions of a valid regular expression.
func instructions(text string) int {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		panic(err) // the expression is valid
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		panic(err)
	}
	return len(program.Inst)
}

// ownPseudoClasses look only at the node itself.
var ownPseudoClasses = []string{"input", "root", "link", "checked", "visited", "hover", "active", "focus", "target"}

// pseudoClass compiles a selector that begins with a colon.
func (s *selectorText) pseudoClass() (compiled condition) {
	from := s.at
	s.at++
	name := s.name()
	if s.next() != '(' {
		if slices.Contains(ownPseudoClasses, name) {
			return s.simple(from, 0)
		}
		return s.simple(from, wideSteps)
	}
	s.at++
	s.space()
	switch name {
	case "not":
		compiled = &not{s.list()}
	case "has", "haschild":
		compiled = &has{s.list(), name == "haschild"}
	case "matches":
		compiled = s.expression(nodeText)
	case "matchesown":
		compiled = s.expression(ownText)
	case "contains", "containsown", "lang":
		s.value()
	default: // an+b
		s.at += max(strings.IndexByte(s.text[s.at:], ')'), 0)
	}
	s.space()
	s.skip(')')
	if compiled == nil && s.fault == nil {
		compiled = s.simple(from, wideSteps)
	}
	return compiled
}
