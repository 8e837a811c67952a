package table

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Condition selects records. It is safe for concurrent use.
type Condition struct{ holds func(*row) bool }

// ConditionError describes a fault in a condition and its position.
type ConditionError struct {
	At      int    // number of the character, from 1
	Near    string // the word at this position; empty means the end
	Problem string
}

// Error implements error.
func (e *ConditionError) Error() string {
	if e.Near == "" {
		return fmt.Sprintf("at its end: %s", e.Problem)
	}
	return fmt.Sprintf("at character %d, %q: %s", e.At, e.Near, e.Problem)
}

// Condition parses a condition over the columns of the schema:
//
//	status >= 400 and not (url ~ '/tag/' or host = example.org)
//
// A comparison is a column, one of = != < <= > >= ~ !~, and a value. The value of ~ and
// !~ is a regular expression of package regexp. A column alone is false if its value is
// absent, false, 0 or empty, and true otherwise. Text with white space needs quotes, '…'
// or "…". Within quotes, two quotes mean one. The order of the operators, strongest
// first, is: not, and, or. An error is a *ConditionError.
//
// A comparison with a member that the record does not have is false. But != and !~ are always
// the opposites of = and ~, so they are true in this case. An absent bool is false. Members
// whose type the schema does not have, such as fields.price, are compared as numbers if both
// sides are numbers, and otherwise as text.
func (s *Schema) Condition(text string) (*Condition, error) {
	p := &parser{schema: s, text: text}
	p.next()
	holds, err := p.or()
	if err == nil && p.word.text != "" {
		err = p.fault("want and, or, or the end")
	}
	if err != nil {
		return nil, err
	}
	return &Condition{holds}, nil
}

// word is a part of a condition.
type word struct {
	at     int // offset of its first byte
	text   string
	value  string // text without quotes
	quoted bool
}

func (w word) is(keyword string) bool { return !w.quoted && strings.EqualFold(w.text, keyword) }

type parser struct {
	schema *Schema
	text   string
	word   word // the current word
	end    int  // offset of the end of word in text
	depth  int  // number of open parentheses and nots
}

const maxDepth = 1000

var operators = []string{"!=", "!~", "<=", ">=", "==", "=", "<", ">", "~"}

func (p *parser) fault(format string, args ...any) error {
	return &ConditionError{utf8.RuneCountInString(p.text[:p.word.at]) + 1, p.word.text, fmt.Sprintf(format, args...)}
}

// skipSpace returns where the next word begins.
func (p *parser) skipSpace() int {
	rest := strings.TrimLeft(p.text[p.end:], " \t\r\n")
	return len(p.text) - len(rest)
}

// next reads the next word: a parenthesis, an operator, a quoted text or a name.
func (p *parser) next() {
	at := p.skipSpace()
	rest := p.text[at:]
	switch {
	case rest == "":
		p.take(at, 0)
	case rest[0] == '(' || rest[0] == ')':
		p.take(at, 1)
	case rest[0] == '\'' || rest[0] == '"':
		p.quoted(at)
	default:
		for _, operator := range operators {
			if strings.HasPrefix(rest, operator) {
				p.take(at, len(operator))
				return
			}
		}
		n := strings.IndexAny(rest, " \t\r\n()=!<>~'\"")
		if n < 0 {
			n = len(rest)
		}
		p.take(at, max(n, 1)) // n is 0 for a ! alone
	}
}

func (p *parser) take(at, n int) {
	p.word = word{at: at, text: p.text[at : at+n], value: p.text[at : at+n]}
	p.end = at + n
}

// quoted reads a text in quotes. If the closing quote is missing, the word is the rest of
// the condition.
func (p *parser) quoted(at int) {
	quote, i := p.text[at:at+1], at+1
	for i < len(p.text) {
		if p.text[i:i+1] != quote {
			i++
		} else if strings.HasPrefix(p.text[i+1:], quote) {
			i += 2
		} else {
			break
		}
	}
	ended := i < len(p.text)
	p.take(at, min(i+1, len(p.text))-at)
	p.word.value = strings.ReplaceAll(p.text[at+1:i], quote+quote, quote)
	p.word.quoted = ended
}

// unended reports whether the word begins with a quote and does not end with one.
func (w word) unended() bool {
	return !w.quoted && w.text != "" && (w.text[0] == '\'' || w.text[0] == '"')
}

// operand reads the value after an operator: a quoted text, or the text up to the next
// white space or unmatched closing parenthesis.
func (p *parser) operand() {
	at := p.skipSpace()
	rest := p.text[at:]
	if rest == "" || rest[0] == '\'' || rest[0] == '"' {
		p.next()
		return
	}
	open, n := 0, 0
scan:
	for ; n < len(rest); n++ {
		switch rest[n] {
		case ' ', '\t', '\r', '\n':
			break scan
		case '(':
			open++
		case ')':
			if open--; open < 0 {
				break scan
			}
		}
	}
	p.take(at, n)
}

