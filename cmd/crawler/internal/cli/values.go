package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/internal/human"
)

var (
	_ pflag.Value = (*limit)(nil)
	_ pflag.Value = (*choice)(nil)
)

// limit is a flag for a largest number of things; 0 is no limit.
type limit uint64

func (l *limit) Type() string { return "N" }

func (l *limit) String() string {
	if *l == 0 {
		return "0"
	}
	return (*human.Count)(l).String()
}

func (l *limit) Set(s string) error {
	if s == "0" {
		*l = 0
		return nil
	}
	if (*human.Count)(l).Set(s) != nil {
		return errors.New("want " + limitWords)
	}
	return nil
}

// choice is a flag for one of a few names.
type choice struct {
	text  *string
	names []string
}

// newChoice returns a choice that is kept in text: the first of names until it
// is set.
func newChoice(text *string, names ...string) *choice {
	*text = names[0]
	return &choice{text, names}
}

func (c *choice) Type() string { return strings.Join(c.names, "|") }

func (c *choice) String() string {
	if c.text == nil { // pflag asks a zero choice
		return ""
	}
	return *c.text
}

func (c *choice) Set(s string) error {
	if !slices.Contains(c.names, s) {
		return fmt.Errorf("want one of %s", strings.Join(c.names, ", "))
	}
	*c.text = s
	return nil
}

// byteSize is a flag for a number of bytes; with none, 0 is kept as none.
type byteSize struct {
	field *int64
	none  int64
}

// sizeOf declares a flag for a number of bytes up to maxSize. Without none it must
// be at least one.
func sizeOf(f *pflag.FlagSet, field *int64, none int64, name string, def int64, help string) {
	*field = def
	f.Var(&byteSize{field, none}, name, help)
}

// Type implements pflag.Value.
func (v *byteSize) Type() string { return "SIZE" }

func (v *byteSize) String() string {
	if v.field == nil || *v.field == 0 { // pflag asks a zero value
		return ""
	} else if *v.field == v.none {
		return "0"
	}
	b := human.Bytes(*v.field)
	return b.String()
}

// Set implements pflag.Value.
func (v *byteSize) Set(text string) error {
	if text == "0" && v.none != 0 {
		*v.field = v.none
		return nil
	}
	var b human.Bytes
	if err := b.Set(text); err != nil || b > maxSize {
		if v.none != 0 {
			return errors.New("want 0 for no limit, or " + sizeToPiB)
		}
		return errors.New("want " + sizeToPiB)
	}
	*v.field = int64(b)
	return nil
}
