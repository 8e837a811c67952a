package cli

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/internal/human"
)

// newRetry offers failed URLs again.
func newRetry(s streams) *cobra.Command {
	var crawl target
	var host string
	cmd := &cobra.Command{
		Use:   "retry [--dir DIR | --redis URL --name NAME] [--host HOST]",
		Short: "Offer failed URLs again, in a new round",
		Args:  cobra.NoArgs,

		DisableFlagsInUseLine: true,
	}
	crawl.addTo(cmd)
	cmd.Flags().StringVar(&host, "host", "", "only those of this `HOST` key")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := crawl.existing(cmd.Context())
		if err != nil {
			return err
		}
		host, n := strings.ToLower(host), 0
		err = visitCrawl(cmd.Context(), at, s,
			func() error {
				return callControl(cmd.Context(), at.dir, "POST", "/retry?host="+url.QueryEscape(host), nil, &n)
			},
			func(ses *session) error {
				n, err = ses.store.Retry(cmd.Context(), host)
				return err
			})
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "%s queued again\n", human.Plural(uint64(n), "URL"))
		return nil
	}
	return cmd
}
