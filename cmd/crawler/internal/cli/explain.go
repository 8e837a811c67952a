package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

// newExplain returns the command that explains why a URL was, or was not, crawled.
func newExplain(s streams) *cobra.Command {
	var crawl target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain URL [--dir DIR | --redis URL --name NAME] [--json] [--out FILE]",
		Short: "Explain why a URL was, or was not, crawled",
		Long: `Explain why a URL was, or was not, crawled: its canonical form, what each rule,
robots.txt and the filter answer, where it waits, its outcome, and which page
named it. It also works for URLs that the crawl never saw. It sends no requests.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%d arguments, want one URL", len(args))
			}
			return nil
		},
	}
	crawl.addTo(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return crawl.with(cmd.Context(), func(ctx context.Context, c *attached) error {
			e, err := c.Explain(ctx, args[0])
			switch {
			case err != nil:
				return err
			case asJSON:
				return json.NewEncoder(s.out).Encode(e)
			}
			_, err = e.WriteTo(s.out)
			return err
		})
	}
	return cmd
}
