// Package cli is the command line of crawler: one file per subcommand.
//
// It owns flags, the config file, the environment, the default directory, and the
// wiring of stores and workers. Results go to stdout, everything else to stderr. The
// packages of the library read neither flags nor the environment.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/cli/bench"
	"github.com/bloomfrontier/crawler/cmd/crawler/internal/cli/size"
	"github.com/bloomfrontier/crawler/cmd/crawler/internal/sanitize"
)

// Run runs one command line and returns its exit code. When ctx ends, a crawl
// finishes its requests under way. The cause of ctx selects the exit code, 130 or
// 143.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// Text from sites is escaped before it reaches a terminal. Data on stdout is not
	// changed if it goes to a file or a pipe. Text on stderr is always escaped, because
	// people read it.
	s := streams{stdin, sanitize.ForTerminal(stdout), sanitize.NewWriter(stderr)}
	ran := false
	root := newRoot(s)
	root.PersistentPreRun = func(*cobra.Command, []string) { ran = true }
	root.SetArgs(args)
	refuseArguments(root)
	cmd, err := root.ExecuteContextC(ctx)
	fault := writeFault(root)
	if err == nil {
		err = fault // cobra and some commands ignore errors of writes
	}
	if err == nil {
		return exitOK
	}
	var exit *exitError
	switch flag := new(flagError); {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		exit = &exitError{signalCode(ctx), nil}
	case errors.As(err, &exit):
	case errors.As(err, &flag):
		exit = &exitError{exitUsage, errors.Join(flagFaults(ctx, s, args)...)}
	case ran || fault != nil:
		exit = &exitError{exitFailed, err}
	default: // the command's own code did not run, so the command line is wrong
		exit = &exitError{exitUsage, argumentFault(cmd, err)}
	}
	if exit.err != nil {
		for line := range strings.Lines(exit.err.Error()) {
			fmt.Fprintf(s.err, "crawler: %s\n", plainWords(strings.TrimSuffix(line, "\n")))
		}
		if exit.code == exitUsage {
			fmt.Fprintf(s.err, "Try '%s --help'.\n", cmd.CommandPath())
		}
	}
	return exit.code
}

// refuseArguments makes some commands refuse unknown arguments that cobra would ignore. These
// commands are help, and all commands that have only subcommands.
func refuseArguments(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		switch {
		case cmd.Name() == "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if _, _, err := root.Find(args); err != nil {
					return usage(argumentFault(root, err))
				}
				return nil
			}
		case cmd.HasSubCommands() && !cmd.Runnable() && cmd.HasParent():
			cmd.DisableFlagsInUseLine = true
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

func newRoot(s streams) *cobra.Command {
	out := &stdout{w: s.out}
	s.out = out
	root := &cobra.Command{
		Use:   "crawler",
		Short: "Crawl the web, queue each URL once, and know what was missed",
		Long: `crawler crawls the web politely from a list of seeds. Its frontier never
queues a new URL twice, loses none that it queued, survives kill -9, and says how
many new URLs its filter probably dropped.

  crawler crawl --max-pages 100 https://go.dev/   crawl a site into ./go.dev.crawl
  crawler crawl https://go.dev/                   the same again resumes it
  crawler size --urls 1e9 --fpr 1e-6              what would a filter cost?`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	ask := root.Flags().BoolP("version", "v", false, "version for crawler")
	root.Run = func(cmd *cobra.Command, _ []string) {
		if *ask {
			fmt.Fprint(s.out, versionLine())
			return
		}
		_ = cmd.Help()
	}
	root.SetUsageFunc(writeUsage)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &flagError{err} })
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.AddGroup(
		&cobra.Group{ID: "crawl", Title: "Crawling:"},
		&cobra.Group{ID: "look", Title: "Looking at a crawl:"},
		&cobra.Group{ID: "plan", Title: "Planning and testing:"},
	)
	root.SetHelpCommandGroupID("plan")
	root.SetCompletionCommandGroupID("plan")
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("crawl", newCrawl(s), newSeed(s), newRetry(s), newSet(s), newDrop(s), newBlock(s), newReadmit(s), newPause(s), newResume(s), newStop(s), newList(s), newRebuild(s),
		newReconcile(s), newMigrate(s), newDelete(s), newRelay(s), newServe(s))
	data := []*cobra.Command{newStatus(s), newHosts(s), newReport(s), newExplain(s), newOutput(s), newDiff(s), newLinks(s), newExport(s)}
	sizes, benchmarks := size.Command(), bench.Command(version())
	for _, c := range append(data, sizes, benchmarks) {
		out.addTo(c)
	}
	add("look", append(data, newConfig(s))...)
	add("plan", newTry(s), newKey(s), newContact(s), sizes, newDedup(), benchmarks, newTestweb(s), newVersion(s))
	root.AddCommand(&cobra.Command{Use: "exit-codes", Short: "what the exit code of a crawl says", Long: exitCodesText})
	return root
}
