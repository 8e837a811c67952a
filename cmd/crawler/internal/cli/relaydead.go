package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newDead returns the command for dead letters: events that the receiver refused for ever.
func newDead(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List, send again or discard events that were refused for ever",
		Long: `List, send again or discard the dead letters of a relay: events that the other
program refused for ever, such as a webhook with status 400, 413 or 422. They are
kept with the reason until they are discarded, or accepted by a retry.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newDeadList(s), newDeadRetry(s), newDeadDiscard(s))
	return cmd
}

// deadFlags are the flags of a command about the dead letters of a relay.
type deadFlags struct {
	target
	relay string
}

func (f *deadFlags) addTo(cmd *cobra.Command) {
	f.target.addTo(cmd)
	cmd.Flags().StringVar(&f.relay, "relay", defaultRelay, "the relay of this `NAME`")
}

// each calls fn for every outbox that the relay has read. An outbox contains the events of a
// crawl, or those of one of its workers. If the relay has read no outbox, the error lists the
// names of other relays.
func (f *deadFlags) each(ctx context.Context, fn func(box crawl.Outbox) error) error {
	return f.withOutboxes(ctx, func(at location, boxes *crawl.Outboxes) error {
		all, err := boxes.List(ctx)
		if err != nil {
			return err
		}
		var known []string
		for _, box := range all {
			names, err := box.Names(ctx)
			if err != nil {
				return err
			}
			known = append(known, names...)
			if slices.Contains(names, f.relay) {
				if err := fn(box); err != nil {
					return err
				}
			}
		}
		if !slices.Contains(known, f.relay) {
			others := "nor any other"
			if len(known) > 0 {
				slices.Sort(known)
				others = "it has " + strings.Join(slices.Compact(known), ", ")
			}
			return usage(fmt.Errorf("%s has no relay %q, %s", at, f.relay, others))
		}
		return nil
	})
}

func newDeadList(s streams) *cobra.Command {
	var f deadFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [--relay NAME] [--dir DIR | --redis URL --name NAME] [--json]",
		Short: "List dead letters, oldest first",
		Args:  cobra.NoArgs,
	}
	f.addTo(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each with its event as a line of JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return f.each(cmd.Context(), func(box crawl.Outbox) error {
			letters, err := box.Dead(cmd.Context(), f.relay)
			if err != nil {
				return err
			}
			for i := range letters {
				if err := printLetter(s, &letters[i], asJSON); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

func printLetter(s streams, letter *events.DeadLetter, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(s.out).Encode(letter)
	}
	_, err := fmt.Fprintf(s.out, "%s  %s  %s\n    %s\n", letter.At.Format(time.DateTime), letter.Event.ID,
		human.Printable(letter.Event.Subject), human.Printable(letter.Reason))
	return err
}

func newDeadDiscard(s streams) *cobra.Command {
	var f deadFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "discard [--relay NAME] [--dir DIR | --redis URL --name NAME] --all | ID...",
		Short: "Discard dead letters",
	}
	f.addTo(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all of them")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if all == (len(ids) > 0) {
			return usage(errors.New("want the ids of events, or --all"))
		}
		removed := 0
		err := f.each(cmd.Context(), func(box crawl.Outbox) error {
			n, err := box.Discard(cmd.Context(), f.relay, ids...)
			removed += n
			return err
		})
		if err == nil {
			_, err = fmt.Fprintf(s.out, "%s discarded\n", human.Plural(uint64(removed), "dead letter"))
		}
		return err
	}
	return cmd
}

func newDeadRetry(s streams) *cobra.Command {
	var f deadFlags
	var to eventFlags
	cmd := &cobra.Command{
		Use:   "retry [--to URL] [--relay NAME] [--dir DIR | --redis URL --name NAME] [flags] [ID...]",
		Short: "Send dead letters again: all, or those with the given ids",
		Long: `Send dead letters again: all, or those of the ids. An event that is now accepted
is no longer a dead letter. With --to the events are sent at once. Without it the
relay sends them, within seconds if it runs, and otherwise when it runs next. In
both cases they arrive after newer events of their hosts.`,
	}
	f.addTo(cmd)
	cmd.Flags().AddFlagSet(to.declare(to.addSink))
	cmd.RunE = func(cmd *cobra.Command, ids []string) (err error) {
		ctx := cmd.Context()
		if to.to == "" {
			return f.resend(ctx, s, ids)
		}
		sink, err := to.open(ctx, s.out)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, sink.Close()) }()
		var sums events.Retried
		var away error
		err = f.each(ctx, func(box crawl.Outbox) error {
			done, err := events.Retry(ctx, box, sink, f.relay, ids...)
			sums.Accepted, sums.Refused, sums.Left = sums.Accepted+done.Accepted, sums.Refused+done.Refused, sums.Left+done.Left
			if _, is := errors.AsType[*events.AwayError](err); is {
				away = err
				return nil // go on: other outboxes can have dead letters too
			}
			return err
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(s.err, "%s accepted, %s refused again, %s not sent\n", human.Plural(uint64(sums.Accepted), "event"),
			human.Commas(uint64(sums.Refused)), human.Commas(uint64(sums.Left)))
		if away != nil {
			return &exitError{exitFailed, fmt.Errorf("the other program is away: %w", away)}
		}
		return nil
	}
	return cmd
}

// resend asks the relay to send dead letters again.
func (f *deadFlags) resend(ctx context.Context, s streams, ids []string) error {
	marked := 0
	err := f.each(ctx, func(box crawl.Outbox) error {
		n, err := box.Resend(ctx, f.relay, ids...)
		marked += n
		return err
	})
	if err == nil {
		_, err = fmt.Fprintf(s.out, "relay %s sends %s again as soon as it runs\n", f.relay, human.Plural(uint64(marked), "dead letter"))
	}
	return err
}
