package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/seed"
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

// byteSize is a flag for a number of bytes up to maxSize.
type byteSize struct {
	field *int64
	zero  bool // 0 is valid
}

// sizeOf declares a flag for a size of at least one byte.
func sizeOf(f *pflag.FlagSet, field *int64, name string, def int64, help string) {
	*field = def
	f.Var(&byteSize{field: field}, name, help)
}

// sizeOrNone declares a flag for a size, or 0 for no limit.
func sizeOrNone(f *pflag.FlagSet, field *int64, name string, def int64, help string) {
	*field = def
	f.Var(&byteSize{field, true}, name, help)
}

// Type implements pflag.Value.
func (v *byteSize) Type() string { return "SIZE" }

func (v *byteSize) String() string {
	switch {
	case v.field == nil: // pflag calls String of a zero value
		return ""
	case v.zero && *v.field == 0:
		return "0"
	}
	b := human.Bytes(*v.field)
	return b.String()
}

// Set implements pflag.Value.
func (v *byteSize) Set(text string) error {
	if text == "0" && v.zero {
		*v.field = 0
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

// Bounds of flag values. Other packages define the bounds of all other flags.
const (
	maxHostConcurrency = 1024
	maxURLs            = 1e12
	leastRate          = 1e-12
	maxSize            = 1 << 50
)

// Words for messages about flags whose values are times, sizes or limits.
const (
	timeOrZero   = "a time of 0 or more with its unit, such as 1s or 500ms"
	timeNotZero  = "a time of more than 0 with its unit, such as 1s or 500ms"
	timeFromMsec = "a time of 1ms or more with its unit, such as 500ms or 30s"
	sizeToPiB    = "a size from 1B to 1PiB, such as 512KiB or 10MiB"
	limitWords   = "0 for no limit, or a whole number from 1 to 1e15, such as 250000, 10M or 1e9"
)

// forever is the longest time that a flag can hold.
const forever = time.Duration(math.MaxInt64)

func checkRegexp(text string) error {
	if _, err := regexp.Compile(text); err != nil {
		return fmt.Errorf("want a regular expression: %w", err)
	}
	return nil
}

// checkHeaderFlag checks a header. Its errors do not contain the value, which may be
// secret.
func checkHeaderFlag(text string) error {
	name, content, ok := strings.Cut(text, ":")
	if name = strings.TrimSpace(name); !ok || name == "" {
		return errors.New("want 'NAME: VALUE', such as 'Accept-Language: en'")
	}
	if err := get.CheckHeader(name, strings.TrimSpace(content)); err != nil {
		return fmt.Errorf("want 'NAME: VALUE', such as 'Accept-Language: en': %w", err)
	}
	return nil
}

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

// concurrency is the value of --concurrency: a number of hosts, or 0 for auto.
type concurrency int

const maxConcurrency = 100_000

func (c *concurrency) String() string {
	if *c == 0 {
		return "auto"
	}
	return strconv.Itoa(int(*c))
}

func (c *concurrency) Type() string { return "N" }

func (c *concurrency) Set(text string) error {
	if text == "auto" {
		*c = 0
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err == nil && n == 0 {
		err = strconv.ErrRange // 0 is the value of auto
	}
	*c = concurrency(n)
	return err
}
