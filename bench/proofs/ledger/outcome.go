package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// An outcome is the result of one run of a proof. The document contains it as text. It
// is the only record of earlier runs, so parseOutcome parses this text.
type outcome struct {
	date, commit, machine string
	tests                 int      // number of tests; subtests do not count
	seconds               int      // time of all tests
	failed                []string // tests that failed
	figures               []string // measurements, one line for each test
	notes                 []string // paragraphs that people added to the document
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

var (
	ranLine    = regexp.MustCompile(`^Run on (\S+) at commit (\S+): (.+)\.$`)
	resultLine = regexp.MustCompile(`^Result: (?:pass, (\d+) tests? in (\d+) s|\*\*FAIL\*\*: (.*))\.$`)
)

func parseOutcome(section string) outcome {
	var o outcome
	for _, paragraph := range strings.Split(section, "\n\n") {
		paragraph = strings.Trim(paragraph, "\n")
		whole := strings.Join(strings.Fields(paragraph), " ")
		if found := ranLine.FindStringSubmatch(whole); found != nil {
			o.date, o.commit, o.machine = found[1], found[2], found[3]
			continue
		}
		switch found := resultLine.FindStringSubmatch(whole); {
		case o.date == "", whole == "": // the claim, or no text
		case found != nil:
			o.tests, _ = strconv.Atoi(found[1])
			o.seconds, _ = strconv.Atoi(found[2])
			if found[3] != "" {
				o.failed = strings.Split(found[3], ", ")
			}
		case strings.HasPrefix(whole, "* `"):
			for _, figure := range strings.Split("\n"+paragraph, "\n* ")[1:] {
				o.figures = append(o.figures, strings.Join(strings.Fields(figure), " "))
			}
		default:
			o.notes = append(o.notes, whole)
		}
	}
	return o
}
