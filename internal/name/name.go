// Package name says which texts can be names of crawls, workers and relays.
package name

import (
	"regexp"
	"strings"
)

// Form describes the texts for which Valid returns true.
const Form = "1 to 64 letters, digits, dots, underscores and dashes"

var form = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Valid reports whether text is a name. All characters are ASCII.
func Valid(text string) bool { return form.MatchString(text) }

// OfCrawl reports whether text can be the name of a crawl: a name that does not consist of dots only, because
// it is also part of the name of a directory.
func OfCrawl(text string) bool { return Valid(text) && strings.Trim(text, ".") != "" }

// OfRelay reports whether text can be the name of a relay: a name without a dot at the beginning, because
// its files would be hidden.
func OfRelay(text string) bool { return Valid(text) && text[0] != '.' }