func (p *parser) or() (func(*row) bool, error) {
	left, err := p.and()
	for err == nil && p.word.is("or") {
		p.next()
		a, b := left, left
		if b, err = p.and(); err == nil {
			left = func(r *row) bool { return a(r) || b(r) }
		}
	}
	return left, err
}

func (p *parser) and() (func(*row) bool, error) {
	left, err := p.not()
	for err == nil && p.word.is("and") {
		p.next()
		a, b := left, left
		if b, err = p.not(); err == nil {
			left = func(r *row) bool { return a(r) && b(r) }
		}
	}
	return left, err
}

func (p *parser) not() (func(*row) bool, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fault("want at most %d parentheses and nots within each other", maxDepth)
	}
	defer func() { p.depth-- }()
	switch {
	case p.word.is("not"):
		p.next()
		holds, err := p.not()
		return func(r *row) bool { return !holds(r) }, err
	case p.word.is("("):
		p.next()
		holds, err := p.or()
		if err == nil && !p.word.is(")") {
			err = p.fault("want )")
		}
		p.next()
		return holds, err
	}
	return p.comparison()
}

func (p *parser) comparison() (func(*row) bool, error) {
	if p.word.unended() {
		return nil, p.fault("the quote does not end")
	}
	c, err := p.schema.find(p.word.value)
	if err != nil || p.word.text == "" {
		return nil, p.fault("want a column: %s%s", strings.Join(p.schema.Names(), ", "), p.schema.paths())
	}
	p.next()
	operator := p.word.text
	if !p.word.quoted && slices.Contains(operators, operator) {
		return p.compare(c, operator)
	}
	return func(r *row) bool { return present(r.value(c.Name)) }, nil
}

// present returns false if a value is nil, false, 0 or empty, and true otherwise.
func present(v any) bool {
	if f, is := number(v); is {
		return f != 0
	}
	return v != nil && v != false && v != ""
}

// compare reads the value after an operator and returns the comparison.
func (p *parser) compare(c Column, operator string) (func(*row) bool, error) {
	p.operand()
	if p.word.text == "" || p.word.unended() {
		return nil, p.fault("want a value behind %s, in quotes if it has white space", operator)
	}
	test, err := p.test(c, strings.TrimPrefix(operator, "!"))
	p.next()
	if strings.HasPrefix(operator, "!") {
		return func(r *row) bool { return !test(r) }, err
	}
	return test, err
}

// test returns the comparison of a column with the current word.
func (p *parser) test(c Column, operator string) (func(*row) bool, error) {
	text := p.word.value
	switch {
	case operator == "~" && c.Kind != String && c.Kind != Any && c.Kind != JSON:
		return nil, p.fault("%s is a %s: ~ is for text", c.Name, c.Kind)
	case operator == "~":
		re, err := regexp.Compile(text)
		if err != nil {
			return nil, p.fault("%v", err)
		}
		return func(r *row) bool {
			v := r.value(c.Name)
			return v != nil && re.MatchString(plainText(v))
		}, nil
	case c.Kind == Bool:
		want, err := strconv.ParseBool(text)
		if err != nil || operator != "=" && operator != "==" {
			return nil, p.fault("%s is true or false: compare it so with = or !=", c.Name)
		}
		return func(r *row) bool { return (r.value(c.Name) == true) == want }, nil
	case c.Kind == Time:
		return p.testTime(c, operator)
	}
	want, isNumber := number(text)
	if c.Kind == Int || c.Kind == Float {
		if !isNumber {
			return nil, p.fault("%s is a number: want one behind %s", c.Name, operator)
		}
	} else if c.Kind == String {
		isNumber = false
	}
	return func(r *row) bool {
		v := r.value(c.Name)
		if v == nil {
			return false
		}
		if have, is := number(v); is && isNumber {
			return decided(operator, cmp.Compare(have, want))
		}
		return decided(operator, strings.Compare(plainText(v), text))
	}, nil
}

func (p *parser) testTime(c Column, operator string) (func(*row) bool, error) {
	want, err := parseTime(p.word.value)
	if err != nil {
		return nil, p.fault("%s is a time: want one such as 2026-01-31 or 2026-01-31T12:00:00Z", c.Name)
	}
	return func(r *row) bool {
		text, _ := r.value(c.Name).(string)
		have, err := time.Parse(time.RFC3339Nano, text)
		return err == nil && decided(operator, have.Compare(want))
	}, nil
}

// decided reports whether a comparison is true. The argument sign is the result of
// comparing the two sides: it is negative if the left side is less, 0 if the sides are
// equal, and positive if the left side is greater.
func decided(operator string, sign int) bool {
	switch operator {
	case "<":
		return sign < 0
	case "<=":
		return sign <= 0
	case ">":
		return sign > 0
	case ">=":
		return sign >= 0
	}
	return sign == 0
}
