package table

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Condition selects records. It is safe for concurrent use.
type Condition struct {
	holds   func(*row) bool
	columns []string
}

// Columns returns the names of the columns that the condition compares. A name can occur twice.
func (c *Condition) Columns() []string { return c.columns }

// maxNesting bounds the nesting of parentheses and of the word not in a condition.
const maxNesting = 100

// Condition parses a condition over the columns of the schema. It consists of comparisons,
// which can be joined with and, or, not and parentheses:
//
//	status >= 400 and not (url ~ /tag/ or depth > 3)
//
// The word not binds more tightly than and, which binds more tightly than or. A comparison is a
// column, one of = != < <= > >= ~ !~, and a value. The value of ~ and !~ is a regular expression of
// package regexp. A value without quotes ends at white space, or at a closing parenthesis that was
// not opened in the value. A value with white space, or with = or a quote at its beginning, needs
// quotes: '…' or "…".
//
// A comparison with a member that the record does not have is false. But != and !~ are always
// the opposites of = and ~, so they are true in this case. An absent bool is false. Members
// whose type the schema does not have, such as fields.price, are compared as numbers if both
// sides are numbers, and otherwise as text.
func (s *Schema) Condition(text string) (*Condition, error) {
	p := &conditionParser{schema: s, rest: text}
	holds, err := p.anyOf()
	if err == nil && strings.TrimSpace(p.rest) != "" {
		err = p.fault()
	}
	if err != nil {
		return nil, err
	}
	return &Condition{holds, p.columns}, nil
}

// conditionParser parses the text of a condition from left to right.
type conditionParser struct {
	schema  *Schema
	rest    string // the text that is not parsed yet
	nesting int
	columns []string
}

// anyOf parses one or more parts joined with or.
func (p *conditionParser) anyOf() (func(*row) bool, error) {
	return p.joined("or", p.allOf, func(a, b func(*row) bool) func(*row) bool {
		return func(r *row) bool { return a(r) || b(r) }
	})
}

// allOf parses one or more parts joined with and.
func (p *conditionParser) allOf() (func(*row) bool, error) {
	return p.joined("and", p.part, func(a, b func(*row) bool) func(*row) bool {
		return func(r *row) bool { return a(r) && b(r) }
	})
}

func (p *conditionParser) joined(
	word string, part func() (func(*row) bool, error), join func(a, b func(*row) bool) func(*row) bool,
) (func(*row) bool, error) {
	holds, err := part()
	for err == nil && p.skip(wordAhead[word]) {
		var next func(*row) bool
		if next, err = part(); err == nil {
			holds = join(holds, next)
		}
	}
	return holds, err
}

// part parses a comparison, a part after not, or a condition in parentheses.
func (p *conditionParser) part() (func(*row) bool, error) {
	if p.nesting++; p.nesting > maxNesting {
		return nil, fmt.Errorf("more than %d parentheses and words not within each other", maxNesting)
	}
	defer func() { p.nesting-- }()
	switch {
	case p.skip(opening):
		holds, err := p.anyOf()
		if err == nil && !p.skip(closing) {
			err = fmt.Errorf("at %q: want a closing parenthesis", p.rest)
		}
		return holds, err
	case !comparison.MatchString(p.rest) && p.skip(wordAhead["not"]): // a column can be named not
		holds, err := p.part()
		if err != nil {
			return nil, err
		}
		return func(r *row) bool { return !holds(r) }, nil
	}
	return p.comparison()
}

var (
	opening, closing = regexp.MustCompile(`^\s*\(`), regexp.MustCompile(`^\s*\)`)
	wordAhead        = map[string]*regexp.Regexp{
		"or": regexp.MustCompile(`^\s*(?i:or)(\s+|\b)`), "and": regexp.MustCompile(`^\s*(?i:and)(\s+|\b)`), "not": regexp.MustCompile(`^\s*(?i:not)(\s+|\b)`),
	}
	// comparison matches a comparison. The groups are the column, the operator, and the value. If the
	// value has no quotes, its end may belong to the text after it: see valueEnd.
	comparison = regexp.MustCompile(`^\s*('[^']*'|"[^"]*"|[^\s=!<>~'"()]+)\s*(!=|!~|<=|>=|=|<|>|~)\s*('[^']*'|"[^"]*"|[^\s'"=]\S*)`)
)

