package settings

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/internal/human"
)

// Value is a setting of one Settings: a view of its field. It implements pflag.Value. That of a list
// implements pflag.SliceValue too. A text that is not valid leaves the field unchanged, and the
// error says which texts are valid: it begins with "want".
type Value interface {
	// String returns the value as people write it.
	String() string
	Set(text string) error
	// Type names the kind of value in the help text: one of pflag's types, a letter such as N, or the
	// possible values with | between them.
	Type() string
	// Stored returns the value as it is stored: as String does, and a list as JSON. Secrets are not in it.
	Stored() string
	// Adopt sets the field to a stored value.
	Adopt(stored string) error
}

// scalar is a Value that has the same text for people and in the store.
type scalar struct {
	kind  string
	want  string // the valid texts
	print func() string
	parse func(text string) bool // sets the field, or returns false and leaves it unchanged
}

func (v scalar) String() string { return v.print() }

func (v scalar) Type() string { return v.kind }

func (v scalar) Set(text string) error {
	if !v.parse(text) {
		return errors.New("want " + v.want)
	}
	return nil
}

func (v scalar) Stored() string { return v.print() }

func (v scalar) Adopt(stored string) error { return v.Set(stored) }

// store sets *field to a value if it is valid.
func store[T any](field *T, value T, valid bool) bool {
	if valid {
		*field = value
	}
	return valid
}

// oneOf is one of some names, of which the first is not the default.
func oneOf(field *string, names ...string) Value {
	return scalar{strings.Join(names, "|"), "one of " + strings.Join(names, ", "),
		func() string { return *field },
		func(text string) bool { return store(field, text, slices.Contains(names, text)) }}
}

// yes is true or false.
func yes(field *bool) Value {
	return scalar{"bool", "true or false", func() string { return strconv.FormatBool(*field) }, func(text string) bool {
		on, err := strconv.ParseBool(text)
		return store(field, on, err == nil)
	}}
}

// toggle is on or off. Some YAML programs turn "on" into "true".
func toggle(field *bool) Value {
	return scalar{"on|off", "on or off", func() string { return map[bool]string{true: "on", false: "off"}[*field] }, func(text string) bool {
		on := text == "on" || text == "true"
		return store(field, on, on || text == "off" || text == "false")
	}}
}

// number is a whole number from least to most.
func number(field *int, least, most int, want string) Value {
	return scalar{"int", want, func() string { return strconv.Itoa(*field) }, func(text string) bool {
		n, err := human.ParseNumber(text)
		return store(field, int(n), err == nil && n == float64(int(n)) && int(n) >= least && int(n) <= most)
	}}
}

const limitWords = "0 for no limit, or a whole number from 1 to 1e15, such as 250000, 10M or 1e9"

// limit is a whole number, or 0 for no limit. 10000 is 10k.
func limit[N int | uint64](field *N) scalar {
	return scalar{"N", limitWords,
		func() string {
			if *field == 0 {
				return "0"
			}
			c := human.Count(*field)
			return c.String()
		},
		func(text string) bool {
			var c human.Count
			return store(field, 0, text == "0") || c.Set(text) == nil && store(field, N(c), true)
		}}
}

// orAuto is a limit that can also be a special value, whose text is "auto".
func orAuto(field *int, auto int, most float64, want string) Value {
	plain := limit(field)
	return scalar{"N", want,
		func() string {
			if *field == auto {
				return "auto"
			}
			return plain.print()
		},
		func(text string) bool {
			var n int
			return store(field, auto, text == "auto") ||
				limit(&n).parse(text) && n != auto && float64(n) <= most && store(field, n, true)
		}}
}

// real is a number from 0 to the largest float64.
func real(field *float64) Value {
	return scalar{"float64", "a number of 0 or more", func() string { return strconv.FormatFloat(*field, 'g', -1, 64) }, func(text string) bool {
		x, err := strconv.ParseFloat(text, 64)
		return store(field, x, err == nil && x >= 0 && x <= math.MaxFloat64)
	}}
}

// Words for times.
const (
	timeOrZero   = "a time of 0 or more with its unit, such as 1s or 500ms"
	timeNotZero  = "a time of more than 0 with its unit, such as 1s or 500ms"
	timeFromMsec = "a time of 1ms or more with its unit, such as 500ms or 30s"
)

