package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/memlimit"
	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/human"
)

// plan is the crawl that a valid command line describes. Nothing is created yet.
type plan struct {
	*options
	layers *layers
	at     location
	crawl  *crawl.Plan // nil if the location is not known
	// seedsGiven is the seedsText of the command line; empty means no seeds.
	seedsGiven string
	ending     ending // the deadline of a run that was stopped
}

// resolve combines flags, environment, config file and the stored settings of the crawl.
// Its error lists every fault.
func (o *options) resolve(ctx context.Context, flags *pflag.FlagSet, args []string) (*plan, error) {
	p := &plan{options: o}
	l, err := readLayers(ctx, flags, os.Environ())
	errs := []error{err}
	p.layers = l
	o.from = l.from
	if err = checkArguments(args); err == nil {
		p.at, err = o.where(args)
	}
	errs = append(errs, err)
	if p.at.Postgres != nil {
		p.at.Postgres.NoMigrate = o.noMigrate
	}
	p.seedsGiven = seedsText(args, o.seeds)
	config := p.config()
	if p.at.Dir == "" && p.at.Redis == nil {
		errs = append(errs, p.faults(config.Validate()))
	} else {
		o.sizes.SaveRotateBytes = int64(o.saveRotate)
		p.crawl, err = crawl.Prepare(crash.WithSizes(ctx, o.sizes), config)
		if _, faulty := errors.AsType[*crawl.ConfigError](err); err != nil && !faulty {
			return nil, p.at.explain(err)
		}
		errs = append(errs, p.faults(err), p.adopt())
	}
	errs = slices.Concat(errs, []error{p.check()}, p.checkNeeds(), o.checkExact())
	if err := errors.Join(errs...); err != nil {
		p.close()
		return nil, usage(err)
	}
	return p, nil
}

// close releases the crawl.Plan.
func (p *plan) close() {
	if p.crawl != nil {
		p.crawl.Close()
	}
}

// where returns the location of the crawl.
func (o *options) where(args []string) (at location, err error) {
	if at, err = o.sharedFlags.location(o.dirFlag); err != nil || at.Redis != nil || at.Dir != "" {
		return at, err
	}
	if at.Dir, err = defaultDir(args, o.seeds); err != nil {
		return location{}, err
	}
	return at, nil
}

// adopt makes the flags show the settings of the crawl, and notes where those that this command line does not
// set are from.
func (p *plan) adopt() error {
	if p.crawl == nil {
		return nil
	}
	p.settings = p.crawl.Settings
	for _, row := range settings.Rows() {
		kept, found := p.crawl.Source(row.Name)
		switch {
		case found && kept == settings.Here:
			p.layers.from[row.Name] = "machine.json"
		case found:
			p.layers.from[row.Name] = p.at.keeper()
		}
	}
	return p.checkDefaultDir()
}

// faults returns the faults of a crawl.ConfigError, in the words of flags.
func (p *plan) faults(err error) error {
	config, is := errors.AsType[*crawl.ConfigError](err)
	if !is {
		return err
	}
	var errs []error
	for _, fault := range config.Faults {
		if memory, is := errors.AsType[*crawl.MemoryError](fault); is {
			least := max(human.Bytes(memlimit.Least), human.Bytes((2*memory.Least+1<<20-1)>>20<<20))
			fault = fmt.Errorf("%s is %s, want at least %s for one answer of --max-body, its document and all else", p.layers.where("memory"), &p.memory, &least)
		} else if setting, is := errors.AsType[*settings.Error](fault); is {
			fault = fmt.Errorf("%s: %w", p.layers.where(setting.Name), setting.Err)
		}
		errs = append(errs, fault)
	}
	return errors.Join(errs...)
}

// check returns the faults that concern several options. Package settings has already
// checked each option alone.
func (p *plan) check() error {
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	if p.settings.BackoffMax < p.settings.Backoff {
		keep(fmt.Errorf("%s is %v, want at least the %v of --backoff", p.layers.where("backoff-max"), p.settings.BackoffMax, p.settings.Backoff))
	}
	if most := crawl.MaxConcurrency(); p.settings.Concurrency > most {
		keep(fmt.Errorf("%s is %d, want up to %d: this process may open no more connections (ulimit -n)", p.layers.where("concurrency"), p.settings.Concurrency, most))
	}
	if p.events.to == "-" && p.out == "-" {
		keep(errors.New("--out - and --events - both write to stdout: want one of them"))
	}
	return errors.Join(errs...)
}

// config returns the config of the crawl.
func (p *plan) config() crawl.Config {
	s := p.settings
	given := slices.Collect(maps.Keys(p.layers.from))
	if p.layers.hostsGiven {
		s.Hosts, given = p.layers.hosts, append(given, hostsSetting)
	}
	if p.layers.groups != nil {
		s.Fields, given = append(slices.Clip(s.Fields), p.layers.groups...), append(given, "field")
	}
	return crawl.Config{
		Dir: p.at.Dir, Redis: p.at.Redis, Postgres: p.at.Postgres, SeedsText: p.seedsGiven,
		Settings: s, Given: given, Anyway: p.anyway, Memory: int64(p.memory) / 2,
	}
}
