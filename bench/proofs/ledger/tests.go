package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// An outcome summarises how the tests of a proof ended.
type outcome struct {
	count   int      // number of tests; subtests do not count
	seconds int      // time of all tests
	failed  []string // tests that failed
}

// String returns the outcome in a few words.
func (o outcome) String() string {
	if len(o.failed) > 0 {
		return "**FAIL**: " + strings.Join(o.failed, ", ")
	}
	if o.count == 1 {
		return fmt.Sprintf("pass, 1 test in %d s", o.seconds)
	}
	return fmt.Sprintf("pass, %d tests in %d s", o.count, o.seconds)
}

// add adds the tests of a batch to the outcome.
func (o *outcome) add(r *tests) {
	for _, name := range slices.Sorted(maps.Keys(r.byName)) {
		if path.Dir(name) == "." {
			o.count++
		}
		if r.byName[name].action == "fail" {
			o.failed = append(o.failed, name)
		}
	}
	if !r.hold() && len(o.failed) == 0 {
		o.failed = append(o.failed, "nothing ran, or a package does not build")
	}
}

// tests are the tests that one run of "go test" ran.
type tests struct {
	byName map[string]*test
	failed bool // a test or a package failed, or was not built
}

type test struct {
	action string   // pass, fail or skip
	lines  []string // attributes and logged lines
	output []string // all lines that the test printed
}

// event is a line of `go test -json`.
type event struct {
	Action string
	Test   string // empty if the event is about the package
	Output string
	Key    string
	Value  string
}

// logged matches a line that a test logged. The group of the expression is the text after
// the file name and the line number.
var logged = regexp.MustCompile(`^\s+\w+\.go:\d+: (.*)\n$`)

func parse(stream io.Reader) (*tests, error) {
	r := &tests{byName: make(map[string]*test)}
	for decoder := json.NewDecoder(stream); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return r, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the events: %w", err)
		}
		r.take(e)
	}
}

func (r *tests) take(e event) {
	r.failed = r.failed || e.Action == "fail" || e.Action == "build-fail"
	if e.Test == "" {
		return
	}
	t := r.byName[e.Test]
	if t == nil {
		t = new(test)
		r.byName[e.Test] = t
	}
	switch e.Action {
	case "pass", "fail", "skip":
		t.action = e.Action
	case "attr":
		t.lines = append(t.lines, fmt.Sprintf("%s: %s", strings.ReplaceAll(e.Key, "-", " "), e.Value))
	case "output":
		t.output = append(t.output, e.Output)
		if found := logged.FindStringSubmatch(e.Output); found != nil {
			t.lines = append(t.lines, found[1])
		}
	}
}

// hold reports whether at least one test passed and nothing failed.
func (r *tests) hold() bool {
	passed := false
	for _, t := range r.byName {
		passed = passed || t.action == "pass"
	}
	return passed && !r.failed
}

// maxOutput is the maximum number of lines that the method measured returns for a failed test.
const maxOutput = 500

// measured returns the lines of all tests, each with the name of its test. For a failed test
// it returns the first lines of the test's output instead.
func (r *tests) measured() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.byName)) {
		t := r.byName[name]
		if t.action == "fail" {
			b.WriteString(strings.Join(t.output[:min(len(t.output), maxOutput)], ""))
			continue
		}
		for _, line := range t.lines {
			fmt.Fprintf(&b, "     %s: %s\n", name, line)
		}
	}
	return b.String()
}
