package cli

import (
	"cmp"
	"errors"
	"slices"
	"strings"

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

// storedNames and ownNames are the names of the flags whose values are the defaults of later runs:
// stored with the crawl, and in the own directory of a worker.
var storedNames, ownNames = crawl.DefaultNames()

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

// fixed declares the flag of a fixed setting. The argument kind is the placeholder of the
// value in the help text: one of pflag's types, a letter such as N, or the possible values
// with | between them.
//
// If the argument words is not empty, it describes the accepted values in error messages.
// The flag then calls the function valid after the value is set, and refuses the value if
// the result is false. If the argument words is empty, the flag does not call the function.
// It then accepts the values that the argument kind lists or, if kind is "bool", booleans.
func (o *options) fixed(f *pflag.FlagSet, name, kind, help, words string, valid func() bool) {
	flag := f.VarPF(&fixedValue{&o.crawl.Fixed, name, kind}, name, "", help)
	switch {
	case words != "":
		restrict.Flag(f, name, words, valid)
	case kind == "bool":
		flag.NoOptDefVal = "true"
	default:
		restrict.Check(f, name, oneOf(strings.Split(kind, "|")))
	}
}

// oneOf returns a function that refuses text that is not in names.
func oneOf(names []string) func(text string) error {
	return func(text string) error {
		if !slices.Contains(names, text) {
			return errors.New("want one of " + strings.Join(names, ", "))
		}
		return nil
	}
}

// anything returns true. It is for flags whose Set method refuses every invalid value.
func anything() bool { return true }

// within returns a function that reports whether a field is in the range [least, most], or
// is the sentinel, which is a value with a special meaning.
func within[T cmp.Ordered](field *T, sentinel, least, most T) (valid func() bool) {
	return func() bool { return *field == sentinel || least <= *field && *field <= most }
}
