package table

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Condition selects records. It is safe for concurrent use.
type Condition struct{ comparisons []func(*row) bool }

// holds reports whether all comparisons are true.
func (c *Condition) holds(r *row) bool {
	return !slices.ContainsFunc(c.comparisons, func(holds func(*row) bool) bool { return !holds(r) })
}

// comparison matches a comparison at the beginning of a condition. The groups are the column,
// the operator, the value, and the word "and" if another comparison must follow.
var comparison = regexp.MustCompile(`^\s*('[^']*'|"[^"]*"|[^\s=!<>~'"]+)\s*(!=|!~|<=|>=|=|<|>|~)\s*('[^']*'|"[^"]*"|[^\s'"=]\S*)(?:\s+((?i)and)\s+|\s*$)`)

// Condition parses a condition over the columns of the schema. It consists of comparisons
// that must all be true:
//
//	status >= 400 and url ~ /tag/
//
// A comparison is a column, one of = != < <= > >= ~ !~, and a value. The value of ~ and
// !~ is a regular expression of package regexp. A value with white space, or with = or a quote
// at its beginning, needs quotes: '…' or "…".
//
// A comparison with a member that the record does not have is false. But != and !~ are always
// the opposites of = and ~, so they are true in this case. An absent bool is false. Members
// whose type the schema does not have, such as fields.price, are compared as numbers if both
// sides are numbers, and otherwise as text.
func (s *Schema) Condition(text string) (*Condition, error) {
	condition := new(Condition)
	for rest, more := text, true; more; {
		parts := comparison.FindStringSubmatch(rest)
		if parts == nil {
			return nil, fmt.Errorf("at %q: want COLUMN OPERATOR VALUE, with \"and\" between two of them, and quotes around a value with spaces or with = at its beginning", rest)
		}
		c, err := s.Column(unquote(parts[1]))
		if err != nil {
			return nil, err
		}
		operator, negated := strings.CutPrefix(parts[2], "!")
		holds, err := c.compare(operator, unquote(parts[3]))
		if err != nil {
			return nil, err
		}
		if negated {
			condition.comparisons = append(condition.comparisons, func(r *row) bool { return !holds(r) })
		} else {
			condition.comparisons = append(condition.comparisons, holds)
		}
		rest, more = rest[len(parts[0]):], parts[4] != ""
	}
	return condition, nil
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
