package main

import (
	"fmt"
	"regexp"
	"strings"
)

// An outcome is the result of one run of a proof.
type outcome struct {
	date, commit, machine string
	tests                 int      // number of tests; subtests do not count
	seconds               int      // time of all tests
	failed                []string // tests that failed
	figures               []string // measurements, one line for each test
}

// result returns the outcome in a few words.
func (o *outcome) result() string {
	if len(o.failed) > 0 {
		return "**FAIL**: " + strings.Join(o.failed, ", ")
	}
	tests := "1 test"
	if o.tests != 1 {
		tests = fmt.Sprintf("%d tests", o.tests)
	}
	return fmt.Sprintf("pass, %s in %d s", tests, o.seconds)
}

// dropped matches logged lines that the document leaves out because they are not results.
// Some of these lines tell how to repeat a test. Others have figures from which the judge
// of a crawl computes its verdict, such as the number of requests that look too early in
// the web's log. The verdict is in another line.
var dropped = regexp.MustCompile(`^(replay |-seed |seed: |duration: |outcomes: |requests: |worst gap: |lateness: |refetched: |export: |and \d+ lines more|\d+ tests within it|workers: \d+, of whom 0 )`)

// maxFigures is the maximum number of figures of one test in the document.
const maxFigures = 4

// addFigures appends a line with the measurements of a test, if it has any.
func (o *outcome) addFigures(test string, lines []string) {
	var kept []string
	for _, line := range lines {
		if len(kept) < maxFigures && !dropped.MatchString(line) && strings.ContainsAny(line, "0123456789") && len(line) < 300 {
			kept = append(kept, line)
		}
	}
	if len(kept) > 0 {
		o.figures = append(o.figures, fmt.Sprintf("`%s`: %s", test, strings.Join(kept, "; ")))
	}
}
