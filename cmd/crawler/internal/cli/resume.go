package cli

import (
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/crawl/settings"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// forOneRun are flags that the resume command does not repeat.
var forOneRun = []string{"dir", "seeds", "max-time", "crash-at", "checkpoint-adds", "save-rotate", "cpu-profile", "lease-time"}

// resume returns the command that resumes the crawl, and notes for its user. It implements
// crawl.Config.Resume.
func (r *running) resume(result *crawl.Result) (command string, notes []string) {
	return r.resumeLine(result.End), r.resumeNotes()
}

// resumeLine returns the command that resumes the crawl. It has the flags of this run
// that the crawl does not store, and the seeds if not all of them were read. If
// --max-pages was reached, the command has --max-pages with twice the value.
func (r *running) resumeLine(end fetcher.End) string {
	line := []string{r.plan.at.command("crawl")}
	if r.plan.redis != "" {
		line = append(line, "--dir", shellQuote(r.dir))
	}
	r.plan.layers.flags.VisitAll(func(f *pflag.Flag) {
		if r.plan.layers.from[f.Name] != fromFlag || slices.ContainsFunc([][]string{fixedNames, connectionFlags, forOneRun},
			func(others []string) bool { return slices.Contains(others, f.Name) }) {
			return
		}
		texts := []string{f.Value.String()}
		if list, is := f.Value.(pflag.SliceValue); is {
			texts = list.GetSlice()
		} else if f.Name == "max-pages" && end == fetcher.Limit {
			twice := &crawl.Settings{MaxPages: 2 * r.plan.settings.MaxPages}
			texts = []string{settings.Find("max-pages").Value(twice).String()}
		}
		for _, text := range texts {
			shown, secret := withoutSecret(f.Name, text)
			switch {
			case f.Value.Type() == "bool":
				line = append(line, "--"+f.Name+"="+text)
			case f.Name == "header" && secret: // resumeNotes mentions this header
			case f.Name == "header":
				line = append(line, "-H", shellQuote(text))
			default:
				line = append(line, "--"+f.Name, shellQuote(shown))
			}
		}
	})
	if !r.allFed.Load() {
		if r.plan.options.seeds != "" {
			line = append(line, "--seeds", shellQuote(r.plan.options.seeds))
		}
		for _, given := range r.plan.layers.flags.Args() {
			bare, _ := seed.WithoutCredentials(given)
			line = append(line, shellQuote(bare))
		}
	}
	return strings.Join(line, " ")
}

// resumeNotes returns notes about values that the resume command needs but does not
// contain.
func (r *running) resumeNotes() []string {
	notes := r.plan.connectionNotes()
	for _, url := range [][2]string{{"proxy", r.plan.settings.Proxy}, {"events", r.plan.events.to}} {
		if _, secret := withoutSecret(url[0], url[1]); secret && r.plan.layers.from[url[0]] == fromFlag {
			notes = append(notes, secretNote(url[0]))
		}
	}
	for _, header := range settings.Find("header").Value(&r.plan.settings).(pflag.SliceValue).GetSlice() {
		if _, secret := withoutSecret("header", header); secret && r.plan.layers.from["header"] == fromFlag {
			name, _, _ := strings.Cut(header, ":")
			notes = append(notes, "the header "+strings.TrimSpace(name)+" is not shown: add it with -H again")
		}
	}
	return notes
}
