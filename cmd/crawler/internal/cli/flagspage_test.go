package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const flagsPage = "docs/reference/flags.md"

// TestFlagsPage: docs/reference/flags.md lists the flags of all commands, with their help
// texts. With -update, the test writes this page:
//
//	go test ./cmd/crawler/internal/cli -run TestFlagsPage -update
func TestFlagsPage(t *testing.T) {
	t.Parallel()
	want := flagsText()
	if *update {
		if err := os.WriteFile(filepath.Join(repository, flagsPage), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := strings.SplitAfter(readText(t, flagsPage), "\n")
	for i, line := range strings.SplitAfter(want, "\n") {
		if i >= len(got) || got[i] != line {
			t.Fatalf("line %d of %s is not %q: run this test with -update", i+1, flagsPage, line)
		}
	}
	if lines := strings.Count(want, "\n* `"); lines < 100 {
		t.Errorf("found %d flags, want 100 or more", lines)
	}
}

// flagsText returns the page for the commands of this program.
func flagsText() string {
	var b strings.Builder
	b.WriteString(`# Flags

Every command and its flags, as ` + "`crawler COMMAND --help`" + ` lists them. The page is written by a test
(` + "`go test ./cmd/crawler/internal/cli -run TestFlagsPage -update`" + `).

A flag marked ∗ is fixed when the crawl is created: a later run need not repeat it, and is refused with another value.
Flags of ` + "`crawler crawl`" + ` can also stand in a [config file](config.md) or in the environment. Sizes are written as
10MiB or 1GB, numbers as 100k, 10M or 1e9, times as 500ms, 2s, 1h30m or 7d.
`)
	root := newRoot(streams{})
	for _, group := range root.Groups() {
		for _, cmd := range root.Commands() {
			if cmd.GroupID != group.ID || cmd.Hidden {
				continue
			}
			fmt.Fprintf(&b, "\n## crawler %s\n\n%s.\n", cmd.Name(), strings.TrimSuffix(cmd.Short, "."))
			switch cmd.Name() {
			case "crawl":
				for _, sec := range new(options).newFlags() {
					fmt.Fprintf(&b, "\n### %s\n\n", sec.title)
					listFlags(&b, sec.flags, true)
				}
			case "config":
				b.WriteString("\nThe flags of `crawler crawl`, and:\n\n")
				own := pflag.NewFlagSet("", pflag.ContinueOnError)
				own.AddFlag(cmd.Flags().Lookup("json"))
				listFlags(&b, own, false)
			default:
				if cmd.HasAvailableFlags() {
					b.WriteByte('\n')
				}
				listFlags(&b, cmd.Flags(), false)
				listSubcommands(&b, cmd)
			}
		}
	}
	return b.String()
}

// listSubcommands writes the flags of the commands below cmd.
func listSubcommands(b *strings.Builder, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.Runnable() && sub.IsAvailableCommand() {
			fmt.Fprintf(b, "\n### %s\n\n%s.\n\n", sub.CommandPath(), strings.TrimSuffix(sub.Short, "."))
			listFlags(b, sub.Flags(), false)
		}
		listSubcommands(b, sub)
	}
}

// listFlags writes one item for each flag, in lines that fit a page. It marks the flags
// that are fixed when a crawl is created.
func listFlags(b *strings.Builder, flags *pflag.FlagSet, ofCrawl bool) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		shown := *f // gets a default that does not depend on the machine or the version
		switch {
		case f.Name == "user-agent":
			shown.Usage += " (default crawler/VERSION)"
		case f.Name == "memory" && strings.Contains(f.Usage, "everything but the filter"): // the flag of crawl and try
			shown.Usage += " (default an eighth of the machine's, 256MiB to 2GiB)"
		}
		head, text := describe(&shown, fixedNames)
		head = strings.Trim(head, "* ")
		item := "`" + head + "`"
		if ofCrawl && slices.Contains(fixedNames, f.Name) {
			item += " ∗"
		}
		for i, line := range wrap(item+": "+strings.NewReplacer("<", `\<`, "*", `\*`).Replace(text), 112) {
			b.WriteString(map[bool]string{true: "* ", false: "  "}[i == 0] + line + "\n")
		}
	})
}
