package cli

import (
	"context"
	"errors"
	"fmt"

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
func (t *target) location() (at location, err error) {
	names := connectionFlags
	if t.flags.Changed("dir") && !t.flags.Changed("redis") && !t.flags.Changed("name") {
		names = postgresNames // a directory on the command line wins over a Redis in the environment
	}
	if err = t.adoptEnvironment(t.flags, names); err == nil {
		at, err = t.sharedFlags.location(t.dir)
	}
	if err == nil && at.Redis == nil {
		if at.Dir, err = directoryOf(t.dir); errors.Is(err, errNoCrawlHere) {
			err = fmt.Errorf("%w, or with --redis", err)
		}
	}
	if err != nil {
		return location{}, usage(err)
	}
	return at, nil
}

// run returns a RunE function that passes fn to t.with.
func (t *target) run(fn func(ctx context.Context, c *attached) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error { return t.with(cmd.Context(), fn) }
}

// with calls location.with for the crawl that the flags name.
func (t *target) with(ctx context.Context, fn func(ctx context.Context, c *attached) error) error {
	at, err := t.location()
	if err != nil {
		return err
	}
	return at.with(ctx, fn)
}

// withOutboxes calls fn with the outboxes of the crawl, and then closes the outboxes. An outbox
// contains the events of the crawl, or those of one of its workers.
func (t *target) withOutboxes(ctx context.Context, fn func(at location, boxes *crawl.Outboxes) error) error {
	return t.with(ctx, func(ctx context.Context, c *attached) error {
		boxes, err := c.Outboxes(ctx)
		if err != nil {
			return err
		}
		return errors.Join(fn(c.at, boxes), boxes.Close())
	})
}
