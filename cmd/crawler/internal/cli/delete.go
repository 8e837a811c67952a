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

	"github.com/bloomfrontier/crawler/frontier/pgstore"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newDelete removes a shared crawl.
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

		DisableFlagsInUseLine: true,
	}
	shared.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	complete(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		home, err := shared.wanted(cmd.Flags())
		if err != nil {
			return usage(err)
		}
		if home == nil {
			return usage(errors.New("no crawl is named: want --redis and --name"))
		}
		if !yes {
			if err := s.confirm(ctx, home); err != nil {
				return err
			}
		}
		keys, err := home.remove(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "%s is removed: %s\n", home.title(), human.Plural(uint64(keys), "key"))
		return nil
	}
	return cmd
}

// remove deletes the crawl wherever it is, and returns how many keys Redis had.
// What one of the two has lost is no error.
func (h *sharedHome) remove(ctx context.Context) (keys int, err error) {
	settings, err := h.fixed(ctx)
	if _, lost := errors.AsType[*lostCrawl](err); err != nil && !lost {
		return 0, err
	}
	if settings[exactSetting] != "" && h.db == nil {
		return 0, h.errNoTier()
	}
	inPostgres := pgstore.ErrNoCrawl
	if h.db != nil { // first: without its queue nobody would know of it
		inPostgres = pgstore.Delete(ctx, pgstore.Config{DSN: h.db.dsn, Crawl: h.name})
		if inPostgres != nil && !errors.Is(inPostgres, pgstore.ErrNoCrawl) {
			return 0, h.db.explain(inPostgres)
		}
	}
	keys, err = redisstore.Delete(ctx, h.config())
	if errors.Is(err, redisstore.ErrNoCrawl) && inPostgres == nil {
		return 0, nil
	}
	if err != nil {
		return 0, h.explain(err)
	}
	return keys, nil
}

// confirm has a person type the crawl's name.
func (s streams) confirm(ctx context.Context, home *sharedHome) error {
	in, ok := s.in.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return usage(errors.New("nobody to ask: --yes removes it"))
	}
	fmt.Fprintf(s.err, "This removes %s for good. Type its name to go on: ", home.title())
	line, _ := bufio.NewReader(interruptible(ctx, in)).ReadString('\n')
	if strings.TrimSpace(line) != home.name {
		return &exitError{exitFailed, errors.New("nothing was removed")}
	}
	return nil
}
