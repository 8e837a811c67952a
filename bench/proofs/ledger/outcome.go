package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// An outcome is what one run of a proof came to. The document has it as text, and
// parseOutcome reads it back: the document is the only record of earlier runs.
type outcome struct {
	date, commit, machine string
	tests                 int      // without the tests within them
	seconds               int      // that all took
	failed                []string // tests that did not pass
	figures               []string // what tests measured, one line for each test
	notes                 []string // paragraphs that people added
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

// dropped are lines of tests that are no results: how to repeat them, and what
// the judge of a crawl works with, whose verdict is another line. Requests that
// reach the web's log too early are judged by how late that log may be.
var dropped = regexp.MustCompile(`^(replay |-seed |seed: |duration: |outcomes: |requests: |worst gap: |lateness: |refetched: |export: |and \d+ lines more|\d+ tests within it|workers: \d+, of whom 0 )`)

// most is how many figures of one test the document has.
const most = 4

// addFigures appends a line with what a test measured, if it did.
func (o *outcome) addFigures(test string, lines []string) {
	var kept []string
	for _, line := range lines {
		if len(kept) < most && !dropped.MatchString(line) && strings.ContainsAny(line, "0123456789") && len(line) < 300 {
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

// parseOutcome reads a section of the document, also of one that still has the log
// of each run.
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
		case o.date == "", whole == "", strings.HasPrefix(whole, "```"): // the claim, or a command
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
		case strings.HasPrefix(whole, "* "):
			o.readLog(paragraph)
		default:
			o.notes = append(o.notes, whole)
		}
	}
	return o
}

// testLine is a test in a log: its indent, its name, what it came to and how long
// it took. What it said follows, two columns deeper.
var testLine = regexp.MustCompile(`^( *)\* (.+): \*\*(\w+)\*\* in ([0-9.]+) s$`)

// readLog adds a log to the outcome as results.add does with what it was made of.
func (o *outcome) readLog(log string) {
	var (
		names  []string // of the test and those that it is in
		depths []int    // of their lines; a log may leave out some that are between
		said   []string
		own    float64 // seconds of the outermost test, and of those right within it:
		within float64 // a test whose own ran beside others took no time by itself
	)
	flush := func() {
		if len(names) > 0 {
			o.addFigures(strings.Join(names, "/"), said)
		}
		said = nil
	}
	end := func() {
		o.seconds += int(math.Round(max(own, within)))
		own, within = 0, 0
	}
	for _, line := range strings.Split(log, "\n") {
		found := testLine.FindStringSubmatch(line)
		if found == nil {
			said = append(said, strings.TrimPrefix(strings.TrimSpace(line), "* "))
			continue
		}
		flush()
		deep := len(depths)
		for deep > 0 && depths[deep-1] >= len(found[1]) {
			deep--
		}
		depths = append(depths[:deep], len(found[1]))
		names = append(names[:deep:deep], found[2])
		seconds, _ := strconv.ParseFloat(found[4], 64)
		switch deep {
		case 0:
			end()
			own = seconds
			o.tests++
		case 1:
			within += seconds
		}
		if found[3] == "fail" {
			o.failed = append(o.failed, strings.Join(names, "/"))
		}
	}
	flush()
	end()
}