// span is a time of at least the given length.
func span(field *time.Duration, least time.Duration, want string) Value {
	return scalar{"duration", want, func() string { return field.String() }, func(text string) bool {
		d, err := time.ParseDuration(text)
		return store(field, d, err == nil && d >= least)
	}}
}

// maxSize is the largest size, in bytes.
const maxSize = 1 << 50

const sizeWords = "a size from 1B to 1PiB, such as 512KiB or 10MiB"

// size is a number of bytes. With orZero it can be 0, which means no limit.
func size(field *int64, orZero bool) Value {
	want := sizeWords
	if orZero {
		want = "0 for no limit, or " + sizeWords
	}
	return scalar{"SIZE", want,
		func() string {
			if *field == 0 {
				return "0"
			}
			b := human.Bytes(*field)
			return b.String()
		},
		func(text string) bool {
			var b human.Bytes
			return orZero && store(field, 0, text == "0") || b.Set(text) == nil && store(field, int64(b), b <= maxSize)
		}}
}

// words is a text for which check returns no error. If empty is true, it can be empty.
func words(field *string, empty bool, want string, check func(text string) error) Value {
	return scalar{"string", want, func() string { return *field }, func(text string) bool {
		return store(field, text, text == "" && empty || text != "" && check(text) == nil)
	}}
}

// list is a Value of several texts. It is stored as JSON.
type list struct {
	kind string // "stringArray", or "stringSlice": Set separates the texts at commas
	// check returns an error, which begins with "want", if one text is not valid.
	check func(text string) error
	get   func() []string
	set   func(texts []string) error
	added bool // Set was called: the next call appends
}

func (v *list) String() string {
	var line strings.Builder
	w := csv.NewWriter(&line)
	_ = w.Write(v.get())
	w.Flush()
	return "[" + strings.TrimSuffix(line.String(), "\n") + "]"
}

func (v *list) Type() string { return v.kind }

// Set sets the list to a text at its first call, and appends the text at further ones. An empty text
// makes the list empty.
func (v *list) Set(text string) error {
	if text == "" {
		return v.Replace(nil)
	}
	texts := []string{text}
	if v.kind == "stringSlice" {
		if some, err := csv.NewReader(strings.NewReader(text)).Read(); err == nil {
			texts = some
		}
	}
	if v.added {
		texts = append(slices.Clone(v.get()), texts...)
	}
	if err := v.Replace(texts); err != nil {
		return err
	}
	v.added = true
	return nil
}

// Append implements pflag.SliceValue.
func (v *list) Append(text string) error { return v.Replace(append(slices.Clone(v.get()), text)) }

// Replace implements pflag.SliceValue.
func (v *list) Replace(texts []string) error {
	if slices.Equal(texts, []string{""}) {
		texts = nil
	}
	for _, text := range texts {
		if err := v.check(text); err != nil {
			return err
		}
	}
	return v.set(texts)
}

// GetSlice implements pflag.SliceValue.
func (v *list) GetSlice() []string { return v.get() }

func (v *list) Stored() string { return JSONList(v.get()) }

func (v *list) Adopt(stored string) error {
	var texts []string
	if err := json.Unmarshal([]byte(stored), &texts); err != nil {
		return fmt.Errorf("want a list: %w", err)
	}
	return v.Replace(texts)
}

// JSONList returns the stored form of a list.
func JSONList(texts []string) string {
	text, _ := json.Marshal(append([]string{}, texts...)) // this cannot fail for strings
	return string(text)
}

// texts is a list of texts.
func texts(field *[]string, check func(text string) error) *list {
	return &list{kind: "stringArray", check: check, get: func() []string { return *field }, set: func(texts []string) error {
		*field = texts
		return nil
	}}
}

// parsed is a list of values that are parsed from texts.
func parsed[T any](field *[]T, want string, parse func(text string) (T, error)) *list {
	check := wanted(want, func(text string) error {
		_, err := parse(text)
		return err
	})
	return &list{kind: "stringArray", check: check,
		get: func() (texts []string) {
			for _, value := range *field {
				texts = append(texts, fmt.Sprint(value))
			}
			return texts
		},
		set: func(texts []string) error {
			var values []T
			for _, text := range texts {
				value, err := parse(text)
				if err != nil {
					return err
				}
				values = append(values, value)
			}
			*field = values
			return nil
		}}
}

// wanted returns a function that returns "want" and the description for each error of check.
func wanted(description string, check func(text string) error) func(text string) error {
	return func(text string) error {
		if check(text) != nil {
			return errors.New("want " + description)
		}
		return nil
	}
}
