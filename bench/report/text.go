package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Text returns the report for a terminal.
func (r *Report) Text() string {
	var b strings.Builder
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "%s\n%s\n", s.Title, fold(s.About, 100))
		for _, t := range s.Tables {
			if len(t.Rows) > 0 {
				fmt.Fprintf(&b, "\n%s\n%s", t.Title, t.text())
			}
		}
		b.WriteByte('\n')
		for _, p := range s.Promises {
			fmt.Fprintf(&b, "%s: %s (%s)\n", p.Name, p.Verdict(), figures(p.Checks))
			for _, fault := range p.Broken {
				fmt.Fprintf(&b, "  %s\n", fault)
			}
		}
		for _, m := range s.Missing {
			fmt.Fprintf(&b, "missing: %s: %s\n", m.What, m.Why)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s\n", strings.Join(r.facts(), "\n"))
	return b.String()
}

// facts say where the figures come from, a line each.
func (r *Report) facts() []string {
	version := r.Version
	if r.Commit != "" {
		version += ", commit " + r.Commit
	}
	facts := []string{
		"command: " + r.Command,
		"version: " + version + ", " + r.Machine.Go,
		"machine: " + r.Machine.String(),
	}
	for _, s := range r.Servers {
		whose := "named on the command line, so others may use it too"
		if s.Private {
			whose = "private to this run"
		}
		facts = append(facts, fmt.Sprintf("%s: %s, %s", s.Name, s.Version, whose))
	}
	return append(facts, fmt.Sprintf("run: %s, %v of a budget of %v, seed %d", r.Began.UTC().Format(time.RFC3339),
		seconds(r.Took), seconds(r.Budget), r.Seed))
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond)
}

func figures(n int) string {
	if n == 1 {
		return "1 figure"
	}
	return fmt.Sprintf("%d figures", n)
}

// text returns the table in columns.
func (t *Table) text() string {
	w := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.Options{}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	w.SetStyle(style)
	w.AppendHeader(row(t.Columns, func(column string) string { return column }))
	var configs []table.ColumnConfig
	for i := range t.Columns {
		if t.numeric(i) {
			configs = append(configs, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	w.SetColumnConfigs(configs)
	for _, cells := range t.Rows {
		w.AppendRow(row(cells, func(c Cell) string { return c.Text }))
	}
	var b strings.Builder
	for line := range strings.Lines(w.Render()) {
		fmt.Fprintf(&b, "  %s\n", strings.TrimRight(line, " \n"))
	}
	return b.String()
}

func row[T any](cells []T, text func(T) string) table.Row {
	all := make(table.Row, len(cells))
	for i, cell := range cells {
		all[i] = text(cell)
	}
	return all
}

// numeric reports whether a column has numbers.
func (t *Table) numeric(column int) bool {
	for _, cells := range t.Rows {
		if cells[column].Value != nil {
			return true
		}
	}
	return false
}

// fold breaks text into lines of at most width letters, where a word is not longer.
func fold(text string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		length := len([]rune(word))
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
