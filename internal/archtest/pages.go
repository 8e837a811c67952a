package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// columns is the maximum length of a line of Markdown, in characters.
const columns = 120

var (
	// link matches the target of a Markdown link or image: its file and its anchor.
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	heading = regexp.MustCompile(`^#+ (.*)$`)
	// inlineCode matches code between backquotes in a line of Markdown.
	inlineCode = regexp.MustCompile("`[^`]*`")
	linked     = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	// pagePath matches the path of a page of the documentation in comments and prose.
	pagePath = regexp.MustCompile(`\bdocs/[a-z0-9/-]+\.md\b`)
)

// checkPage refuses lines that are too long, and links to files or headings that do not
// exist. The lines of bench/RESULTS.md can be longer, because a program writes its
// tables.
func checkPage(tree fs.FS, name, text string) []string {
	faults := checkPagePaths(tree, name, 1, text)
	for i, line := range strings.Split(text, "\n") {
		if n := utf8.RuneCountInString(line); n > columns && name != "bench/RESULTS.md" {
			faults = append(faults, fault(name, "line %d has %d columns, want %d at most", i+1, n, columns))
		}
	}
	for i, line := range prose(text) {
		for _, found := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
			if why := checkLink(tree, name, text, found[1], found[2]); why != "" {
				faults = append(faults, fault(name, "line %d links to %s: %s", i+1, found[0][2:len(found[0])-1], why))
			}
		}
	}
	return faults
}

// prose returns the lines of a page. In place of the lines of code blocks it returns empty
// lines.
func prose(text string) []string {
	lines, code := strings.Split(text, "\n"), false
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if code {
			lines[i] = ""
		}
	}
	return lines
}

// checkLink returns what is wrong with a link from a page to a file and an anchor, or
// "". It does not follow links to other sites.
func checkLink(tree fs.FS, name, text, file, anchor string) string {
	if strings.Contains(file, ":") {
		return ""
	}
	if file != "" {
		target := path.Join(path.Dir(name), file)
		if _, err := fs.Stat(tree, target); err != nil {
			return "there is no " + target
		}
		if anchor == "" {
			return ""
		}
		there, err := fs.ReadFile(tree, target)
		if err != nil {
			return err.Error()
		}
		text = string(there)
	}
	if !anchors(text)[anchor] {
		return "no heading there has the anchor " + anchor
	}
	return ""
}

// anchors returns the anchors that GitHub gives to the headings of a page.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	for _, line := range prose(text) {
		found := heading.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, linked.ReplaceAllString(found[1], "$1"))
		for n, first := 1, anchor; all[anchor]; n++ {
			anchor = fmt.Sprintf("%s-%d", first, n)
		}
		all[anchor] = true
	}
	return all
}

// checkPagePaths finds the paths of documentation pages in text. It returns a fault for
// each page that does not exist. The argument firstLine is the number of the line at
// which text begins in the file.
func checkPagePaths(tree fs.FS, name string, firstLine int, text string) []string {
	var faults []string
	for i, line := range strings.Split(text, "\n") {
		for _, page := range pagePath.FindAllString(line, -1) {
			if _, err := fs.Stat(tree, page); err != nil {
				faults = append(faults, fault(name, "line %d names %s, which is not there", firstLine+i, page))
			}
		}
	}
	return faults
}
