// Package restrict makes flags of package pflag refuse invalid values, with messages
// that say which values are valid.
package restrict

import (
	"cmp"
	"encoding/csv"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// DurationWords describes the valid values of a flag for a time.
const DurationWords = "a time with its unit, such as 1s, 500ms or 2h"

// Flag makes a flag refuse invalid values. After a value is set, the flag calls valid. If
// valid returns false, the flag returns to its previous value, and the error is "want" and
// the description, as in "want a whole number from 1 to 100". The error is the same for
// text that the flag cannot parse.
func Flag(set *pflag.FlagSet, name, description string, valid func() bool) {
	f := set.Lookup(name)
	if f.DefValue == "0s" {
		// For a type that pflag does not know, its help hides the default "0", but shows "0s".
		f.DefValue = "0"
	}
	f.Value = &restricted{f.Value, description, valid}
}

// Within is like Flag. It makes the flag refuse a value outside the range [least, most].
func Within[T cmp.Ordered](set *pflag.FlagSet, name string, value *T, least, most T, description string) {
	Flag(set, name, description, func() bool { return least <= *value && *value <= most })
}

// Number declares a flag that sets *value, and makes the flag refuse a value outside the
// range [least, most].
func Number[T int | uint | float64 | time.Duration](set *pflag.FlagSet, value *T, name string, def T, help string, least, most T, description string) {
	switch value := any(value).(type) {
	case *int:
		set.IntVar(value, name, any(def).(int), help)
	case *uint:
		set.UintVar(value, name, any(def).(uint), help)
	case *float64:
		set.Float64Var(value, name, any(def).(float64), help)
	case *time.Duration:
		set.DurationVar(value, name, any(def).(time.Duration), help)
	}
	Within(set, name, value, least, most, description)
}

type restricted struct {
	pflag.Value
	description string
	valid       func() bool
}

func (r *restricted) Set(text string) error {
	before := r.String()
	if r.Value.Set(text) == nil && r.valid() {
		return nil
	}
	_ = r.Value.Set(before)
	return errors.New("want " + r.description)
}

// Check makes a flag refuse text for which check returns an error. The error must begin
// with "want" and describe the valid values. The elements of a list are checked one by
// one. Empty text is not checked, because it means no value, and for a list the empty list.
func Check(set *pflag.FlagSet, name string, check func(text string) error) {
	f := set.Lookup(name)
	if list, ok := f.Value.(pflag.SliceValue); ok {
		f.Value = &checkedList{f.Value, list, check}
		if f.DefValue == "[]" {
			// The help of pflag shows the default "[]" of a type that pflag does not know, but not "".
			f.DefValue = ""
		}
		return
	}
	f.Value = &checkedText{f.Value, check}
}

type checkedText struct {
	pflag.Value
	check func(string) error
}

func (c *checkedText) Set(text string) error {
	if text != "" {
		if err := c.check(text); err != nil {
			return err
		}
	}
	return c.Value.Set(text)
}

type checkedList struct {
	pflag.Value
	list  pflag.SliceValue
	check func(string) error
}

var _ pflag.SliceValue = (*checkedList)(nil)

func (c *checkedList) Set(text string) error {
	if text == "" {
		return c.list.Replace(nil)
	}
	elements := []string{text}
	if c.Type() == "stringSlice" { // several, separated by commas
		if some, err := csv.NewReader(strings.NewReader(text)).Read(); err == nil {
			elements = some
		}
	}
	return c.checked(elements, func() error { return c.Value.Set(text) })
}

// Append implements pflag.SliceValue.
func (c *checkedList) Append(text string) error {
	return c.checked([]string{text}, func() error { return c.list.Append(text) })
}

// Replace implements pflag.SliceValue.
func (c *checkedList) Replace(texts []string) error {
	if slices.Equal(texts, []string{""}) {
		texts = nil
	}
	return c.checked(texts, func() error { return c.list.Replace(texts) })
}

// GetSlice implements pflag.SliceValue.
func (c *checkedList) GetSlice() []string { return c.list.GetSlice() }

func (c *checkedList) checked(texts []string, set func() error) error {
	for _, text := range texts {
		if err := c.check(text); err != nil {
			return err
		}
	}
	return set()
}
