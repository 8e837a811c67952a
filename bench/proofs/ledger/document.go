package main

import (
	"fmt"
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

// document returns the Markdown document with the outcomes, in the order of proofs. The
// keys of outcomes are the titles of the proofs.
func document(outcomes map[string]outcome) string {
	var b strings.Builder
	b.WriteString(head)
	b.WriteString("| proof | size | commit | machine | result |\n|---|---|---|---|---|\n")
	var machines []string
	for _, p := range proofs {
		o, ok := outcomes[p.title]
		if !ok {
			continue
		}
		if !slices.Contains(machines, o.machine) {
			machines = append(machines, o.machine)
		}
		result := o.result()
		if len(o.failed) > 0 {
			result = "**FAIL**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %c | %s |\n", p.title, p.size, o.commit,
			'A'+rune(slices.Index(machines, o.machine)), result)
	}
	b.WriteString("\n")
	for i, m := range machines {
		writeItem(&b, fmt.Sprintf("Machine %c: %s", 'A'+rune(i), m))
	}
	for _, p := range proofs {
		if o, ok := outcomes[p.title]; ok {
			p.writeSection(&b, o)
		}
	}
	return b.String()
}

// writeSection writes the section of a proof: its claim and its outcome. parseOutcome
// reads the same form.
func (p proof) writeSection(b *strings.Builder, o outcome) {
	fmt.Fprintf(b, "\n## %s\n\n", p.title)
	writeParagraph(b, "", p.claim)
	fmt.Fprint(b, "\n")
	writeParagraph(b, "", fmt.Sprintf("Run on %s at commit %s: %s.", o.date, o.commit, o.machine))
	fmt.Fprint(b, "\n")
	writeParagraph(b, "", "Result: "+o.result()+".")
	for _, note := range o.notes {
		fmt.Fprint(b, "\n")
		writeParagraph(b, "", note)
	}
	if len(o.figures) > 0 {
		fmt.Fprint(b, "\n")
	}
	for _, figure := range o.figures {
		writeItem(b, figure)
	}
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

// outcomesOf returns the outcomes in a document, by the titles of the proofs.
func outcomesOf(document string) map[string]outcome {
	outcomes := make(map[string]outcome)
	for _, part := range strings.Split(document, "\n## ")[1:] {
		title, section, _ := strings.Cut(part, "\n\n")
		outcomes[title] = parseOutcome(section)
	}
	return outcomes
}
