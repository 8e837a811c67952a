package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const head = `# Proofs

This page has the results of ` + "`make proof`" + `. Each proof is a group of tests at full size; ` + "`make test`" + ` runs the same
tests at a smaller size. [The promises](design/promises.md) lists the tests of each promise. ` + "`make proof ONLY='^16\\.'`" + `
repeats one proof and prints what its tests measure. If the name of a commit ends in -dirty, the code had changes that
were not committed yet.

| proof | size | commit | machine | result |
|---|---|---|---|---|
`

// row matches the row of a proof in the table. Its groups are the title, the commit, the
// letter of the machine, and the result.
var row = regexp.MustCompile(`(?m)^\| (\d+\. .*?) \| .*? \| (\S+) \| ([A-Z]) \| (.*) \|$`)

// machine matches the line that describes a machine. Its groups are letter and description.
var machine = regexp.MustCompile(`(?m)^\* Machine ([A-Z]): (.*)$`)

// document returns the Markdown document: a table with the results, and the claims. The keys
// of results are the titles of the proofs. A proof without a result has no row in the table.
func document(results map[string]result) string {
	var b strings.Builder
	b.WriteString(head)
	var machines []string
	for _, p := range proofs {
		r, known := results[p.title]
		if !known {
			continue
		}
		if !slices.Contains(machines, r.machine) {
			machines = append(machines, r.machine)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %c | %s |\n", p.title, p.size, r.commit, 'A'+rune(slices.Index(machines, r.machine)), r.text)
	}
	b.WriteString("\n")
	for i, m := range machines {
		fmt.Fprintf(&b, "* Machine %c: %s\n", 'A'+rune(i), m)
	}
	for _, p := range proofs {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", p.title, fold(p.claim, 118))
	}
	return b.String()
}

// resultsOf returns the results in a document, by the titles of the proofs.
func resultsOf(document string) map[string]result {
	machines := make(map[string]string)
	for _, m := range machine.FindAllStringSubmatch(document, -1) {
		machines[m[1]] = m[2]
	}
	results := make(map[string]result)
	for _, r := range row.FindAllStringSubmatch(document, -1) {
		results[r[1]] = result{commit: r[2], machine: machines[r[3]], text: r[4]}
	}
	return results
}

// fold breaks text into lines of at most width characters. A word that is longer than
// width has its own line.
func fold(text string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+length > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += length
	}
	return b.String()
}
