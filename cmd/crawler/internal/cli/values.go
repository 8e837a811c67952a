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
		return errors.New("want 0 for no limit, or a whole number from 1 to 1e15, such as 250000, 10M or 1e9")
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
