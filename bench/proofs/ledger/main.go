// Command ledger runs the proofs of all packages at full size, one after the other,
// and writes docs/proofs.md. For each proof, that file has a line in a table, and a
// section with its claim and the measurements of its tests. `make proof` runs ledger
// in the repository's root.
//
// proofs.go lists the proofs. Ledger runs the tests with the flag -proof, except for
// tests that have only one size. It reads the output of `go test -json`. Figures are the
// attributes of a test (testing.T.Attr) and the lines that the test logs.
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
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/bench/report"
)

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
	sections := sectionsOf(string(before))
	commit := "unknown"
	if text, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output(); err == nil { // before the file changes
		commit = strings.TrimSpace(string(text))
	}
	holds = true
	for _, p := range proofs {
		if !pattern.MatchString(p.title) {
			continue
		}
		fmt.Fprintf(progress, "==> %s\n", p.title)
		o, err := p.run(commit, progress)
		if err != nil {
			return false, err
		}
		holds = holds && len(o.failed) == 0
		sections[p.title] = p.section(o)
		if err := os.WriteFile(file, []byte(document(sections)), 0o644); err != nil {
			return false, err
		}
	}
	return holds, nil
}

// run runs the tests of a proof. A failed test is an outcome and not an error.
func (p proof) run(commit string, progress io.Writer) (outcome, error) {
	start, machine := time.Now(), report.ThisMachine()
	o := outcome{date: start.UTC().Format(time.DateOnly), commit: commit, machine: machine.Go + ", " + machine.String()}
	for _, b := range p.batches {
		began := time.Now()
		results, err := b.run()
		if err != nil {
			return o, err
		}
		results.add(&o)
		verdict := "FAIL"
		if results.hold() {
			verdict = "ok"
		}
		fmt.Fprintf(progress, "%-4s %s %s (%v)\n", verdict, b.pkg, b.tests, time.Since(began).Round(time.Second))
	}
	o.seconds = int(time.Since(start).Seconds())
	return o, nil
}

// run runs the tests of a batch. A failed test is a result and not an error.
func (b batch) run() (*results, error) {
	cmd := exec.Command("go", b.args("-json")...)
	cmd.Env = os.Environ()
	if b.race {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	stdout, err := cmd.Output()
	results, parseErr := parse(bytes.NewReader(stdout))
	if parseErr != nil {
		return nil, fmt.Errorf("%s: %w", cmd, parseErr)
	}
	if err != nil && results.hold() { // no test failed, so the error has another cause
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, &said)
	}
	return results, nil
}
