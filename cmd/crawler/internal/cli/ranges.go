package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/internal/seed"
)

// Bounds of the values of flags, if no lower package defines them.
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
	if err := checkHeaders(map[string]string{name: strings.TrimSpace(content)}); err != nil {
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
