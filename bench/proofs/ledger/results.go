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

type results struct {
	tests  map[string]*result // by the name of the test
	failed bool               // a test or a package failed, or was not built
}

type result struct {
	action string   // pass, fail or skip
	lines  []string // attributes and logged lines
	fuzzed string   // the last progress of a fuzz target
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

// fuzzed matches a line with the progress of a fuzz target.
var fuzzed = regexp.MustCompile(`^fuzz: elapsed: .*(execs: \d+)`)

func parse(stream io.Reader) (*results, error) {
	r := &results{tests: make(map[string]*result)}
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

func (r *results) take(e event) {
	r.failed = r.failed || e.Action == "fail" || e.Action == "build-fail"
	if e.Test == "" {
		return
	}
	t := r.tests[e.Test]
	if t == nil {
		t = new(result)
		r.tests[e.Test] = t
	}
	switch e.Action {
	case "pass", "fail", "skip":
		t.action = e.Action
		if t.fuzzed != "" {
			t.lines = append(t.lines, t.fuzzed)
		}
	case "attr":
		t.lines = append(t.lines, fmt.Sprintf("%s: %s", strings.ReplaceAll(e.Key, "-", " "), e.Value))
	case "output":
		if found := logged.FindStringSubmatch(e.Output); found != nil && !strings.HasPrefix(found[1], "-seed ") {
			t.lines = append(t.lines, found[1])
		}
		if found := fuzzed.FindStringSubmatch(e.Output); found != nil {
			t.fuzzed = found[1]
		}
	}
}

// hold reports whether at least one test passed and nothing failed.
func (r *results) hold() bool {
	passed := false
	for _, t := range r.tests {
		passed = passed || t.action == "pass"
	}
	return passed && !r.failed
}

// add adds the tests of a batch to a proof's outcome: the number of tests, the failed
// tests, and the figures.
func (r *results) add(o *outcome) {
	for _, name := range slices.Sorted(maps.Keys(r.tests)) {
		t := r.tests[name]
		if path.Dir(name) == "." {
			o.tests++
		}
		if t.action == "fail" {
			o.failed = append(o.failed, name)
		}
		o.addFigures(name, t.lines)
	}
	if !r.hold() && len(o.failed) == 0 {
		o.failed = append(o.failed, "nothing ran, or a package does not build")
	}
}
