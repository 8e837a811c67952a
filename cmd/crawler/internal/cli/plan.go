package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/memlimit"
	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/human"
)

// plan is the crawl that a valid command line describes. Nothing is created yet.
type plan struct {
	*options
	*layers
	location
	canon  *canon.Canonicalizer
	stored frontier.Settings // nil means that the crawl does not exist yet
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
		p.location, err = o.where(args)
	}
	errs = append(errs, err)
	if p.Postgres != nil {
		p.Postgres.NoMigrate = o.noMigrate
	}
	p.seedsGiven = seedsText(args, o.seeds)
	if p.Dir != "" || p.Redis != nil {
		if p.stored, err = crawl.Stored(ctx, p.location.Location); err != nil {
			return nil, p.explain(err)
		}
		errs = append(errs, l.adopt(p.stored, p.keeper()), l.adoptOwn(ctx, p), p.checkForm(), p.checkDefaultDir())
	}
	errs = slices.Concat(errs, []error{p.check()}, p.checkNeeds(), o.checkExact())
	if err := errors.Join(errs...); err != nil {
		return nil, usage(err)
	}
	return p, nil
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

// check returns the faults that concern several options. Package restrict has already
// checked each option alone.
func (p *plan) check() error {
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	if p.options.crawl.BackoffMax < p.options.crawl.Backoff {
		keep(fmt.Errorf("%s is %v, want at least the %v of --backoff", p.layers.where("backoff-max"), p.options.crawl.BackoffMax, p.options.crawl.Backoff))
	}
	var err error
	p.canon, err = canon.New(p.canonOptions())
	keep(err)
	if _, err := p.parseWindows(); err != nil {
		keep(fmt.Errorf("%s: %w", p.layers.where("window"), err))
	}
	config, err := p.config()
	keep(err)
	if err == nil {
		err = config.Validate()
	}
	if memory, is := errors.AsType[*crawl.MemoryError](err); is || p.memory < memlimit.Least {
		least := human.Bytes(memlimit.Least)
		if is {
			least = max(least, human.Bytes((2*memory.Least+1<<20-1)>>20<<20))
		}
		keep(fmt.Errorf("%s is %s, want at least %s for one answer of --max-body, its document and all else", p.layers.where("memory"), &p.memory, &least))
	} else if p.canon != nil {
		keep(err)
	}
	if most := crawl.MaxConcurrency(); p.options.crawl.Concurrency > most {
		keep(fmt.Errorf("%s is %d, want up to %d: this process may open no more connections (ulimit -n)", p.layers.where("concurrency"), p.options.crawl.Concurrency, most))
	}
	if p.events.to == "-" && p.out == "-" {
		keep(errors.New("--out - and --events - both write to stdout: want one of them"))
	}
	return errors.Join(errs...)
}

// config returns the config of the crawl. It contains the values that flags set directly,
// the location, and the values that are parsed from texts of flags.
func (p *plan) config() (crawl.Config, error) {
	c := p.options.crawl
	c.Dir, c.Redis, c.Postgres = p.Dir, p.Redis, p.Postgres
	c.SeedsText, c.Hosts = p.seedsGiven, append([]crawl.Host{}, p.hosts...)
	c.Fixed.Exact = p.options.exact.GetSlice()
	c.Fixed.StripParams, c.Fixed.KeepParams, c.Fixed.SortQuery = slices.Clone(p.form.Strip), slices.Clone(p.form.Keep), crawl.Off
	if p.form.Sort {
		c.Fixed.SortQuery = crawl.On
	}
	c.Memory = int64(p.memory) / 2
	// The value 0 of these flags means none. The value 0 of their fields means the default.
	c.MaxExternal = cmp.Or(c.MaxExternal, crawl.NoLimit)
	c.Retries, c.DeadAfter = cmp.Or(c.Retries, crawl.NoLimit), cmp.Or(c.DeadAfter, crawl.NoLimit)
	c.Grace, c.Requests.MinRate = cmp.Or(c.Grace, crawl.NoDelay), cmp.Or(c.Requests.MinRate, get.NoMinRate)
	c.Fields = append([]crawl.FieldGroup{{Fields: p.fields}}, p.groups...)
	c.Requests.Headers = make(http.Header)
	for _, text := range p.headers {
		name, content, _ := strings.Cut(text, ":")
		c.Requests.Headers.Add(strings.TrimSpace(name), strings.TrimSpace(content))
	}
	var errs []error
	for _, text := range p.connectTo {
		rule, err := get.ParseConnectTo(text)
		errs = append(errs, err)
		c.Requests.ConnectTo = append(c.Requests.ConnectTo, rule)
	}
	for _, text := range p.allowNet {
		prefix, err := netip.ParsePrefix(text)
		errs = append(errs, err)
		c.Requests.AllowNet = append(c.Requests.AllowNet, prefix)
	}
	c.Requests.InsecureHosts = nil
	for _, pattern := range p.options.crawl.Requests.InsecureHosts {
		c.Requests.InsecureHosts = append(c.Requests.InsecureHosts, strings.ToLower(strings.Trim(pattern, "[]")))
	}
	for _, text := range p.allowPort {
		port, err := strconv.ParseUint(text, 10, 16)
		errs = append(errs, err)
		c.Requests.AllowPorts = append(c.Requests.AllowPorts, uint16(port))
	}
	c.Given = slices.Collect(maps.Keys(p.from))
	return c, errors.Join(errs...)
}
