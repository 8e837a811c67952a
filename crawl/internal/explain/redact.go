package explain

import (
	"regexp"
	"slices"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// password matches the beginning of a URL up to the "@" after the password. Its group
// is the part before the password.
var password = regexp.MustCompile(`^([^:/?#]*:?[/\\]*[^:/\\?#@]*):[^/\\?#]*@`)

// redact replaces the password in a text that might be a URL.
func redact(url string) string { return password.ReplaceAllString(url, "$1:xxxxx@") }

func redactSteps(steps []canon.Step) []canon.Step {
	steps = slices.Clone(steps)
	for i := range steps {
		steps[i].Before, steps[i].After = redact(steps[i].Before), redact(steps[i].After)
	}
	return steps
}
