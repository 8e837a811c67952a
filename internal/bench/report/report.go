// Package report makes the report of a benchmark run. A report has tables, plots, and
// promises that were kept or broken. It names the machine, the versions and the command
// of the run.
//
// The package owns the format of report.json. From the same data it makes the Markdown,
// the text for a terminal and the plots. It collects facts about the machine, but measures
// nothing else. A report is valid at any time: it lists the measurements that are missing.
package report

import (
	"fmt"
	"slices"
	"time"
)

// Format is the version of report.json.
const Format = 2

// Report is one run. Sizes are in bytes and times in seconds.
type Report struct {
	Format   int        `json:"format"`
	Command  string     `json:"command"`
	Version  string     `json:"version"`
	Commit   string     `json:"commit"` // empty means not known
	Began    time.Time  `json:"began"`
	Took     float64    `json:"took"`
	Budget   float64    `json:"budget"`
	Seed     uint64     `json:"seed"`
	Go       string     `json:"go"`
	Machine  string     `json:"machine"`
	Servers  []Server   `json:"servers"`
	Sections []*Section `json:"sections"`
}

// Server is a server that was used in the run.
type Server struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Private bool   `json:"private"` // started for this run, and used by no other program
}

// Section is the part of a report about one subject.
type Section struct {
	Name     string     `json:"name"` // the name of the subcommand
	Title    string     `json:"title"`
	About    string     `json:"about"` // how the figures were measured, in Markdown
	Promises []*Promise `json:"promises"`
	Tables   []*Table   `json:"tables"`
	Plots    []*Plot    `json:"plots"`
	Missing  []Missing  `json:"missing"`
}

// Promise is a statement that the measured figures must satisfy.
type Promise struct {
	Name   string   `json:"name"`
	Checks int      `json:"checks"` // number of figures that were checked
	Broken []string `json:"broken"` // descriptions of the figures that break it
}

// Missing is a measurement without a result.
type Missing struct {
	What   string `json:"what"`
	Why    string `json:"why"`
	Budget string `json:"budget,omitempty"` // what the budget did: ended it, or left no time for it; else empty
}

// Values of Missing.Budget.
const (
	BudgetEnded   = "ended"
	BudgetLeftOut = "left out"
)

// Table is a table, with a caption.
type Table struct {
	Title   string   `json:"title"`
	Columns []string `json:"columns"`
	Rows    [][]Cell `json:"rows"`
}

// NewSection returns a section without figures.
func NewSection(name, title, about string) *Section {
	return &Section{Name: name, Title: title, About: about,
		Promises: []*Promise{}, Tables: []*Table{}, Plots: []*Plot{}, Missing: []Missing{}}
}

// Promise adds a promise. No figure has been checked yet.
func (s *Section) Promise(name string) *Promise {
	p := &Promise{Name: name, Broken: []string{}}
	s.Promises = append(s.Promises, p)
	return p
}

// Table adds a table without rows.
func (s *Section) Table(title string, columns ...string) *Table {
	t := &Table{Title: title, Columns: columns, Rows: [][]Cell{}}
	s.Tables = append(s.Tables, t)
	return t
}

// Plot adds a plot without lines.
func (s *Section) Plot(p Plot) *Plot {
	p.Lines = []*Line{}
	s.Plots = append(s.Plots, &p)
	return s.Plots[len(s.Plots)-1]
}

// Miss adds a measurement that has no result.
func (s *Section) Miss(what, why string) {
	s.Missing = append(s.Missing, Missing{What: what, Why: why})
}

// Row adds a row. If there are fewer cells than columns, the last cells are empty.
func (t *Table) Row(cells ...Cell) {
	for len(cells) < len(t.Columns) {
		cells = append(cells, Cell{})
	}
	t.Rows = append(t.Rows, cells)
}

// Hold records whether one figure keeps the promise. format and args describe the
// figure.
func (p *Promise) Hold(kept bool, format string, args ...any) {
	p.Checks++
	if !kept {
		p.Broken = append(p.Broken, fmt.Sprintf(format, args...))
	}
}

// Verdict returns the state of the promise in a few words.
func (p *Promise) Verdict() string {
	switch {
	case len(p.Broken) > 0:
		return "broken"
	case p.Checks == 0:
		return "not measured"
	default:
		return "kept"
	}
}

// Broken returns the descriptions of all broken promises.
func (r *Report) Broken() []string {
	var broken []string
	for _, s := range r.Sections {
		for _, p := range s.Promises {
			broken = slices.Concat(broken, p.Broken)
		}
	}
	return broken
}
