package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newGiveUp returns the command that accepts the loss of the events of a dead worker.
func newGiveUp(s streams) *cobra.Command {
	var f deadFlags
	cmd := &cobra.Command{
		Use:   "give-up --redis URL --name NAME [--relay NAME] ID...",
		Short: "Accept the loss of events whose worker and directory are lost",
		Long: `Accept the loss of the events that a dead worker has not delivered, because its
directory is lost too. ID is the id or the path of the directory: crawler relay
status prints them. From then on, these events do not count as missing. If the
directory is found again, crawler relay --dir still sends its events.`,
		Args: cobra.MinimumNArgs(1),
	}
	f.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		return f.withOutboxes(cmd.Context(), func(_ location, boxes *crawl.Outboxes) error {
			for _, id := range ids {
				given, err := boxes.GiveUp(cmd.Context(), f.relay, id)
				if err != nil {
					return usage(err)
				}
				atLeast := ""
				if given.AtLeast {
					atLeast = "at least "
				}
				if _, err := fmt.Fprintf(s.out, "relay %s of %s: the loss of %s%s is accepted\n", given.Name, human.Printable(given.Worker),
					atLeast, human.Plural(given.Events, "event")); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}
