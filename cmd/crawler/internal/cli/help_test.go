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
