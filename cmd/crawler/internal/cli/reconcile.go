package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newReconcile returns the command that queues lost exact URLs again: those that wait to be
// fetched according to Postgres, but are not in Redis.
func newReconcile(s streams) *cobra.Command {
	var shared sharedFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reconcile --redis URL --name NAME --postgres URL [--json]",
		Short: "Queue exact URLs that Redis has lost",
		Long: `Queue exact URLs that Redis has lost. Postgres has all exact URLs that wait, and
URLs that are queued already stay as they are. The command can be run at any time,
also while workers run, and several times at once.`,
		Args: cobra.NoArgs,
	}
	shared.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	complete(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := shared.wanted(cmd.Flags())
		if err != nil {
			return err
		}
		if at.Redis == nil || at.Postgres == nil {
			return usage(errors.New("no crawl is named: want --redis, --name and --postgres"))
		}
		return at.with(cmd.Context(), func(ctx context.Context, c *attached) error {
			done, err := c.Reconcile(ctx)
			switch {
			case err != nil:
				return err
			case asJSON:
				return json.NewEncoder(s.out).Encode(done)
			}
			printReconciled(s.out, done)
			return nil
		})
	}
	return cmd
}

func printReconciled(w io.Writer, done exact.Reconciled) {
	fmt.Fprintf(w, "%s offered: %s queued again, %s refused\n", human.Plural(done.Offered, "key"),
		human.Commas(done.Added), human.Commas(done.Refused))
}
