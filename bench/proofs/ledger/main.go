// Command ledger runs the proofs of all packages at full size, one after the other,
// and writes docs/proofs.md. A proof is a group of tests that check one claim about the
// crawler. For each proof, docs/proofs.md has a line in a table, and a section with the
// claim. Ledger prints what the tests measure. `make proof` runs ledger in the
// repository's root.
//
// proofs.go lists the proofs. Ledger runs the tests with the flag -proof, except for
// tests that have only one size. It reads the output of `go test -json`. Measurements are
// the attributes of a test (testing.T.Attr) and the lines that the test logs.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/bench/report"
)

// A result is the outcome of a proof, as docs/proofs.md shows it.
type result struct {
	commit, machine string
	text            string // pass with the number of tests and the time, or the tests that failed
}

func main() {
	only := flag.String("only", "", "run the proofs whose title this `REGEXP` matches, and keep the results of the others")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: ledger [-only REGEXP] FILE")
		flag.PrintDefaults()
	}
	flag.Parse()
	which, err := regexp.Compile(*only)
	if flag.NArg() != 1 || err != nil {
		flag.Usage()
		os.Exit(2)
	}
	holds, err := run(flag.Arg(0), which, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		os.Exit(1)
	}
	if !holds {
		os.Exit(1)
	}
}

// run runs the proofs whose titles match pattern. After each proof it writes the document
// to file. It reports whether all of these proofs hold.
func run(file string, pattern *regexp.Regexp, progress io.Writer) (holds bool, err error) {
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	results := resultsOf(string(before))
	commit := "unknown"
	if text, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output(); err == nil { // before the file changes
		commit = strings.TrimSpace(string(text))
	}
	machine := runtime.Version() + ", " + report.Machine()
	write := func() error { return os.WriteFile(file, []byte(document(results)), 0o644) }
	holds = true
	for _, p := range proofs {
		if !pattern.MatchString(p.title) {
			continue
		}
		fmt.Fprintf(progress, "==> %s\n", p.title)
		o, err := p.run(progress)
		if err != nil {
			return false, err
		}
		holds = holds && len(o.failed) == 0
		results[p.title] = result{commit, machine, o.String()}
		if err := write(); err != nil {
			return false, err
		}
	}
	return holds, write() // also if no proof ran, because a claim may have changed
}

// run runs the tests of a proof. A failed test is an outcome and not an error.
func (p proof) run(progress io.Writer) (o outcome, err error) {
	start := time.Now()
	for _, b := range p.batches {
		began := time.Now()
		tests, err := b.run()
		if err != nil {
			return o, err
		}
		o.add(tests)
		verdict := "FAIL"
		if tests.hold() {
			verdict = "ok"
		}
		fmt.Fprintf(progress, "%-4s %s %s (%v)\n%s", verdict, b.pkg, b.tests, time.Since(began).Round(time.Second), tests.measured())
	}
	o.seconds = int(time.Since(start).Seconds())
	return o, nil
}

// run runs the tests of a batch. A failed test is an outcome and not an error.
func (b batch) run() (*tests, error) {
	cmd := exec.Command("go", b.args("-json")...)
	cmd.Env = os.Environ()
	if b.race {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	stdout, err := cmd.Output()
	tests, parseErr := parse(bytes.NewReader(stdout))
	if parseErr != nil {
		return nil, fmt.Errorf("%s: %w", cmd, parseErr)
	}
	if err != nil && tests.hold() { // no test failed, so the error has another cause
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, &said)
	}
	return tests, nil
}
