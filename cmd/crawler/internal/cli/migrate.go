package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
)

// newMigrate returns the command that brings the schema of a Postgres up to date.
func newMigrate(s streams) *cobra.Command {
	var flags postgresFlags
	cmd := &cobra.Command{
		Use:   "migrate --postgres URL",
		Short: "Bring the schema in Postgres up to date",
		Long: `Bring the schema in Postgres up to date. A worker does so when it starts, unless
it has --no-migrate: its user then needs rights to read and write rows only.`,
		Args: cobra.NoArgs,
	}
	flags.addTo(cmd.Flags())
	complete(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := flags.adoptEnvironment(cmd.Flags(), postgresNames); err != nil {
			return usage(err)
		}
		db, err := flags.database()
		if err != nil {
			return usage(err)
		}
		if db == nil {
			return usage(errors.New("no database is named: want --postgres"))
		}
		from, to, err := crawl.Migrate(cmd.Context(), db)
		if err != nil {
			return &exitError{exitFailed, err}
		}
		if from == to {
			fmt.Fprintf(s.out, "%s has schema %d already\n", db.Where(), to)
		} else {
			fmt.Fprintf(s.out, "%s has schema %d, had %d\n", db.Where(), to, from)
		}
		return nil
	}
	return cmd
}
