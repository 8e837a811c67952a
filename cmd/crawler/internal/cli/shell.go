package cli

import (
	"os"
	"regexp"
	"strings"
)

// program returns the command by which this program was called.
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
