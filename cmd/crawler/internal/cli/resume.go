package cli

import (
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// forOneRun are flags that the resume command does not repeat.
var forOneRun = []string{"dir", "seeds", "max-time", "crash-at", "checkpoint-adds", "save-rotate", "cpu-profile", "lease-time"}

// resume implements crawl.Config.Resume.
func (r *running) resume(result *crawl.Result) (command string, notes []string) {
	return r.resumeLine(result.End), r.resumeNotes()
}

// resumeLine returns the command that resumes the crawl. It has the flags of this run
// that the crawl does not store, and the seeds if not all of them were read. If
// --max-pages was reached, the command has --max-pages with twice the value.
func (r *running) resumeLine(end fetcher.End) string {
	line := []string{r.command("crawl")}
	if r.redis != "" {
		line = append(line, "--dir", shellQuote(r.dir))
	}
	r.flags.VisitAll(func(f *pflag.Flag) {
		if r.from[f.Name] != fromFlag || slices.ContainsFunc([][]string{fixedNames, connectionFlags, forOneRun},
			func(others []string) bool { return slices.Contains(others, f.Name) }) {
			return
		}
		texts := []string{f.Value.String()}
		if list, is := f.Value.(pflag.SliceValue); is {
			texts = list.GetSlice()
		} else if f.Name == "max-pages" && end == fetcher.Limit {
			twice := limit(2 * r.options.crawl.MaxPages)
			texts = []string{twice.String()}
		}
		for _, text := range texts {
			switch {
			case f.Value.Type() == "bool":
				line = append(line, "--"+f.Name+"="+text)
			case f.Name == "header" && redacted(text) != text: // resumeNotes mentions this header
			case f.Name == "header":
				line = append(line, "-H", shellQuote(text))
			case f.Name == "events":
				shown, _ := shownSink(text)
				line = append(line, "--events", shellQuote(shown))
			case f.Name == "proxy":
				shown, _ := shownProxy(text)
				line = append(line, "--proxy", shellQuote(shown))
			default:
				line = append(line, "--"+f.Name, shellQuote(text))
			}
		}
	})
	if !r.fed.All {
		if r.options.seeds != "" {
			line = append(line, "--seeds", shellQuote(r.options.seeds))
		}
		for _, given := range r.flags.Args() {
			bare, _ := seed.WithoutCredentials(given)
			line = append(line, shellQuote(bare))
		}
	}
	return strings.Join(line, " ")
}

// resumeNotes returns notes about values that the resume command needs but does not
// contain.
func (r *running) resumeNotes() []string {
	notes := r.connectionNotes()
	if _, secret := shownProxy(r.options.crawl.Requests.Proxy); secret && r.from["proxy"] == fromFlag {
		notes = append(notes, "the password in --proxy is not shown: put it back, or the whole URL into "+envName("proxy"))
	}
	if _, secret := shownSink(r.events.to); secret && r.from["events"] == fromFlag {
		notes = append(notes, "the secret in --events is not shown: put it back, or the whole URL into "+envName("events"))
	}
	for _, header := range r.headers {
		if redacted(header) != header && r.from["header"] == fromFlag {
			name, _, _ := strings.Cut(header, ":")
			notes = append(notes, "the header "+strings.TrimSpace(name)+" is not shown: add it with -H again")
		}
	}
	return notes
}

// shownProxy returns a proxy's URL without its password. hasSecret reports whether the URL
// has a password.
func shownProxy(proxy string) (shown string, hasSecret bool) {
	u, err := url.Parse(proxy)
	if err != nil || u.User == nil {
		return proxy, false
	}
	_, hasSecret = u.User.Password()
	u.User = url.User(u.User.Username())
	return u.String(), hasSecret
}

// redacted returns a header. It replaces a value that may be secret by an ellipsis.
func redacted(header string) string {
	name, _, _ := strings.Cut(header, ":")
	if name = strings.TrimSpace(name); get.PrivateHeader(name) {
		return name + ": …"
	}
	return header
}
