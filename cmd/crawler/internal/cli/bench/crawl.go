package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/bench/agenda"
	"github.com/bloomfrontier/crawler/bench/crawl"
	"github.com/bloomfrontier/crawler/bench/report"
)

// crawlSteps are whole crawls.
func crawlSteps(o *options, h *host) (*report.Section, []*agenda.Step) {
	return crawl.Steps(crawl.Config{Pages: uint64(o.keys), HTML: o.html, Dir: h.dir, Program: self})
}

// crawlParts are what this program does as a process of its own for crawlSteps.
func crawlParts() []*cobra.Command {
	return []*cobra.Command{
		{Use: crawl.ServeCommand, Hidden: true, Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			return crawl.Serve(cmd.Context(), args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		}},
		{Use: crawl.LoopCommand, Hidden: true, Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			return crawl.Loop(cmd.Context(), args[0], cmd.OutOrStdout())
		}},
	}
}

// self makes the command that runs this program.
func self(ctx context.Context, args ...string) *exec.Cmd {
	program, err := os.Executable()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Err = errors.Join(cmd.Err, err)
	return cmd
}
