package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/crawl"
)

// target has the flags that name the crawl that a command is about.
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
	shared, err := t.sharedLocation()
	if err != nil {
		return location{}, err
	}
	if shared != nil {
		return *shared, nil
	}
	at, err := directoryOf(t.dir)
	if err != nil {
		return at, err
	}
	return t.postgresFlags.withPostgres(at, t.flags)
}

// attach attaches to the crawl, which must exist.
func (t *target) attach(ctx context.Context) (*attached, error) {
	at, err := t.location()
	if err != nil {
		return nil, err
	}
	return at.attach(ctx)
}

// withOutboxes calls do with the outboxes of the crawl, and closes them.
func (t *target) withOutboxes(ctx context.Context, do func(at location, boxes *crawl.Outboxes) error) error {
	c, err := t.attach(ctx)
	if err != nil {
		return err
	}
	boxes, err := c.Outboxes(ctx)
	if err == nil {
		err = errors.Join(do(c.at, boxes), boxes.Close())
	}
	return c.at.explain(err)
}

// sharedLocation returns the location of a crawl in Redis, or nil. A directory on the
// command line wins over a Redis in the environment.
func (t *target) sharedLocation() (*location, error) {
	named := t.flags.Changed("redis") || t.flags.Changed("name")
	if !named && t.flags.Changed("dir") {
		return nil, nil
	}
	at, err := t.wanted(t.flags)
	if err != nil {
		return nil, usage(err)
	}
	if at == nil {
		return nil, nil
	}
	at.Dir = t.dir
	return at, nil
}
