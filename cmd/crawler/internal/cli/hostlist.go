package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// newHosts returns the command that lists the hosts of a crawl.
func newHosts(s streams) *cobra.Command {
	var at target
	var query crawl.HostQuery
	var asJSON bool
	cmd := &cobra.Command{
		Use: "hosts [--dir DIR | --redis URL --name NAME] [--sort ORDER] [--trouble]\n" +
			"    [--top N] [--host HOST] [--json] [--out FILE]",
		Short: "List the hosts of a crawl: what they wait for, and what was fetched from them",
		Long: `List hosts of a crawl, running or not: queued URLs, pages, failed URLs, errors
by cause with the last one, size, the delay in force and where it comes from (set,
robots.txt or latency), the next request, and what the host waits for. Hosts that
have no URLs left are listed too. --host shows all that is known of one host.

The orders: queued (most first), pages, errors, wait (the latest next request
first), oldest (the host whose oldest URL has waited for longest first).`,
		Example: `  crawler hosts --trouble
  crawler hosts --sort errors --top 50 --json
  crawler hosts --host www.example.org`,
		Args: cobra.NoArgs,
	}
	at.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&query.Sort, "sort", "queued", "`ORDER` of the hosts")
	orders := slices.Sorted(maps.Keys(report.HostSorts))
	checkText(flags, "sort", "one of "+strings.Join(orders, ", "), func(text string) error {
		if !slices.Contains(orders, text) {
			return fmt.Errorf("no order %q", text)
		}
		return nil
	})
	flags.BoolVar(&query.Trouble, "trouble", false, "only hosts that fail, are blocked, or have the lease of a dead worker")
	restrict.Number(flags, &query.Most, "top", 20, "list `N` hosts", 1, crawl.MaxHosts, "a whole number from 1 to 10000")
	flags.StringVar(&query.Host, "host", "", "only this `HOST`")
	checkText(flags, "host", "a host key", func(text string) error {
		_, err := policy.ParseTarget("host=" + text)
		return err
	})
	flags.BoolVar(&asJSON, "json", false, "print a line of JSON for each host")
	cmd.RunE = at.run(func(ctx context.Context, c *attached) error {
		hosts, err := c.Hosts(ctx, query)
		if err != nil {
			return err
		}
		if asJSON {
			enc := json.NewEncoder(s.out)
			for i := range hosts.Hosts {
				if err := enc.Encode(&hosts.Hosts[i]); err != nil {
					return err
				}
			}
			return nil
		}
		switch {
		case query.Host != "" && len(hosts.Hosts) == 1:
			return hosts.Hosts[0].WriteText(s.out)
		case len(hosts.Hosts) == 0:
			_, err := fmt.Fprintf(s.out, "%s: no such host\n", c.at)
			return err
		}
		return hosts.WriteText(s.out)
	})
	return cmd
}
