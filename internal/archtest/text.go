package archtest

import (
	"path"
	"regexp"
	"strings"
)

var (
	promise  = regexp.MustCompile(`\b(TODO|FIXME)\b`)
	numbered = regexp.MustCompile(`\b(TODO|FIXME)\(#[0-9]+\)`)
	argument = regexp.MustCompile(`\$[0-9]+`)
)

// checkComments refuses comments that promise later work without the number of an issue.
func checkComments(src source) []string {
	var faults []string
	for _, group := range src.syntax.Comments {
		for _, comment := range group.List {
			for i, line := range strings.Split(comment.Text, "\n") {
				if unnumbered(line) {
					faults = append(faults, promiseFault(src.path, src.line(comment)+i))
				}
			}
		}
	}
	return faults
}

func unnumbered(line string) bool { return promise.MatchString(line) && !numbered.MatchString(line) }

func promiseFault(name string, line int) string {
	return fault(name, "line %d promises work without an issue number, want the form \"TODO(#12)\"", line)
}

// checkScript checks a file that is not Go against the same rule as checkComments. It
// also checks the header of a file that a server runs.
func checkScript(name, text string) []string {
	var faults []string
	for i, line := range strings.Split(text, "\n") {
		if unnumbered(line) {
			faults = append(faults, promiseFault(name, i+1))
		}
	}
	if ext := path.Ext(name); ext == ".lua" || ext == ".sql" {
		faults = append(faults, checkHeader(name, text)...)
	}
	return faults
}

// checkHeader requires a leading comment that begins with the file's name and with what
// the file does. The comment of a Lua script must also name its KEYS, what it returns,
// its cost, and its ARGV if it reads any. That of a statement must explain each of its
// parameters.
func checkHeader(name, text string) []string {
	header, body := splitHeader(text)
	title := "-- " + path.Base(name) + ": "
	var faults []string
	if says, ok := strings.CutPrefix(header, title); !ok || strings.TrimSpace(says) == "" {
		faults = append(faults, fault(name, "begins with no header, want %q and what it does", title))
	}
	var wanted []string
	if path.Ext(name) == ".lua" {
		wanted = []string{"KEYS", "returns", "cost"}
		if strings.Contains(body, "ARGV") {
			wanted = append(wanted, "ARGV")
		}
	} else {
		wanted = argument.FindAllString(body, -1)
	}
	told := make(map[string]bool)
	for _, word := range wanted {
		if !told[word] && !regexp.MustCompile(`(^|[^\w$])`+regexp.QuoteMeta(word)+`\b`).MatchString(header) {
			faults = append(faults, fault(name, "header does not mention %s", word))
		}
		told[word] = true
	}
	return faults
}

// splitHeader splits text into its leading comment lines and the rest.
func splitHeader(text string) (header, body string) {
	for rest := text; ; {
		line, after, more := strings.Cut(rest, "\n")
		if !strings.HasPrefix(line, "--") || !more {
			return text[:len(text)-len(rest)], rest
		}
		rest = after
	}
}