// skip removes what the expression matches from the beginning of the rest. It reports whether there
// was such a beginning.
func (p *conditionParser) skip(expression *regexp.Regexp) bool {
	at := expression.FindStringIndex(p.rest)
	if at != nil {
		p.rest = p.rest[at[1]:]
	}
	return at != nil
}

func (p *conditionParser) fault() error {
	return fmt.Errorf("at %q: want COLUMN OPERATOR VALUE, with \"and\" or \"or\" between two of them, "+
		"and quotes around a value with spaces or with = at its beginning", strings.TrimSpace(p.rest))
}

func (p *conditionParser) comparison() (func(*row) bool, error) {
	parts := comparison.FindStringSubmatch(p.rest)
	if parts == nil {
		return nil, p.fault()
	}
	value := parts[3][:valueEnd(parts[3])]
	rest := p.rest[len(parts[0])-len(parts[3])+len(value):]
	if value == "" || rest != "" && !strings.ContainsRune(" \t\r\n)", rune(rest[0])) {
		return nil, p.fault()
	}
	p.rest = rest
	c, err := p.schema.Column(unquote(parts[1]))
	if err != nil {
		return nil, err
	}
	p.columns = append(p.columns, c.Name)
	operator, negated := strings.CutPrefix(parts[2], "!")
	holds, err := c.compare(operator, unquote(value))
	if err != nil || !negated {
		return holds, err
	}
	return func(r *row) bool { return !holds(r) }, nil
}

// valueEnd returns the length of a value: the whole text if it begins with a quote, otherwise the
// text up to the first closing parenthesis that was not opened in it. A parenthesis after a
// backslash does not count.
func valueEnd(text string) int {
	if text[0] == '\'' || text[0] == '"' {
		return len(text)
	}
	open := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '(':
			open++
		case ')':
			if open--; open < 0 {
				return i
			}
		}
	}
	return len(text)
}

// unquote removes the quotes around a word, if it has any.
func unquote(word string) string {
	if word[0] == '\'' || word[0] == '"' {
		return word[1 : len(word)-1]
	}
	return word
}

// compare returns the comparison of a column with a value.
func (c Column) compare(operator, text string) (func(*row) bool, error) {
	switch {
	case operator == "~" && c.Kind != String && c.Kind != Any && c.Kind != JSON:
		return nil, fmt.Errorf("%s is a %s: ~ is for text", c.Name, c.Kind)
	case operator == "~":
		re, err := regexp.Compile(text)
		if err != nil {
			return nil, err
		}
		return func(r *row) bool {
			v := r.value(c.Name)
			return v != nil && re.MatchString(plainText(v))
		}, nil
	case c.Kind == Bool:
		want, err := strconv.ParseBool(text)
		if err != nil || operator != "=" {
			return nil, fmt.Errorf("%s is true or false: compare it so with = or !=", c.Name)
		}
		return func(r *row) bool { return (r.value(c.Name) == true) == want }, nil
	case c.Kind == Time:
		return c.compareTime(operator, text)
	}
	if isID(c.Name) {
		text = strings.TrimPrefix(text, idPrefix) // as in CSV
	}
	want, isNumber := number(text)
	if c.Kind == Int || c.Kind == Float {
		if !isNumber {
			return nil, fmt.Errorf("%s is a number: want one behind %s, not %q", c.Name, operator, text)
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

func (c Column) compareTime(operator, text string) (func(*row) bool, error) {
	want, err := parseTime(text)
	if err != nil {
		return nil, fmt.Errorf("%s is a time: want one such as 2026-01-31 or 2026-01-31T12:00:00Z, not %q", c.Name, text)
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
