package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/internal/human"
)

// newRetry returns the command that queues failed URLs again.
func newRetry(s streams) *cobra.Command {
	var crawl target
	var host string
	cmd := &cobra.Command{
		Use:   "retry [--dir DIR | --redis URL --name NAME] [--host HOST]",
		Short: "Offer failed URLs again, in a new round",
		Args:  cobra.NoArgs,
	}
	crawl.addTo(cmd)
	cmd.Flags().StringVar(&host, "host", "", "only those of this `HOST` key")
	cmd.RunE = crawl.run(func(ctx context.Context, c *attached) error {
		n, err := c.Retry(ctx, strings.ToLower(host))
		if err == nil {
			_, err = fmt.Fprintf(s.out, "%s queued again\n", human.Plural(uint64(n), "URL"))
		}
		return err
	})
	return cmd
}
