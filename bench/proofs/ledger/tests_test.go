package main

import (
	"strings"
	"testing"
)

// TestResultsOfTests checks that the output of go test becomes the right outcome, whatever
// the order in which parallel tests end.
func TestResultsOfTests(t *testing.T) {
	const said = `
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"attr","Package":"p","Test":"TestB","Key":"two-workers","Value":"99 pages/s"}
{"Action":"attr","Package":"p","Test":"TestB","Key":"worst-gap","Value":"99ms"}
{"Action":"output","Package":"p","Test":"TestA/x","Output":"    a_test.go:12: claimed 7 of 9\n"}
{"Action":"output","Package":"p","Test":"TestA/x","Output":"    a_test.go:13: -seed 5 runs it again\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.10s)\n"}
{"Action":"skip","Package":"p","Test":"TestA/x","Elapsed":0.05}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":2}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"pass","Package":"p"}`
	r, err := parse(strings.NewReader(said))
	if err != nil {
		t.Fatal(err)
	}
	if !r.hold() {
		t.Error("hold() = false for tests that passed, want true")
	}
	var o outcome
	if o.add(r); o.String() != "pass, 2 tests in 0 s" {
		t.Errorf("the outcome is %q, want that 2 tests passed", o)
	}
	const want = `     TestA/x: claimed 7 of 9
     TestA/x: -seed 5 runs it again
     TestB: two workers: 99 pages/s
     TestB: worst gap: 99ms
`
	if got := r.measured(); got != want {
		t.Errorf("measured %q, want %q", got, want)
	}
}

// TestOutputOfFailedTest checks that all lines of a failed test are shown, also those that do
// not begin with a file name.
func TestOutputOfFailedTest(t *testing.T) {
	r, err := parse(strings.NewReader(`
{"Action":"output","Test":"TestA","Output":"    a_test.go:12: exit code 1; stderr:\n"}
{"Action":"output","Test":"TestA","Output":"        crawler: no memory\n"}
{"Action":"fail","Test":"TestA"}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = "    a_test.go:12: exit code 1; stderr:\n        crawler: no memory\n"
	if got := r.measured(); got != want {
		t.Errorf("measured %q, want %q", got, want)
	}
}

// TestArguments checks the arguments of the go command for all kinds of batches.
func TestArguments(t *testing.T) {
	for b, want := range map[batch]string{
		{pkg: "./p", tests: "^FuzzA$", fuzz: true}:            "test -json -run ^$ -fuzz ^FuzzA$ -fuzztime 1m ./p",
		{pkg: "./p/q", tests: "^Test", nested: true}:          "-C p/q test -json -count=1 -timeout=0 -run ^Test . -args -proof",
		{pkg: "./p", tests: "^Test", race: true, fixed: true}: "test -json -race -count=1 -timeout=0 -run ^Test ./p",
	} {
		if got := strings.Join(b.args("-json"), " "); got != want {
			t.Errorf("arguments %q, want %q", got, want)
		}
	}
}

// TestHeldResults checks that a batch does not hold if a test failed, was not built, or did
// not run, and that the outcome names the failure.
func TestHeldResults(t *testing.T) {
	for name, said := range map[string]string{
		"nothing":      `{"Action":"pass","Package":"p"}`,
		"only skipped": `{"Action":"skip","Package":"p","Test":"TestA"}`,
		"failed":       `{"Action":"pass","Test":"TestA"} {"Action":"fail","Test":"TestB"}`,
		"not built":    `{"Action":"pass","Test":"TestA"} {"Action":"build-fail"}`,
		"package":      `{"Action":"pass","Test":"TestA"} {"Action":"fail","Package":"p"}`,
	} {
		r, err := parse(strings.NewReader(said))
		if err != nil || r.hold() {
			t.Errorf("%s: error %v, or hold() is true; want no error and false", name, err)
			continue
		}
		var o outcome
		if o.add(r); len(o.failed) == 0 {
			t.Errorf("%s: the outcome %q names no failed test", name, o)
		}
	}
	if _, err := parse(strings.NewReader("FAIL")); err == nil {
		t.Error("parse of text that is no JSON: no error")
	}
}
