package cli

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestHelpsAreWrapped: the descriptions of flags are wrapped in the help of every command.
func TestHelpsAreWrapped(t *testing.T) {
	t.Parallel()
	root := newRoot(streams{strings.NewReader(""), io.Discard, io.Discard})
	seen := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		_, flags, has := strings.Cut(cmd.UsageString(), "\nFlags:\n")
		if has {
			seen++
		}
		for line := range strings.Lines(flags) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("crawler %s --help has a line of %d columns, want %d at most: %s", cmd.Name(), n, helpWidth, line)
			}
			if strings.HasPrefix(line, "*") {
				t.Errorf("crawler %s --help marks a flag as fixed, which only crawl explains: %s", cmd.Name(), line)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
	if seen < 15 {
		t.Errorf("%d commands have flags, want 15 or more", seen)
	}
}

// TestPlainWords: an error for people has no names of packages, and says nothing twice.
func TestPlainWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"x on redis://h: frontier: store unavailable: dial tcp h: connection refused": "x on redis://h: store unavailable: dial tcp h: connection refused",
		"redisstore: frontier: store unavailable":                                     "store unavailable",
		"localstore: open c: c: no such file":                                         "open c: c: no such file",
		"http://a.test/: http://a.test/: port 1 is not requested":                     "http://a.test/: port 1 is not requested",
		"ask the crawl that runs in c: EOF":                                           "ask the crawl that runs in c: EOF",
		"--redis: want a URL":                                                         "--redis: want a URL",
	} {
		if got := plainWords(line); got != want {
			t.Errorf("plainWords(%q) = %q, want %q", line, got, want)
		}
	}
}
