package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/memlimit"
	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/seeds"
	"github.com/bloomfrontier/crawler/events"
)

func newCrawl(s streams) *cobra.Command {
	o := new(options)
	var p *plan
	cmd := &cobra.Command{
		Use:   "crawl [SEED...] [flags]",
		Short: "Crawl from seeds, or resume a crawl",
		Long: `Crawl from seeds, or resume a crawl.

A crawl lives in a directory, and the same command resumes it. A seed without
a scheme is tried as https. Ctrl-C finishes what is under way, twice stops at
once; either way nothing is lost. Records go to DIR/pages.jsonl, one line of
JSON for each URL.

With --redis and --name a crawl lives in a Redis, and any number of workers on
any machines share it: the first command creates it, the same command joins it.
Each worker has a directory of its own for its records; crawler export merges
them. With --postgres, the URLs that --exact names are stored in Postgres, and
survive the loss of Redis.`,
		Example: `  crawler crawl --max-pages 100 https://go.dev/
  crawler crawl --seeds hosts.txt.gz --scope domain --dir archive.crawl
  crawler crawl --dir archive.crawl --concurrency 200
  crawler crawl --redis redis://10.0.0.5 --name archive --seeds hosts.txt.gz`,
	}
	addSections(cmd, o.newFlags())
	cmd.PreRunE = func(cmd *cobra.Command, args []string) (err error) {
		if p, err = o.resolve(cmd.Context(), cmd.Flags(), args); err == nil && p.crawl.New() && len(args) == 0 && o.seeds == "" {
			err = usage(fmt.Errorf("%s, and no seeds: name a URL or --seeds FILE", p.at.missing()))
		}
		return err
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.within(func() error { return p.run(cmd.Context(), args, s) })
	}
	return cmd
}

// run crawls until the queue is empty, a limit is reached or ctx ends.
func (p *plan) run(ctx context.Context, args []string, s streams) (err error) {
	c := newConsole(s.err, p.quiet)
	s.err = c
	defer p.close()
	config := &p.crawl.Config
	files, err := p.openFiles(ctx, config, s)
	if err != nil {
		return usage(err)
	}
	defer func() { err = errors.Join(err, files.close()) }()
	if p.crawl.New() && p.seeds == "" {
		if err := refuseAll(ctx, p.crawl, args); err != nil { // before a directory is created
			return err
		}
	}
	reading, endReading := context.WithCancel(ctx)
	defer endReading()
	given, err := seeds.Open(reading, args, p.options.seeds, s.in)
	if err != nil {
		return usage(err)
	}
	defer given.Close()
	var filled atomic.Pointer[crawl.Crawl]
	limit := uint64(p.memory)
	if os.Getenv("GOMEMLIMIT") != "" {
		limit = 0
	}
	keeper := memlimit.New(limit, func() uint64 {
		if c := filled.Load(); c != nil {
			return c.FilterBytes()
		}
		return 0
	})
	config.Scarce, config.Cache = keeper.Scarce, memlimit.Cache(uint64(p.memory))
	r := &running{plan: p, console: c, files: files, log: config.Logger, given: given}
	config.Resume = r.resume
	opened, err := p.crawl.Open(ctx)
	if err != nil {
		return p.at.explain(err)
	}
	filled.Store(opened)
	keeper.Follow()
	r.crawl, r.dir = opened, opened.Dir()
	stopProfile, err := startProfile(p.cpuProfile)
	if err != nil {
		return errors.Join(usage(err), opened.Close())
	}
	result, err := r.work(ctx, endReading)
	stopProfile()
	if err == nil && result.Unreached != nil {
		result.Unreached = r.unreached(ctx, result)
	}
	if closeErr := opened.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return r.failure(err)
	}
	r.print(result)
	return r.exit(ctx, result)
}

// openFiles opens the files to which a run appends, and adds them and the logger to the config.
func (p *plan) openFiles(ctx context.Context, config *crawl.Config, s streams) (files runFiles, err error) {
	level := p.logLevel
	if p.quiet && (level == "info" || level == "debug") {
		level = "warn"
	}
	config.Logger = newLogger(s.err, level, p.logFormat)
	crashAt(p.crashAt)
	if files.refused, err = openRefusals(p.refused, p.at.Dir); err != nil {
		return files, err
	}
	config.OnRefused = files.refused.onRefused()
	switch p.out {
	case toFiles, "":
	case "-":
		config.Stream = s.out
	default:
		if files.appended, err = openAppend(p.out, p.at.Dir); err != nil {
			return files, errors.Join(fmt.Errorf("--out: %w", err), files.close())
		}
		config.Stream = files.appended
	}
	if p.events.to == "" {
		return files, nil
	}
	relay, err := p.events.config(ctx, s.out)
	if err != nil {
		return files, errors.Join(err, files.close())
	}
	config.Events, files.sink = &relay, relay.Sink
	return files, nil
}

// runFiles are the outputs that the user has named for a run.
type runFiles struct {
	appended *os.File    // the file of --out; nil means none
	refused  *refusalLog // the file of --refused; nil means none
	sink     events.Sink // the sink of --events; nil means none
}

func (f *runFiles) close() error {
	err := f.refused.close()
	if f.appended != nil {
		err = errors.Join(err, f.appended.Close())
	}
	if f.sink != nil {
		err = errors.Join(err, f.sink.Close())
	}
	return err
}

// refuseAll returns an error if every seed is refused.
func refuseAll(ctx context.Context, p *crawl.Plan, seeds []string) error {
	var why []error
	for _, fault := range p.CheckSeeds(ctx, seeds) {
		if fault == nil {
			return nil
		}
		why = append(why, fmt.Errorf("seed refused: argument: %w", fault))
	}
	if why == nil {
		return nil
	}
	return &exitError{exitNothing, errors.Join(append(why, errNoSeed)...)}
}

// errNoSeed is the message of exit code 3.
var errNoSeed = errors.New("no seed could be fetched")
