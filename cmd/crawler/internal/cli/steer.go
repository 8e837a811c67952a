package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/internal/human"
)

// newPause returns the command that pauses a crawl, or some of its hosts and URLs.
func newPause(s streams) *cobra.Command {
	return newPausing(s, true, &cobra.Command{
		Use:   "pause [--dir DIR | --redis URL --name NAME] [--host HOST] [--match RE] [--why TEXT]",
		Short: "Start no more requests until crawler resume",
		Long: `Start no more requests until crawler resume: in the whole crawl or, with --host
and --match, to the hosts and URLs that they select. Requests under way finish. URLs
that are paused wait without using an attempt, and other URLs do not wait for them.
A crawl in which only paused URLs are left does not end. A crawl that is not running
stays paused when it is run.`,
		Example: `  crawler pause
  crawler pause --host '*.example.org' --why 'the owner asked'
  crawler pause --host www.example.org --match '/calendar/'`,
	})
}

// newResume returns the command that ends a pause.
func newResume(s streams) *cobra.Command {
	return newPausing(s, false, &cobra.Command{
		Use:   "resume [--dir DIR | --redis URL --name NAME] [--host HOST] [--match RE] [--why TEXT]",
		Short: "End a pause",
		Long: `End the pause of the whole crawl or, with --host and --match, one that was made
with the same flags. 'crawler status' lists the pauses. A host is then due when it
was before.`,
	})
}

func newPausing(s streams, paused bool, cmd *cobra.Command) *cobra.Command {
	var crawl target
	var f ruleOptions
	cmd.Args = cobra.NoArgs
	crawl.addTo(cmd)
	f.addTo(cmd, false)
	cmd.RunE = crawl.run(func(ctx context.Context, c *attached) error {
		running := c.at.Redis != nil || c.Running(ctx) // a crawl in Redis can have workers elsewhere
		if f.given() {
			return f.pause(ctx, s, c, paused, running)
		}
		call := c.Pause
		if !paused {
			call = c.Resume
		}
		before, err := call(ctx)
		if err == nil {
			_, err = fmt.Fprintln(s.out, c.at.paused(paused, before, running))
		}
		return err
	})
	return cmd
}

// paused describes the effect of a pause or of its end. wasPaused reports whether the
// crawl was already paused.
func (at location) paused(paused, wasPaused, running bool) string {
	said := map[[2]bool]string{
		{true, false}: "paused", {true, true}: "was paused before", {false, true}: "resumed", {false, false}: "was not paused",
	}[[2]bool{paused, wasPaused}]
	said = at.String() + ": " + said
	switch {
	case paused && running:
		return fmt.Sprintf("%s; requests under way finish, '%s' goes on", said, at.command("resume"))
	case paused:
		return fmt.Sprintf("%s; it is not running, and when it is run it waits for '%s'", said, at.command("resume"))
	case running:
		return said + "; it requests pages"
	}
	return fmt.Sprintf("%s; it is not running, '%s' goes on", said, at.command("crawl"))
}

// newStop returns the command that stops a running crawl as Ctrl-C does.
func newStop(s streams) *cobra.Command {
	var crawl target
	cmd := &cobra.Command{
		Use:   "stop [--dir DIR | --redis URL --name NAME]",
		Short: "Stop a running crawl, as Ctrl-C does",
		Long: `Stop a running crawl, as Ctrl-C does: what is under way finishes, nothing is
lost, and the command returns when the crawl has ended. With --redis it stops all
workers of the crawl, wherever they run, and says how many; workers that are
started later are not concerned.`,
		Args: cobra.NoArgs,
	}
	crawl.addTo(cmd)
	cmd.RunE = crawl.run(func(ctx context.Context, c *attached) error {
		if c.at.Redis != nil {
			return stopWorkers(ctx, s, c)
		}
		ran, err := c.Stop(ctx)
		if err == nil && !ran {
			_, err = fmt.Fprintf(s.out, "%s: not running\n", c.at)
		}
		return err
	})
	return cmd
}

// stopWorkers stops all workers of a crawl in Redis.
func stopWorkers(ctx context.Context, s streams, c *attached) error {
	stopped, err := c.StopWorkers(ctx)
	said := "not running"
	if n := len(stopped.Left); n > 0 {
		said = fmt.Sprintf("%s stopped: %s", human.Plural(uint64(n), "worker"), strings.Join(stopped.Left, ", "))
	}
	if n := len(stopped.Died); n > 0 {
		said = strings.TrimPrefix(said+"; ", "not running; ") + fmt.Sprintf("%s did not answer: %s; their hosts are free when their leases have expired",
			human.Plural(uint64(n), "worker"), strings.Join(stopped.Died, ", "))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s: %s\n", c.at, said)
	return err
}
