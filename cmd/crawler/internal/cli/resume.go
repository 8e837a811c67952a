package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/fetcher"
)

// forOneRun are flags that the line which resumes does not repeat.
var forOneRun = []string{"dir", "seeds", "max-time", "crash-at", "checkpoint-adds", "save-rotate", "cpu-profile", "lease-time"}

// resumeLine is the command that goes on with the crawl: with the flags of this
// run that the crawl does not keep itself, with the seeds if not all were read,
// and with twice the --max-pages if those were reached.
func (r *result) resumeLine() string {
	line := []string{r.command("crawl")}
	if r.redis != "" {
		line = append(line, "--dir", shellQuote(r.dir))
	}
	r.flags.VisitAll(func(f *pflag.Flag) {
		if r.from[f.Name] != fromFlag || slices.ContainsFunc([][]string{fixedFlags, sharedFixed, connectionFlags, forOneRun},
			func(others []string) bool { return slices.Contains(others, f.Name) }) {
			return
		}
		texts := []string{f.Value.String()}
		switch list := f.Value.(type) {
		case pflag.SliceValue:
			texts = list.GetSlice()
		case *limit:
			if r.end == fetcher.Limit {
				twice := 2 * *list
				texts = []string{twice.String()}
			}
		}
		for _, text := range texts {
			switch {
			case f.Value.Type() == "bool":
				line = append(line, "--"+f.Name+"="+text)
			case f.Name == "header":
				line = append(line, "-H", shellQuote(redacted(text)))
			case f.Name == "proxy":
				line = append(line, "--proxy", shellQuote(withoutPassword(text)))
			default:
				line = append(line, "--"+f.Name, shellQuote(text))
			}
		}
	})
	if !r.fed.all {
		if r.options.seeds != "" {
			line = append(line, "--seeds", shellQuote(r.options.seeds))
		}
		for _, seed := range r.flags.Args() {
			line = append(line, shellQuote(seed))
		}
	}
	return strings.Join(line, " ")
}

// redacted is a header as it may be shown: without what lets others in.
func redacted(header string) string {
	name, _, _ := strings.Cut(header, ":")
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "authorization", "cookie", "proxy-authorization", "x-api-key":
		return name + ": …"
	}
	return header
}

// program is how this program was called, as far as that can be typed again.
func program() string {
	if name := os.Args[0]; name != "" && !strings.Contains(name, "go-build") {
		return shellQuote(name)
	}
	return "crawler"
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./~-]+$`)

// shellQuote returns s as one word of a shell's line.
func shellQuote(s string) string {
	if plainWord.MatchString(s) && s[0] != '~' {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
