package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newRelayStatus returns the command that says how far relays are behind.
func newRelayStatus(s streams) *cobra.Command {
	var of target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status [--dir DIR | --redis URL --name NAME] [--json]",
		Short: "Print how far each relay of a crawl is behind, running or not",
		Args:  cobra.NoArgs,
	}
	of.addTo(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return of.withOutboxes(cmd.Context(), func(at location, boxes *crawl.Outboxes) error {
			relays, err := boxes.Relays(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(s.out).Encode(append([]report.RelayStatus{}, relays...))
			}
			if len(relays) == 0 {
				_, err = fmt.Fprintf(s.out, "%s: no relay has read it; '%s --to URL' begins one\n", at, at.command("relay"))
			}
			for i := range relays {
				r := &relays[i]
				if _, err = fmt.Fprintf(s.out, "relay %s: %s\n", r.Title(), r.Words()); err != nil {
					return err
				}
				if r.Left && !r.GivenUp {
					fmt.Fprintf(s.out, "  to send them: %s\n", human.Printable(r.Send))
					fmt.Fprintf(s.out, "  if that directory is lost: %s --relay %s %s\n", at.command("relay give-up"), r.Name, r.Journal)
				}
			}
			return err
		})
	}
	return cmd
}
