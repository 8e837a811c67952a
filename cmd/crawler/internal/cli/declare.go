package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl"
)

// Each flag of a crawl is declared once, in the function of its section, with its name,
// its help text, its valid values, and the field of crawl.Config that it sets. The
// environment variable (CRAWLER_NAME) and the key in the config file follow from the name.
// If the flag is fixed when the crawl is created, its stored setting has the same name.

// fixedNames are the names of the flags that are fixed when a crawl is created,
// including those that are fixed only in Redis.
var fixedNames = func() []string {
	every, redis, _ := crawl.SettingNames()
	return slices.Concat(every, redis)
}()

// fixedValue is the value of a flag for a fixed setting that is not a list. Package crawl
// parses its text and defines its default.
type fixedValue struct {
	fixed      *crawl.Fixed
	name, kind string
}

// Type implements pflag.Value.
func (v *fixedValue) Type() string { return v.kind }

func (v *fixedValue) String() string {
	if v.fixed == nil { // pflag calls String of a zero value
		return ""
	}
	return v.fixed.Text(v.name)
}

// Set implements pflag.Value.
func (v *fixedValue) Set(text string) error { return v.fixed.Set(v.name, text) }

// fixed declares the flag of a fixed setting. In the help text, kind is the placeholder of
// the value: one of pflag's types, or the possible values with | between them.
func (o *options) fixed(f *pflag.FlagSet, name, kind, help string) *fixedFlag {
	flag := f.VarPF(&fixedValue{&o.crawl.Fixed, name, kind}, name, "", help)
	if kind == "bool" {
		flag.NoOptDefVal = "true"
	}
	if names := strings.Split(kind, "|"); len(names) > 1 && kind != "on|off" {
		restrict.Check(f, name, func(text string) error {
			if !slices.Contains(names, text) {
				return errors.New("want one of " + strings.Join(names, ", "))
			}
			return nil
		})
	}
	return &fixedFlag{f, name}
}

// fixedFlag is a flag that the method options.fixed has declared.
type fixedFlag struct {
	set  *pflag.FlagSet
	name string
}

// want makes the flag refuse a value if the function valid returns false after the value
// is set. The error message contains words, which describe the valid values.
func (f *fixedFlag) want(words string, valid func() bool) { restrict.Flag(f.set, f.name, words, valid) }

// within makes the flag refuse a value outside the range [least, most], except the
// sentinel, which is a value with a special meaning.
func within[T cmp.Ordered](f *fixedFlag, field *T, sentinel, least, most T, description string) {
	f.want(description, func() bool { return *field == sentinel || least <= *field && *field <= most })
}

// number declares a flag that sets a field of a config. The flag refuses a value outside
// the range [least, most]. If the sentinel is not 0, the flag stores the sentinel in place
// of the value 0.
func number[T int | float64 | time.Duration](f *pflag.FlagSet, field *T, sentinel T, name string, def T, help string, least, most T, description string) {
	restrict.Number(f, field, name, def, help, least, most, description)
	if sentinel != 0 {
		flag := f.Lookup(name)
		flag.Value = &zeroIs[T]{flag.Value, field, sentinel}
	}
}

// zeroIs is a flag for a field in which 0 means unset. If the value of the flag is 0, the
// sentinel is stored in the field.
type zeroIs[T int | float64 | time.Duration] struct {
	pflag.Value
	field    *T
	sentinel T
}

func (v *zeroIs[T]) String() string {
	if v.field == nil || *v.field != v.sentinel {
		return v.Value.String()
	}
	var zero T
	return fmt.Sprint(zero)
}

// Set implements pflag.Value.
func (v *zeroIs[T]) Set(text string) error {
	before := *v.field
	if before == v.sentinel {
		*v.field = 0
	}
	err := v.Value.Set(text)
	switch {
	case err != nil:
		*v.field = before
	case *v.field == 0:
		*v.field = v.sentinel
	}
	return err
}
