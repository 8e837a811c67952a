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

// limit is a flag for a maximum. 0 means no limit.
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

// newChoice returns a choice whose value is stored in text. Its default is the first
// of names.
func newChoice(text *string, names ...string) *choice {
	*text = names[0]
	return &choice{text, names}
}

func (c *choice) Type() string { return strings.Join(c.names, "|") }

func (c *choice) String() string {
	if c.text == nil { // pflag calls String of a zero value
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

// byteSize is a flag for a number of bytes up to maxSize.
type byteSize struct {
	field *int64
	zero  bool  // 0 is valid
	none  int64 // the value that is stored for 0
}

// sizeOf declares a flag for a size of at least one byte.
func sizeOf(f *pflag.FlagSet, field *int64, name string, def int64, help string) {
	*field = def
	f.Var(&byteSize{field: field}, name, help)
}

// sizeOrNone declares a flag for a size. A value of 0 is stored as none.
func sizeOrNone(f *pflag.FlagSet, field *int64, none int64, name string, def int64, help string) {
	*field = def
	f.Var(&byteSize{field, true, none}, name, help)
}

// Type implements pflag.Value.
func (v *byteSize) Type() string { return "SIZE" }

func (v *byteSize) String() string {
	switch {
	case v.field == nil: // pflag calls String of a zero value
		return ""
	case v.zero && *v.field == v.none:
		return "0"
	}
	b := human.Bytes(*v.field)
	return b.String()
}

// Set implements pflag.Value.
func (v *byteSize) Set(text string) error {
	if text == "0" && v.zero {
		*v.field = v.none
		return nil
	}
	var b human.Bytes
	err := b.Set(text)
	switch {
	case err == nil && b <= maxSize:
		*v.field = int64(b)
		return nil
	case v.zero:
		return errors.New("want 0 for no limit, or " + sizeToPiB)
	}
	return errors.New("want " + sizeToPiB)
}
