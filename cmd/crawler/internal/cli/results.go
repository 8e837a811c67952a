package cli

import (
	"fmt"
	"io"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/human"
)

// lister makes the commands that list the records of a crawl.
type lister struct {
	location
	workers string // the directory of the workers' directories; empty means the usual one, or none
	links   bool   // the crawl has kept links
}

// command returns the line that runs a command on the records of the crawl, without secrets.
func (l *lister) command(name string) string {
	line := l.location.command(name)
	if l.Redis != nil && l.workers != "" {
		line += " --dir " + shellQuote(l.workers)
	}
	return line
}

// write prints the number of finished URLs for each kind of answer, with the command that lists
// their records.
func (l *lister) write(w io.Writer, r *report.Report) error {
	if len(r.Results) == 0 {
		return nil
	}
	title, output := "finished URLs, and what lists them", l.command("output")
	if r.AllRounds {
		title, output = "finished URLs in all rounds, and what lists their records", output+" --all-rounds"
	}
	if _, err := fmt.Fprintln(w, title+":"); err != nil {
		return err
	}
	const line = "  %-12s %7s  %s\n"
	for _, result := range r.Results {
		label, list := string(result.Kind), output
		if result.Kind == report.Forbidden {
			label = "robots.txt" // which forbids them
		}
		if result.Kind == report.Broken {
			list += " --referrers"
		}
		if _, err := fmt.Fprintf(w, line, label, human.Commas(result.Count), list+" --where "+shellQuote(result.Where)); err != nil {
			return err
		}
		if result.Kind == report.Broken && l.links {
			if _, err := fmt.Fprintf(w, line, "broken links", "", l.command("links")+" --broken"); err != nil {
				return err
			}
		}
	}
	if l.names == nil {
		return nil
	}
	for _, note := range l.names.connectionNotes() {
		if _, err := fmt.Fprintf(w, "  # %s\n", human.Printable(note)); err != nil {
			return err
		}
	}
	return nil
}

// writeResults prints the results of a run that has ended, as its last lines.
func (r *running) writeResults(w io.Writer, result *report.Report) {
	kept, err := r.Kept()
	l := lister{location: r.location, workers: r.WorkersDir(), links: err == nil && kept.Links > 0}
	_ = l.write(w, result)
}

// writeResults prints the results of a crawl, running or not.
func (c *attached) writeResults(w io.Writer, r *report.Report) error {
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	kept, err := c.Kept()
	l := lister{location: c.at, workers: c.at.Dir, links: err == nil && kept.Links > 0}
	return l.write(w, r)
}
