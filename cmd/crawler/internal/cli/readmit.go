package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newReadmit returns the command that lets URLs in again.
func newReadmit(s streams) *cobra.Command {
	var at target
	var f ruleOptions
	var of crawl.Readmit
	var crash string
	cmd := &cobra.Command{
		Use:   "readmit [--dir DIR] [--dry-run] (URL... | [--host HOST] [--match RE])",
		Short: "Let URLs in again that the crawl has seen",
		Long: `Let URLs in again: if one of them is found or seeded later, it is queued once more,
for another round. No other URL is let in, and nothing is queued now. --host and
--match select URLs that have a record. Those that wait are dropped first, with a
record and without a request. 'crawler retry --match' queues finished URLs now.

The command can be stopped, and repeated.`,
		Example: `  crawler readmit --host shop.example.org --match '/news/' --dry-run
  crawler readmit https://a.test/news/`,
	}
	at.addTo(cmd)
	f.addTo(cmd, false)
	flags := cmd.Flags()
	_ = flags.MarkHidden("why")
	flags.BoolVar(&of.Dry, "dry-run", false, "change nothing, count the URLs")
	addCrash(flags, &crash)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		crashAt(crash)
		return at.with(cmd.Context(), func(ctx context.Context, c *attached) (err error) {
			switch {
			case len(args) > 0 == f.given():
				return usage(errors.New("want URLs, or --host and --match"))
			case f.given():
				if of.Rule, err = f.rule(); err != nil {
					return err
				}
			}
			of.URLs = args
			n, err := c.Readmit(ctx, of)
			if err == nil || n != (crawl.Readmission{}) {
				verb := map[bool]string{false: "let in again", true: "would be let in again"}[of.Dry]
				fmt.Fprintf(s.out, "%s: %s %s, after %s that waited %s\n", c.at, human.Plural(n.Readmitted, "URL"), verb, human.Plural(n.Dropped, "URL"),
					map[bool]string{false: "dropped", true: "would be dropped"}[of.Dry])
				if n.Waiting > 0 && !of.Dry {
					fmt.Fprintf(s.out, "%s not let in: workers have them, or they wait for another attempt; repeat this later\n", human.Plural(n.Waiting, "URL"))
				}
				if n.NeverSeen > 0 {
					fmt.Fprintf(s.out, "%s never seen: they are let in anyway\n", human.Plural(n.NeverSeen, "URL"))
				}
			}
			return err
		})
	}
	return cmd
}
