package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// target is the crawl that a command is about: one in a directory, or one that
// workers share.
type target struct {
	dir string
	sharedFlags
	flags *pflag.FlagSet
}

// addTo gives a command the flags that name its crawl.
func (t *target) addTo(cmd *cobra.Command) {
	t.flags = cmd.Flags()
	t.sharedFlags.addTo(t.flags)
	addDir(cmd, &t.dir)
	t.flags.Lookup("dir").Usage += "; with --redis what has its workers' directories (default ./NAME.crawl)"
}

// place returns where the crawl is.
func (t *target) place() (place, error) {
	shared, err := t.sharedPlace()
	if err != nil {
		return place{}, err
	}
	if shared != nil {
		return *shared, nil
	}
	at, err := directoryOf(t.dir)
	if err != nil {
		return at, err
	}
	return t.postgresFlags.beside(at, t.flags)
}

// attach returns the crawl, which exists.
func (t *target) attach(ctx context.Context) (*attached, error) {
	at, err := t.place()
	if err != nil {
		return nil, err
	}
	return at.attach(ctx)
}

// sharedPlace returns the place of the crawl if it is shared. A directory that
// the command line names wins over a Redis that only the environment does.
func (t *target) sharedPlace() (*place, error) {
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
