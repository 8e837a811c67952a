package archtest

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	promise  = regexp.MustCompile(`\b(TODO|FIXME)\b`)
	numbered = regexp.MustCompile(`\b(TODO|FIXME)\(#[0-9]+\)`)
	argument = regexp.MustCompile(`\$[0-9]+`)
	// leadingComment matches the header of a Lua script or an SQL statement.
	leadingComment = regexp.MustCompile(`^(--.*\n)*`)
)

// checkComments checks each comment of a Go file as checkLines does.
func checkComments(tree fs.FS, src source) []string {
	var faults []string
	for _, group := range src.syntax.Comments {
		for _, comment := range group.List {
			faults = append(faults, checkLines(tree, src.path, src.line(comment), comment.Text)...)
		}
	}
	return faults
}

// checkLines returns a fault for each line that promises later work without the number of
// an issue, and the faults of checkPagePaths. The argument firstLine is the number of the
// line at which text begins in the file.
func checkLines(tree fs.FS, name string, firstLine int, text string) []string {
	faults := checkPagePaths(tree, name, firstLine, text)
	for i, line := range strings.Split(text, "\n") {
		if promise.MatchString(line) && !numbered.MatchString(line) {
			faults = append(faults, fault(name, "line %d promises work without an issue number, want the form \"TODO(#12)\"", firstLine+i))
		}
	}
	return faults
}

// checkHeader requires a leading comment that begins with the file's name and says what
// the file does. The comment of a Lua script must also mention KEYS, what the script
// returns, its cost, and ARGV if the script reads it. The comment of an SQL statement
// must mention each parameter.
func checkHeader(name, text string) []string {
	header := leadingComment.FindString(text)
	body := text[len(header):]
	title := "-- " + path.Base(name) + ": "
	var faults []string
	if says, ok := strings.CutPrefix(header, title); !ok || strings.TrimSpace(says) == "" {
		faults = append(faults, fault(name, "begins with no header, want %q and what the file does", title))
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
