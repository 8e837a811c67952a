package cli

import (
	"os"
	"strings"

	"github.com/bloomfrontier/crawler/internal/human"
)

// program returns the name with which this program was called, for use in a shell.
func program() string {
	if name := os.Args[0]; name != "" && !strings.Contains(name, "go-build") {
		return shellQuote(name)
	}
	return "crawler"
}

// shellQuote quotes s so that a shell takes it for one word.
func shellQuote(s string) string { return human.ShellWord(s) }
