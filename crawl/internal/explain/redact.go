package explain

import (
	"regexp"
	"slices"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// password matches the part of a URL up to the password, and the password with the
// "@" after it.
var password = regexp.MustCompile(`^([^:/?#]*:?[/\\]*[^:/\\?#@]*):[^/\\?#]*@`)

// redact replaces the password in a text that may be a URL.
func redact(url string) string { return password.ReplaceAllString(url, "$1:xxxxx@") }

func redactSteps(steps []canon.Step) []canon.Step {
	steps = slices.Clone(steps)
	for i := range steps {
		steps[i].Before, steps[i].After = redact(steps[i].Before), redact(steps[i].After)
	}
	return steps
}
