package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Markdown returns the report in Markdown, for a file or a terminal.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmark results\n\n```\n%s\n```\n\n", r.Command)
	for _, fact := range r.facts() {
		fmt.Fprintf(&b, "* %s\n", fact)
	}
	for _, s := range r.Sections {
		s.markdown(&b)
	}
	return b.String()
}

// facts describes the origin of the figures, such as version and machine, with one fact
// per element.
func (r *Report) facts() []string {
	facts := []string{"version: " + r.Version + ", " + r.Go, "machine: " + r.Machine}
	for _, s := range r.Servers {
		facts = append(facts, fmt.Sprintf("%s: %s", s.Name, s.Version))
	}
	seconds := func(s float64) time.Duration {
		return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond)
	}
	facts = append(facts, fmt.Sprintf("run: %s, %v of a budget of %v, seed %d", r.Began.UTC().Format(time.RFC3339),
		seconds(r.Took), seconds(r.Budget), r.Seed))
	if end := r.budgetEnd(); end != "" {
		facts = append(facts, end)
	}
	return facts
}

// budgetEnd says where the budget ended the run. It returns "" if the budget sufficed.
func (r *Report) budgetEnd() string {
	count, where := 0, ""
	for _, s := range r.Sections {
		for _, m := range s.Missing {
			if !m.Budget {
				continue
			}
			if count++; count == 1 {
				where = fmt.Sprintf("%s: %s: %s", s.Name, m.What, m.Why)
			}
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("the budget ended the run: %s (measurements without a result: %d)", where, count)
}

func (s *Section) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", s.Title, s.About)
	if len(s.Promises) > 0 {
		b.WriteByte('\n')
	}
	for _, p := range s.Promises {
		figures := fmt.Sprintf("%d figures", p.Checks)
		if p.Checks == 1 {
			figures = "1 figure"
		}
		fmt.Fprintf(b, "* %s: **%s** (%s)\n", p.Name, p.Verdict(), figures)
		for _, fault := range p.Broken {
			fmt.Fprintf(b, "  * %s\n", fault)
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

// markdown writes the table with aligned columns. Columns of numbers are right-aligned.
func (t *Table) markdown(b *strings.Builder) {
	lines := make([][]string, len(t.Rows)+2)
	for column, name := range t.Columns {
		numeric := slices.ContainsFunc(t.Rows, func(cells []Cell) bool { return cells[column].Value != nil })
		texts := []string{name, ""}
		for _, cells := range t.Rows {
			texts = append(texts, strings.ReplaceAll(cells[column].Text, "|", `\|`))
		}
		width := 3
		for _, text := range texts {
			width = max(width, utf8.RuneCountInString(text))
		}
		texts[1] = strings.Repeat("-", width)
		if numeric {
			texts[1] = texts[1][1:] + ":"
		}
		for i, text := range texts {
			pad := strings.Repeat(" ", width-utf8.RuneCountInString(text))
			if numeric {
				text = pad + text
			} else {
				text += pad
			}
			lines[i] = append(lines[i], text)
		}
	}
	for _, line := range lines {
		fmt.Fprintf(b, "| %s |\n", strings.Join(line, " | "))
	}
}
