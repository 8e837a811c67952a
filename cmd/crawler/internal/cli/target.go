package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/crawl"
)

// target contains the flags that name the crawl of a command.
type target struct {
	dir string
	sharedFlags
	flags *pflag.FlagSet
}

// addTo declares the flags.
func (t *target) addTo(cmd *cobra.Command) {
	t.flags = cmd.Flags()
	t.sharedFlags.addTo(t.flags)
	addDir(cmd, &t.dir)
	t.flags.Lookup("dir").Usage += "; with --redis the parent of its workers' directories (default ./NAME.crawl)"
}

// location returns the location of the crawl.
func (t *target) location() (location, error) {
	// A directory on the command line wins over a Redis in the environment.
	if t.flags.Changed("redis") || t.flags.Changed("name") || !t.flags.Changed("dir") {
		shared, err := t.wanted(t.flags)
		if err != nil {
			return location{}, usage(err)
		}
		if shared != nil {
			shared.Dir = t.dir
			return *shared, nil
		}
	}
	at, err := directoryOf(t.dir)
	if err != nil {
		return at, err
	}
	if err = t.adoptEnvironment(t.flags, postgresNames); err == nil {
		at.Postgres, err = t.database()
	}
	if err != nil {
		return at, usage(err)
	}
	at.names = &t.sharedFlags
	return at, nil
}

// run returns a RunE function that passes fn to t.with.
func (t *target) run(fn func(ctx context.Context, c *attached) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error { return t.with(cmd.Context(), fn) }
}

// with opens a Handle on the crawl, and calls fn with this Handle. An error of fn is
// passed to location.explain.
func (t *target) with(ctx context.Context, fn func(ctx context.Context, c *attached) error) error {
	at, err := t.location()
	if err != nil {
		return err
	}
	c, err := at.attach(ctx)
	if err != nil {
		return err
	}
	return at.explain(fn(ctx, c))
}

// withOutboxes calls fn with the outboxes of the crawl, and then closes the outboxes.
func (t *target) withOutboxes(ctx context.Context, fn func(at location, boxes *crawl.Outboxes) error) error {
	return t.with(ctx, func(ctx context.Context, c *attached) error {
		boxes, err := c.Outboxes(ctx)
		if err != nil {
			return err
		}
		return errors.Join(fn(c.at, boxes), boxes.Close())
	})
}
