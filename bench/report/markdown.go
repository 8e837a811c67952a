package report

import (
	"fmt"
	"strings"
)

// Markdown returns the report as a page; its plots are files beside it.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString("# Benchmark results\n\n")
	fmt.Fprintf(&b, "```\n%s\n```\n", r.Command)
	b.WriteByte('\n')
	for _, fact := range r.facts()[1:] {
		fmt.Fprintf(&b, "* %s\n", fact)
	}
	for _, s := range r.Sections {
		s.markdown(&b)
	}
	return b.String()
}

func (s *Section) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", s.Title, fold(s.About, 120))
	if len(s.Promises) > 0 {
		b.WriteByte('\n')
	}
	for _, p := range s.Promises {
		fmt.Fprintf(b, "* %s: **%s** (%s)\n", p.Name, p.Verdict(), figures(p.Checks))
		for _, fault := range p.Broken {
			fmt.Fprintf(b, "  * %s\n", fault)
		}
	}
	for i, p := range s.Plots {
		if p.drawable() {
			fmt.Fprintf(b, "\n![%s](%s)\n", p.Title, s.plotFile(i))
		}
	}
	for _, t := range s.Tables {
		if len(t.Rows) > 0 {
			fmt.Fprintf(b, "\n### %s\n\n", t.Title)
			t.markdown(b)
		}
	}
	if len(s.Missing) > 0 {
		b.WriteString("\nMissing:\n\n")
	}
	for _, m := range s.Missing {
		fmt.Fprintf(b, "* %s: %s\n", m.What, m.Why)
	}
}

func (t *Table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "| %s |\n|", strings.Join(t.Columns, " | "))
	for i := range t.Columns {
		if t.numeric(i) {
			b.WriteString(" ---: |")
		} else {
			b.WriteString(" --- |")
		}
	}
	b.WriteByte('\n')
	for _, cells := range t.Rows {
		b.WriteByte('|')
		for _, cell := range cells {
			fmt.Fprintf(b, " %s |", strings.ReplaceAll(cell.Text, "|", `\|`))
		}
		b.WriteByte('\n')
	}
}
