package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/seeds"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newDelete returns the command that removes a crawl from Redis.
func newDelete(s streams) *cobra.Command {
	var shared sharedFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete --redis URL --name NAME [--yes]",
		Short: "Remove a crawl from Redis, and from Postgres",
		Long: `Remove a crawl from Redis, with its queue, its filter and what it knows of each
host, and from Postgres with its exact keys and the records that are there. The
records in its workers' directories stay. A crawl in a directory is removed with
that.`,
		Args: cobra.NoArgs,
	}
	shared.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	complete(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		at, err := shared.wanted(cmd.Flags())
		if err != nil {
			return err
		}
		if at.Redis == nil {
			return usage(errors.New("no crawl is named: want --redis and --name"))
		}
		if !yes {
			if err := s.confirm(ctx, at); err != nil {
				return err
			}
		}
		keys, err := crawl.Delete(ctx, at.Location)
		if err != nil {
			return at.explain(err)
		}
		fmt.Fprintf(s.out, "%s is removed: %s\n", at, human.Plural(uint64(keys), "key"))
		return nil
	}
	return cmd
}

// confirm asks the user to type the crawl's name.
func (s streams) confirm(ctx context.Context, at location) error {
	in, ok := s.in.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return usage(errors.New("deletion is not confirmed: type the name on a terminal, or use --yes"))
	}
	fmt.Fprintf(s.err, "This removes %s for good. Type its name to go on: ", at)
	line, _ := bufio.NewReader(seeds.Interruptible(ctx, in)).ReadString('\n')
	if strings.TrimSpace(line) != at.Redis.Name {
		return &exitError{exitFailed, errors.New("nothing was removed")}
	}
	return nil
}
