package cli

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newList returns the command that lists the crawls in a Redis.
func newList(s streams) *cobra.Command {
	var shared sharedFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list --redis URL [--json] [--out FILE]",
		Short: "List the crawls in a Redis",
		Long: `List the crawls in a Redis: name, state, pages, queued URLs, live workers. The
state is running, paused, stopped (URLs wait, and no worker is alive) or finished.
The search reads the names of all keys of the database, for 30 s at most; it says
so if that was too short.`,
		Example: `  crawler list --redis redis://10.0.0.5`,
		Args:    cobra.NoArgs,
	}
	shared.addServerTo(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each crawl")
	complete(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := shared.adoptEnvironment(cmd.Flags(), serverFlags); err != nil {
			return usage(err)
		}
		if shared.redis == "" {
			return usage(errors.New("no server is named: want --redis"))
		}
		shared.name = "list" // any name
		at, err := shared.location("")
		if err != nil {
			return usage(err)
		}
		crawls, all, err := crawl.List(cmd.Context(), *at.Redis)
		if err != nil {
			return &exitError{exitFailed, err}
		}
		enc := json.NewEncoder(s.out)
		for _, c := range crawls {
			if asJSON {
				err = enc.Encode(c)
			} else {
				_, err = fmt.Fprintf(s.out, "%-20s %s, %s, %s queued, %s\n", c.Name, c.State, human.Plural(c.Pages, "page"),
					human.Commas(c.Queued), human.Plural(uint64(c.Workers), "worker"))
			}
			if err != nil {
				return err
			}
		}
		if len(crawls) == 0 {
			fmt.Fprintln(s.err, "no crawl is there")
		}
		if !all {
			return printed{&exitError{exitFailed, errors.New("the server has too many keys for a search of 30 s: there may be more crawls")}}
		}
		return nil
	}
	return cmd
}
