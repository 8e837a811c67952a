package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/human"
)

// resultLine is the form of a line of results: kind, number and command.
const resultLine = "  %-12s %7s  %s"

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
	for _, result := range r.Results {
		label, list := string(result.Kind), output
		if result.Kind == report.Forbidden {
			label = "robots.txt" // which forbids them
		}
		if result.Kind == report.Broken {
			list += " --referrers"
		}
		if _, err := fmt.Fprintf(w, resultLine+"\n", label, human.Commas(result.Count), list+" --where "+shellQuote(result.Where)); err != nil {
			return err
		}
		if result.Kind == report.Broken && l.links {
			if _, err := fmt.Fprintf(w, resultLine+"\n", "broken links", "", l.command("links")+" --broken"); err != nil {
				return err
			}
		}
	}
	if err := l.writeScriptSeeds(w, r, output); err != nil || l.names == nil {
		return err
	}
	for _, note := range l.names.connectionNotes() {
		if _, err := fmt.Fprintf(w, "  # %s\n", human.Printable(note)); err != nil {
			return err
		}
	}
	return nil
}

// writeScriptSeeds names the seeds that may need JavaScript. The argument output is the command that
// prints records.
func (l *lister) writeScriptSeeds(w io.Writer, r *report.Report, output string) error {
	if r.ScriptSeeds == nil {
		return nil
	}
	which := "seeds that may need JavaScript, which the crawler does not run"
	if r.ScriptSeeds.Count == 1 {
		which = "this seed may need JavaScript, which the crawler does not run"
	}
	lines := []string{fmt.Sprintf(resultLine, "JavaScript?", "", output+" --where 'may_need_javascript = true'"),
		which + " (a script, but no link and little text):"}
	for _, url := range r.ScriptSeeds.URLs {
		lines = append(lines, "  "+human.Printable(url))
	}
	if more := r.ScriptSeeds.Count - uint64(len(r.ScriptSeeds.URLs)); more > 0 {
		lines = append(lines, fmt.Sprintf("  and %s more", human.Commas(more)))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// writeResults prints the results of a run that has ended, as its last lines.
func (r *running) writeResults(w io.Writer, result *report.Report) {
	kept, err := r.crawl.Kept()
	l := lister{location: r.plan.at, workers: r.crawl.WorkersDir(), links: err == nil && kept.Links > 0}
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
