package report

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// The files that Write creates, in addition to the plots.
const (
	JSONFile     = "report.json"
	MarkdownFile = "RESULTS.md"
)

// Write writes report.json, RESULTS.md and an SVG file for each plot to dir. It makes dir
// if needed. Each file is written as a whole or not at all.
func (r *Report) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	var errs []error
	keep := func(name string, content []byte) { errs = append(errs, replace(filepath.Join(dir, name), content)) }
	keep(JSONFile, append(text, '\n'))
	for _, s := range r.Sections {
		for i, p := range s.Plots {
			if p.drawable() {
				keep(s.plotFile(i), SVG(p))
			}
		}
	}
	keep(MarkdownFile, []byte(r.Markdown(true)))
	return errors.Join(errs...)
}

// plotFile returns the name of the SVG file of plot i of a section.
func (s *Section) plotFile(i int) string { return s.Name + "-" + strconv.Itoa(i+1) + ".svg" }

// replace writes a temporary file and renames it to name.
func replace(name string, content []byte) error {
	partial := name + ".part"
	if err := os.WriteFile(partial, content, 0o644); err != nil {
		return err
	}
	return os.Rename(partial, name)
}
