// Package report runs the steps of a benchmark within a time budget, and makes the report of
// the run. A report has tables, and promises that were kept or broken. It names the machine,
// the versions and the command of the run.
//
// The package owns the format of report.json. From the same data it makes the Markdown, which
// is also the text for a terminal. It collects facts about the machine, but measures nothing
// else. A report is valid at any time: it lists the measurements that are missing.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// Format is the version of report.json.
const Format = 3

// Report is one run. Sizes are in bytes and times in seconds.
type Report struct {
	Format   int        `json:"format"`
	Command  string     `json:"command"`
	Version  string     `json:"version"`
	Began    time.Time  `json:"began"`
	Took     float64    `json:"took"`
	Budget   float64    `json:"budget"`
	Seed     uint64     `json:"seed"`
	Go       string     `json:"go"`
	Machine  string     `json:"machine"`
	Servers  []Server   `json:"servers"`
	Sections []*Section `json:"sections"`
}

// Server is a server that was measured.
type Server struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Section is the part of a report about one subject.
type Section struct {
	Name     string     `json:"name"` // the name of the subcommand
	Title    string     `json:"title"`
	About    string     `json:"about"` // how the figures were measured, in Markdown
	Promises []*Promise `json:"promises"`
	Tables   []*Table   `json:"tables"`
	Missing  []Missing  `json:"missing"`

	steps []step
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
	Budget bool   `json:"budget,omitempty"` // the budget ended it, or left no time for it
}

// Table is a table, with a caption.
type Table struct {
	Title   string   `json:"title"`
	Columns []string `json:"columns"`
	Rows    [][]Cell `json:"rows"`
}

// New returns a report without sections, of a run that begins now. The argument command is its
// command line, without secrets.
func New(command, version string, budget time.Duration, seed uint64) *Report {
	return &Report{
		Format: Format, Command: command, Version: version, Began: time.Now().UTC(), Budget: budget.Seconds(), Seed: seed,
		Go: runtime.Version(), Machine: Machine(), Servers: []Server{},
	}
}

// NewSection returns a section without figures.
func NewSection(name, title, about string) *Section {
	return &Section{Name: name, Title: title, About: about,
		Promises: []*Promise{}, Tables: []*Table{}, Missing: []Missing{}}
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

// The files that Write creates.
const (
	JSONFile     = "report.json"
	MarkdownFile = "RESULTS.md"
)

// Write writes report.json and RESULTS.md to dir. It makes dir if needed. Each file is written
// as a whole or not at all.
func (r *Report) Write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(replace(filepath.Join(dir, JSONFile), append(text, '\n')), replace(filepath.Join(dir, MarkdownFile), []byte(r.Markdown())))
}

// replace writes a temporary file and renames it to name.
func replace(name string, content []byte) error {
	partial := name + ".part"
	if err := os.WriteFile(partial, content, 0o644); err != nil {
		return err
	}
	return os.Rename(partial, name)
}
