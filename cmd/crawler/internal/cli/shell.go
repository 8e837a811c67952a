package cli

import (
	"os"
	"regexp"
	"strings"
)

// program returns the name with which this program was called, for use in a shell.
func program() string {
	if name := os.Args[0]; name != "" && !strings.Contains(name, "go-build") {
		return shellQuote(name)
	}
	return "crawler"
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./~-]+$`)

// shellQuote quotes s so that a shell takes it for one word.
func shellQuote(s string) string {
	if plainWord.MatchString(s) && s[0] != '~' {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
