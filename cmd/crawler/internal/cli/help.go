package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/internal/human"
)

// section is a section of the help text: a title and flags.
type section struct {
	title   string
	declare func(*pflag.FlagSet)
	flags   *pflag.FlagSet
}

// Columns of the help text.
const (
	helpColumn = 30 // column in which descriptions begin
	helpWidth  = 80 // length of a line
)

// addSections adds the flags of all sections to a command, and a help text with the
// titles of the sections.
func addSections(cmd *cobra.Command, sections []section) {
	cmd.Flags().SortFlags = false
	for _, sec := range sections {
		cmd.Flags().AddFlagSet(sec.flags)
	}
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		w := c.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n", c.UseLine())
		if c.HasExample() {
			fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
		}
		for _, sec := range sections {
			fmt.Fprintf(w, "\n%s:\n", sec.title)
			writeFlags(w, sec.flags, fixedNames)
		}
		fmt.Fprintf(w, `
* fixed when the crawl is created: a later run need not repeat it, and is
  refused with another value.
With --redis the fixed flags, --window, --max-pages and --max-queued are about
the whole crawl; each other flag is about its own worker, also --rate,
--concurrency, --max-time and how to reach Redis and Postgres.
Each flag can also stand in --config FILE (YAML; "hosts:" has what differs for
some hosts, "fields:" the fields of some pages) or in the environment, as in
%sDELAY=2s.
`, envPrefix)
		return nil
	})
	complete(cmd)
}

// complete finishes the declaration of a command. The command's Use already names the
// flags, so cobra must not add "[flags]" to it. The function complete also sets the shell
// completion of flags whose value is one of several names, a file or a directory.
func complete(cmd *cobra.Command) {
	cmd.DisableFlagsInUseLine = true
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if names := strings.Split(f.Value.Type(), "|"); len(names) > 1 {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	// An error here means that the command does not have the flag.
	_ = cmd.MarkFlagDirname("dir")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	_ = cmd.MarkFlagFilename("ca", "pem", "crt")
	for _, name := range []string{"redis-ca", "redis-password-file", "postgres-password-file"} {
		_ = cmd.MarkFlagFilename(name)
	}
}

// writeUsage writes the help of a command below its description, as cobra's template does, but
// with the flags as writeFlags lists them. It is no template, because the linker keeps all
// exported methods of all types in a program that executes one: they are a quarter of its size.
func writeUsage(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprint(w, "Usage:\n")
	if c.Runnable() && c.HasParent() {
		fmt.Fprintf(w, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s [command]\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	writeCommands(w, c)
	for _, list := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"Flags", c.LocalFlags()}, {"Global Flags", c.InheritedFlags()}} {
		if list.flags.HasAvailableFlags() {
			fmt.Fprintf(w, "\n%s:\n", list.title)
			writeFlags(w, list.flags, nil)
		}
	}
	if c.HasHelpSubCommands() {
		fmt.Fprint(w, "\nAdditional help topics:\n")
		for _, topic := range c.Commands() {
			if topic.IsAdditionalHelpTopicCommand() {
				fmt.Fprintf(w, "  %-*s %s\n", topic.CommandPathPadding(), topic.CommandPath(), topic.Short)
			}
		}
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nUse \"%s [command] --help\" for more information about a command.\n", c.CommandPath())
	}
	return nil
}

// writeCommands lists the commands below c, by group if it has groups.
func writeCommands(w io.Writer, c *cobra.Command) {
	groups := c.Groups()
	if len(groups) == 0 && c.HasAvailableSubCommands() {
		groups = []*cobra.Group{{Title: "Available Commands:"}}
	}
	for _, group := range groups {
		fmt.Fprintf(w, "\n%s\n", group.Title)
		for _, sub := range c.Commands() {
			if sub.GroupID == group.ID && (sub.IsAvailableCommand() || sub.Name() == "help") {
				fmt.Fprintf(w, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
}

// writeFlags lists flags, each with its description and its default. The flags whose names are in
// marked get a star.
func writeFlags(w io.Writer, flags *pflag.FlagSet, marked []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		head, text := describe(f, marked)
		if len(head) >= helpColumn-1 {
			fmt.Fprintln(w, head)
			head = ""
		}
		for _, line := range wrap(text, helpWidth-helpColumn) {
			fmt.Fprintf(w, "%-*s%s\n", helpColumn, head, line)
			head = ""
		}
	})
}

// describe returns the name of a flag with its placeholder, and its description.
func describe(f *pflag.Flag, marked []string) (head, text string) {
	placeholder, text := pflag.UnquoteUsage(f)
	// A placeholder with a colon after it is not part of the sentence, so it is removed.
	text = strings.TrimPrefix(text, placeholder+": ")
	switch placeholder {
	case "int", "uint":
		placeholder = "N"
	case "float":
		placeholder = "X"
	case "duration":
		placeholder = "TIME"
	}
	mark, short := " ", "    "
	if slices.Contains(marked, f.Name) {
		mark = "*"
	}
	if f.Shorthand != "" {
		short = "-" + f.Shorthand + ", "
	}
	head = fmt.Sprintf("%s %s--%s %s", mark, short, f.Name, placeholder)
	if def := show(f); !slices.Contains([]string{"", "false", "0", "0s"}, def) && !strings.Contains(text, "(default") {
		text += " (default " + def + ")"
	}
	return strings.TrimRight(head, " "), text
}

// show returns a flag's value as people would write it.
func show(f *pflag.Flag) string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), ",")
	}
	text := f.Value.String()
	if f.Value.Type() == new(human.Rate).Type() {
		return strings.Replace(text, "e-0", "e-", 1)
	}
	if d, err := time.ParseDuration(text); err == nil && d >= time.Minute {
		for _, zero := range []string{"m0s", "h0m"} { // 1h0m0s is 1h
			if short, ok := strings.CutSuffix(text, zero); ok {
				text = short + zero[:1]
			}
		}
	}
	return text
}

// wrap breaks text at spaces into lines of at most width bytes. A longer word stays
// whole.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
