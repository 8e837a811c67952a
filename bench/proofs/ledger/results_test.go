package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestResults: what go test says becomes a section, whatever the order in which
// parallel tests end.
func TestResults(t *testing.T) {
	const said = `
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"attr","Package":"p","Test":"TestB","Key":"worst-gap","Value":"99ms"}
{"Action":"output","Package":"p","Test":"TestA/x","Output":"    a_test.go:12: claimed 7 of 9\n"}
{"Action":"output","Package":"p","Test":"TestA/x","Output":"    a_test.go:13: -seed 5 runs it again\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.10s)\n"}
{"Action":"skip","Package":"p","Test":"TestA/x","Elapsed":0.05}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":2}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"pass","Package":"p"}`
	const want = "\n```\ngo test -v -count=1 -timeout=0 -run '^Test(A|B)$' ./p -args -proof\n```\n\n" +
		"* TestA: **pass** in 0.1 s\n  * x: **skip** in 0.1 s\n    * claimed 7 of 9\n* TestB: **pass** in 2.0 s\n  * worst gap: 99ms\n"
	r, err := parse(strings.NewReader(said))
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	r.write(&got, batch{pkg: "./p", tests: "^Test(A|B)$"})
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
	if !r.hold() {
		t.Error("it does not hold, want it to")
	}
}

// TestFuzzed: of a fuzz target the last words count; its line and that of a
// module of its own are commands.
func TestFuzzed(t *testing.T) {
	const said = `
{"Action":"output","Test":"FuzzA","Output":"fuzz: elapsed: 0s, gathering baseline coverage: 0/211 completed\n"}
{"Action":"output","Test":"FuzzA","Output":"fuzz: elapsed: 3s, execs: 48035 (16008/sec), new interesting: 18 (total: 229)\n"}
{"Action":"output","Test":"FuzzA","Output":"fuzz: elapsed: 4s, execs: 68648 (20308/sec), new interesting: 27 (total: 238)\n"}
{"Action":"pass","Test":"FuzzA","Elapsed":4.04}`
	r, err := parse(strings.NewReader(said))
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	r.write(&got, batch{pkg: "./p", tests: "^FuzzA$", fuzz: true})
	const want = "\n```\ngo test -v -run '^$' -fuzz '^FuzzA$' -fuzztime 1m ./p\n```\n\n* FuzzA: **pass** in 4.0 s\n  * execs: 68648\n"
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
	const nested = "go -C p/q test -v -count=1 -timeout=0 -run ^Test . -args -proof"
	if got := (batch{pkg: "./p/q", tests: "^Test", nested: true}).line(); got != nested {
		t.Errorf("line %q, want %q", got, nested)
	}
}

// TestMany: what passes in hundreds is counted; what fails is shown all the same.
func TestMany(t *testing.T) {
	r := &results{tests: map[string]*result{"TestA": {action: "fail", lines: make([]string, most+3)}}}
	for n := range 100 {
		r.tests[fmt.Sprintf("TestA/%d", n)] = &result{action: "pass"}
	}
	r.tests["TestA/7"].action = "fail"
	var out bytes.Buffer
	r.write(&out, batch{})
	for _, want := range []string{"  * and 3 lines more\n", "  * 99 tests within it pass\n", "  * 7: **fail**"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
	if got := strings.Count(out.String(), "**"); got != 4 {
		t.Errorf("%d verdicts, want those of TestA and TestA/7\n%s", got/2, &out)
	}
}

// TestHold: nothing holds that failed, was not built, or did not run.
func TestHold(t *testing.T) {
	for name, said := range map[string]string{
		"nothing":      `{"Action":"pass","Package":"p"}`,
		"only skipped": `{"Action":"skip","Package":"p","Test":"TestA"}`,
		"failed":       `{"Action":"pass","Test":"TestA"} {"Action":"fail","Test":"TestB"}`,
		"not built":    `{"Action":"pass","Test":"TestA"} {"Action":"build-fail"}`,
		"package":      `{"Action":"pass","Test":"TestA"} {"Action":"fail","Package":"p"}`,
	} {
		if r, err := parse(strings.NewReader(said)); err != nil || r.hold() {
			t.Errorf("%s: holds (%v)", name, err)
		}
	}
	if _, err := parse(strings.NewReader("FAIL")); err == nil {
		t.Error("no error from what is no JSON")
	}
}
