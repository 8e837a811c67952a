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
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: ledger FILE")
		os.Exit(2)
	}
	holds, err := run(os.Args[1], os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		os.Exit(1)
	}
	if !holds {
		os.Exit(1)
	}
}

// run runs all proofs and writes file; it reports whether all of them hold.
func run(file string, progress io.Writer) (holds bool, err error) {
	var out bytes.Buffer
	out.WriteString(machine())
	holds = true
	for _, p := range proofs {
		fmt.Fprintf(progress, "==> %s\n", p.title)
		fmt.Fprintf(&out, "\n## %s\n\n%s\n", p.title, p.claim)
		for _, b := range p.batches {
			began := time.Now()
			results, err := b.run()
			if err != nil {
				return false, err
			}
			holds = holds && results.hold()
			results.write(&out, b)
			fmt.Fprintf(progress, "%-4s %s %s (%v)\n", results.verdict(), b.pkg, b.tests, time.Since(began).Round(time.Second))
		}
	}
	return holds, os.WriteFile(file, out.Bytes(), 0o644)
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

// machine returns the head of the document: what was run, and on what.
func machine() string {
	var b strings.Builder
	b.WriteString("# Proofs\n\nMade by `make proof`. Each section has the line that runs it again; where a seed is given, `-seed N` behind `-args` draws the same.\n\n")
	fmt.Fprintf(&b, "* commit: %s\n", output("git", "describe", "--tags", "--always", "--dirty"))
	fmt.Fprintf(&b, "* date: %s\n", time.Now().UTC().Format(time.DateOnly))
	fmt.Fprintf(&b, "* Go: %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(&b, "* machine: %d cores, %s, %s\n", runtime.NumCPU(), field("/proc/cpuinfo", "model name"), field("/proc/meminfo", "MemTotal"))
	return b.String()
}

// output returns what a command prints in one line.
func output(name string, args ...string) string {
	text, err := exec.Command(name, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// field returns a value of a file of lines "name : value".
func field(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return name + " unknown"
}
