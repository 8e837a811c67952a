package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// An outcome is the result of one run of a proof. The document contains it as text,
// and parseOutcome parses that text, because the document is the only record of
// earlier runs.
type outcome struct {
	date, commit, machine string
	tests                 int      // number of tests, without subtests
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

// dropped matches lines of tests that are not in the document, because they are no
// results: how to repeat a test, and figures from which the judge of a crawl makes
// its verdict, which is another line. Among these are the requests that look too
// early in the web's log: the verdict takes into account how late the web may have
// read the requests before them.
var dropped = regexp.MustCompile(`^(replay |-seed |seed: |duration: |outcomes: |requests: |worst gap: |lateness: |refetched: |export: |and \d+ lines more|\d+ tests within it|workers: \d+, of whom 0 )`)

// most is the maximum number of figures of one test in the document.
const most = 4

// addFigures appends a line with the measurements of a test, if it has any.
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

// parseOutcome parses a section of the document. The section may have the old format,
// which contains the log of each run.
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

// testLine matches the line of a test in a log: its indent, name, result and seconds.
// The lines that the test logged follow, indented by two more columns.
var testLine = regexp.MustCompile(`^( *)\* (.+): \*\*(\w+)\*\* in ([0-9.]+) s$`)

// readLog adds the tests of a log to the outcome, as results.add does with those of
// a run.
func (o *outcome) readLog(log string) {
	var (
		names  []string // of the current test, after those of the tests around it
		depths []int    // the indents of their lines; a log may leave out levels
		said   []string // lines that the current test logged
		// own is the time of the current outermost test in seconds, within that of its
		// direct subtests. own may be 0 if the subtests are parallel.
		own    float64
		within float64
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
