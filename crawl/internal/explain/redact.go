package explain

import (
	"regexp"
	"slices"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// password is all up to the password of what may be a URL, and the password
// with the "@" behind it.
var password = regexp.MustCompile(`^([^:/?#]*:?[/\\]*[^:/\\?#@]*):[^/\\?#]*@`)

// redact takes the password out of what may be a URL.
func redact(url string) string { return password.ReplaceAllString(url, "$1:xxxxx@") }

func redactSteps(steps []canon.Step) []canon.Step {
	steps = slices.Clone(steps)
	for i := range steps {
		steps[i].Before, steps[i].After = redact(steps[i].Before), redact(steps[i].After)
	}
	return steps
}
