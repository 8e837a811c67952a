// Command ledger runs the proofs of all packages at full size, one after the
// other, and writes docs/proofs.md: what each proves, the line that runs it
// again, and what came out. `make proof` calls it from the repository's root.
//
// Which proofs there are stands in proofs.go. It needs no more of a test than
// -proof and what `go test -json` says; figures are a test's attributes
// (testing.T.Attr), and what it logs.
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
	only := flag.String("only", "", "run the sections whose title this `REGEXP` matches, and keep the others as they are in the file")
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

// run runs the proofs that only matches and writes file anew after each; it
// reports whether all of them hold. Each section says at
// which commit it ran, and on what.
func run(file string, only *regexp.Regexp, progress io.Writer) (holds bool, err error) {
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	sections := sectionsOf(string(before))
	commit := output("git", "describe", "--tags", "--always", "--dirty") // before the file changes
	holds = true
	for _, p := range proofs {
		if !only.MatchString(p.title) {
			continue
		}
		fmt.Fprintf(progress, "==> %s\n", p.title)
		section, held, err := p.run(commit, progress)
		if err != nil {
			return false, err
		}
		holds = holds && held
		sections[p.title] = section
		if err := os.WriteFile(file, []byte(document(sections)), 0o644); err != nil {
			return false, err
		}
	}
	return holds, nil
}

// run returns the section of a proof, and whether it holds.
func (p proof) run(commit string, progress io.Writer) (section string, holds bool, err error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n\nRun on %s at commit %s: %s.\n", p.claim, time.Now().UTC().Format(time.DateOnly), commit, machine())
	holds = true
	for _, b := range p.batches {
		began := time.Now()
		results, err := b.run()
		if err != nil {
			return "", false, err
		}
		holds = holds && results.hold()
		results.write(&out, b)
		fmt.Fprintf(progress, "%-4s %s %s (%v)\n", results.verdict(), b.pkg, b.tests, time.Since(began).Round(time.Second))
	}
	return out.String(), holds, nil
}

// document puts the sections that there are in their order.
func document(sections map[string]string) string {
	var b strings.Builder
	b.WriteString(head)
	for _, p := range proofs {
		if section, ok := sections[p.title]; ok {
			fmt.Fprintf(&b, "\n## %s\n\n%s", p.title, section)
		}
	}
	return b.String()
}

// sectionsOf takes a document apart, by titles.
func sectionsOf(document string) map[string]string {
	sections := make(map[string]string)
	for _, part := range strings.Split(document, "\n## ")[1:] {
		title, section, _ := strings.Cut(part, "\n\n")
		sections[title] = section
	}
	return sections
}

// run runs the tests of a batch. That a test fails is a result, no error.
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
	if err != nil && results.hold() { // not a test that failed
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, &said)
	}
	return results, nil
}

// head is how the document begins.
const head = "# Proofs\n\nMade by `make proof`. Each section has the line that runs it again; where a seed is given, `-seed N` behind `-args` draws the same.\n"

// machine says what runs a proof.
func machine() string {
	m := report.ThisMachine()
	return m.Go + ", " + m.String()
}

// output returns what a command prints in one line.
func output(name string, args ...string) string {
	text, err := exec.Command(name, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
