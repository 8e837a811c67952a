// Package report runs the steps of a benchmark within a time budget, and makes the report of
// the run. A report has tables, and promises that were kept or broken. It names the machine,
// the versions and the command of the run.
//
// The package owns the forms of the report: report.json, and the Markdown, which is also the
// text for a terminal. It measures nothing. A report is valid at any time: it lists the
// measurements that are missing.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
)

// Report is one run. Sizes are in bytes and times in seconds.
type Report struct {
	Command  string     `json:"command"`
	Version  string     `json:"version"`
	Machine  string     `json:"machine"`
	Servers  []string   `json:"servers,omitempty"` // names and versions
	Began    time.Time  `json:"began"`
	Took     float64    `json:"took"`
	Budget   float64    `json:"budget"`
	Seed     uint64     `json:"seed"`
	Ended    string     `json:"ended,omitempty"` // where the budget ended the run; empty if it sufficed
	Sections []*Section `json:"sections"`
}

// Section is the part of a report about one subject.
type Section struct {
	Name     string     `json:"name"` // the name of the subcommand
	Title    string     `json:"title"`
	About    string     `json:"about"` // how the figures were measured, in Markdown
	Promises []*Promise `json:"promises,omitempty"`
	Tables   []*Table   `json:"tables,omitempty"`
	Missing  []Missing  `json:"missing,omitempty"`

	steps []step
}

// Promise is a statement that the measured figures must satisfy.
type Promise struct {
	Name   string   `json:"name"`
	Checks int      `json:"checks"`           // number of figures that were checked
	Broken []string `json:"broken,omitempty"` // descriptions of the figures that break it
}

// Missing is a measurement without a result.
type Missing struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Table is a table, with a caption.
type Table struct {
	Title   string   `json:"title"`
	Columns []string `json:"columns"`
	Rows    [][]Cell `json:"rows"`
}

// Cell is one cell of a table: a text and, for programs, its value.
type Cell struct {
	Text  string   `json:"text"`
	Value *float64 `json:"value,omitempty"` // nil if the cell has only words, or JSON cannot represent the value
}

// New returns a report without sections, of a run that begins now. The argument command is its
// command line, without secrets.
func New(command, version string, budget time.Duration, seed uint64) *Report {
	return &Report{Command: command, Version: version + ", " + runtime.Version(), Machine: machine(),
		Began: time.Now().UTC(), Budget: budget.Seconds(), Seed: seed}
}

// machine describes this machine in a few words. Only Linux tells the model of the processor.
func machine() string {
	words := fmt.Sprintf("%d cores, %s %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	cpus, _ := os.ReadFile("/proc/cpuinfo")
	if _, rest, found := strings.Cut(string(cpus), "model name\t: "); found {
		model, _, _ := strings.Cut(rest, "\n")
		words += ", " + model
	}
	return words
}

// Promise adds a promise. No figure has been checked yet.
func (s *Section) Promise(name string) *Promise {
	p := &Promise{Name: name}
	s.Promises = append(s.Promises, p)
	return p
}

// Table adds a table without rows.
func (s *Section) Table(title string, columns ...string) *Table {
	t := &Table{Title: title, Columns: columns}
	s.Tables = append(s.Tables, t)
	return t
}

// Miss adds a measurement that has no result.
func (s *Section) Miss(what, why string) {
	s.Missing = append(s.Missing, Missing{what, why})
}

// Row adds a row. If there are fewer cells than columns, the last cells are empty.
func (t *Table) Row(cells ...Cell) {
	t.Rows = append(t.Rows, append(cells, make([]Cell, len(t.Columns)-len(cells))...))
}

// Hold records whether one figure keeps the promise. format and args describe the
// figure.
func (p *Promise) Hold(kept bool, format string, args ...any) {
	p.Checks++
	if !kept {
		p.Broken = append(p.Broken, fmt.Sprintf(format, args...))
	}
}

// Broken returns the descriptions of all broken promises.
func (r *Report) Broken() (broken []string) {
	for _, s := range r.Sections {
		for _, p := range s.Promises {
			broken = append(broken, p.Broken...)
		}
	}
	return broken
}

// Words returns a cell with a text and without a value.
func Words(text string) Cell { return Cell{Text: text} }

// Number returns a cell with a number. The text shows the given number of significant digits.
func Number(value float64, digits int) Cell {
	return numeric(fmt.Sprintf("%.*g", digits, value), value)
}

// Fixed returns a cell with a number. The text shows at most the given number of decimals.
func Fixed(value float64, decimals int) Cell {
	scale := math.Pow10(decimals)
	return numeric(humanize.CommafWithDigits(math.Round(value*scale)/scale, decimals), value) // humanize does not round
}

// Count returns a cell with a whole number.
func Count(n uint64) Cell {
	return numeric(humanize.Comma(int64(min(n, math.MaxInt64))), float64(n))
}

func numeric(text string, value float64) Cell {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return Words(text)
	}
	return Cell{text, &value}
}

// The files that Write creates.
const (
	JSONFile     = "report.json"
	MarkdownFile = "RESULTS.md"
)

// Write writes report.json and RESULTS.md to dir. It makes dir if needed. Each file is written
// as a whole or not at all.
func (r *Report) Write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err = errors.Join(err, os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	return errors.Join(replace(filepath.Join(dir, JSONFile), append(text, '\n')), replace(filepath.Join(dir, MarkdownFile), []byte(r.Markdown())))
}

// replace writes a temporary file and renames it to name.
func replace(name string, content []byte) error {
	if err := os.WriteFile(name+".part", content, 0o644); err != nil {
		return err
	}
	return os.Rename(name+".part", name)
}

// Markdown returns the report in Markdown, for a file or a terminal.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmark results\n\n```\n%s\n```\n\n* version: %s\n* machine: %s\n", r.Command, r.Version, r.Machine)
	if len(r.Servers) > 0 {
		fmt.Fprintf(&b, "* servers: %s\n", strings.Join(r.Servers, ", "))
	}
	fmt.Fprintf(&b, "* run: %s, %.1f s of a budget of %g s, seed %d\n", r.Began.UTC().Format(time.RFC3339), r.Took, r.Budget, r.Seed)
	if r.Ended != "" {
		fmt.Fprintf(&b, "* the budget ended the run: %s\n", r.Ended)
	}
	for _, s := range r.Sections {
		s.markdown(&b)
	}
	return b.String()
}

func (s *Section) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", s.Title, s.About)
	for i, p := range s.Promises {
		if i == 0 {
			b.WriteByte('\n')
		}
		verdict := "kept"
		switch {
		case len(p.Broken) > 0:
			verdict = "broken"
		case p.Checks == 0:
			verdict = "not measured"
		}
		fmt.Fprintf(b, "* %s: **%s** (%d checked)\n", p.Name, verdict, p.Checks)
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

// markdown writes the table with aligned columns.
func (t *Table) markdown(b *strings.Builder) {
	w := tabwriter.NewWriter(b, 0, 0, 1, ' ', 0)
	line := func(cells []string) { fmt.Fprintf(w, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	rules := make([]string, len(t.Columns))
	for i := range rules {
		rules[i] = "---"
		if slices.ContainsFunc(t.Rows, func(row []Cell) bool { return row[i].Value != nil }) {
			rules[i] = "--:"
		}
	}
	line(t.Columns)
	line(rules)
	for _, row := range t.Rows {
		texts := make([]string, len(row))
		for i, cell := range row {
			texts[i] = strings.ReplaceAll(cell.Text, "|", `\|`)
		}
		line(texts)
	}
	_ = w.Flush() // writes to a Builder do not fail
}
