package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// choice declares a flag for one of a few names. The default is the first one.
func choice(f *pflag.FlagSet, text *string, name, help string, names ...string) {
	f.StringVar(text, name, names[0], help)
	flag := f.Lookup(name)
	flag.Value = oneName{flag.Value, names}
	restrict.Flag(f, name, "one of "+strings.Join(names, ", "), func() bool { return slices.Contains(names, *text) })
}

// oneName is the value of a flag for one of a few names.
type oneName struct {
	pflag.Value
	names []string
}

// Type implements pflag.Value.
func (v oneName) Type() string { return strings.Join(v.names, "|") }

// maxSize is the largest size of a flag, in bytes.
const maxSize = 1 << 50

// Words for messages about flags whose values are times.
const (
	timeOrZero   = "a time of 0 or more with its unit, such as 1s or 500ms"
	timeNotZero  = "a time of more than 0 with its unit, such as 1s or 500ms"
	timeFromMsec = "a time of 1ms or more with its unit, such as 500ms or 30s"
)

// forever is the longest time that a flag can hold.
const forever = time.Duration(math.MaxInt64)

// checkURLFile checks the name of a file of URLs.
func checkURLFile(text string) error {
	const want = "want a file with one URL a line"
	if strings.Contains(text, "://") {
		return fmt.Errorf("%s; a URL is an argument: %s crawl %s", want, program(), shellQuote(seed.Shown(text)))
	}
	if text == "-" { // stdin
		return nil
	}
	info, err := os.Stat(text)
	switch cause := errors.Unwrap(err); {
	case cause != nil: // err without the file name, which the message contains already
		return fmt.Errorf("%s: %w", want, cause)
	case err == nil && info.IsDir():
		return errors.New(want + ": it is a directory")
	}
	return err
}
