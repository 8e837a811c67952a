package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/bench/report"
)

const head = `# Proofs

This page has the results of ` + "`make proof`" + `. Each proof is a group of tests at full size; ` + "`make test`" + ` runs the same
tests at a smaller size. [The promises](design/promises.md) lists the tests of each promise. ` + "`make proof ONLY='^16\\.'`" + `
repeats one proof. If the name of a commit ends in -dirty, the code had changes that were not committed yet.

The server of the synthetic web writes a log of all requests, and the log is used to judge a crawl. If the server
reads a request late, the next request seems to come too early. The log also has this lateness. *Too early beyond the
lateness* is the rest after it was subtracted, and must be 0.

In some tests a server loses its last writes on purpose. There the audit must notice the loss (*exit code 1*), and the
records must show that the URLs were found again.

`

// summary matches the commit, the machine and the result in a section whose lines are joined.
var summary = regexp.MustCompile(`Run on \S+ at commit (\S+): (.+?)\. Result: (pass, \d+ tests? in \d+ s|\*\*FAIL\*\*)`)

// document returns the Markdown document with the given sections, in the order of proofs.
// The keys of sections are the titles of the proofs. A section that summary does not match
// has no row in the table.
func document(sections map[string]string) string {
	var table, all strings.Builder
	var machines []string
	for _, p := range proofs {
		section, known := sections[p.title]
		if !known {
			continue
		}
		fmt.Fprintf(&all, "\n## %s\n\n%s", p.title, section)
		found := summary.FindStringSubmatch(strings.Join(strings.Fields(section), " "))
		if found == nil {
			continue
		}
		commit, machine, result := found[1], found[2], found[3]
		if !slices.Contains(machines, machine) {
			machines = append(machines, machine)
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %c | %s |\n", p.title, p.size, commit, 'A'+rune(slices.Index(machines, machine)), result)
	}
	table.WriteString("\n")
	for i, m := range machines {
		writeItem(&table, fmt.Sprintf("Machine %c: %s", 'A'+rune(i), m))
	}
	return head + "| proof | size | commit | machine | result |\n|---|---|---|---|---|\n" + table.String() + all.String()
}

// section returns the section of a proof: its claim and its outcome. The section is the only
// record of the run. The function document takes the proof's row of the table from it.
func (p proof) section(o outcome) string {
	var b strings.Builder
	for _, text := range []string{p.claim, fmt.Sprintf("Run on %s at commit %s: %s.", o.date, o.commit, o.machine), "Result: " + o.result() + "."} {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		writeParagraph(&b, "", text)
	}
	if len(o.figures) > 0 {
		b.WriteString("\n")
	}
	for _, figure := range o.figures {
		writeItem(&b, figure)
	}
	return b.String()
}

func writeItem(b *strings.Builder, text string) { writeParagraph(b, "* ", text) }

// columns is the maximum length of a line of the document, in characters.
const columns = 118

// writeParagraph writes a text in lines whose maximum length is the constant columns.
// The first line begins with a mark. The other lines are indented by the length of the
// mark.
func writeParagraph(b *strings.Builder, mark, text string) {
	indent := strings.Repeat(" ", len(mark))
	lines := report.Fold(text, columns-len(mark))
	b.WriteString(mark + strings.ReplaceAll(lines, "\n", "\n"+indent) + "\n")
}

// sectionsOf returns the sections in a document, by the titles of the proofs.
func sectionsOf(document string) map[string]string {
	sections := make(map[string]string)
	for _, part := range strings.Split(document, "\n## ")[1:] {
		title, section, _ := strings.Cut(part, "\n\n")
		sections[title] = section
	}
	return sections
}
