package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"

	"github.com/bloomfrontier/crawler/fetcher/budget"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/exact"
)

// plan is a crawl as the command line asks for it, found good. Nothing is
// created yet.
type plan struct {
	*options
	*layers
	checked
	place
	stored frontier.Settings // nil: there is no crawl there yet
	// seedsGiven describes the seeds of the command line; empty: it has none.
	seedsGiven string
	ending     ending // of its run
}

// resolve brings flags, environment, config file and the crawl in the directory
// together. Its error lists every fault.
func (o *options) resolve(ctx context.Context, flags *pflag.FlagSet, args []string) (*plan, error) {
	p := &plan{options: o}
	l, err := readLayers(flags, os.Environ())
	errs := []error{err}
	p.layers = l
	o.from, o.hostsOverlap = l.from, l.overlap()
	if err = checkArguments(args); err == nil {
		p.place, err = o.place(args)
	}
	errs = append(errs, err)
	p.seedsGiven = seedsText(args, o.seeds)
	if p.home != nil {
		if p.stored, err = p.fixed(ctx); err != nil {
			return nil, &exitError{exitFailed, err}
		}
		errs = append(errs, l.adopt(p.stored, p.keeper()), o.adoptForm(p.stored, p.title()), p.checkDefaultDir(ctx, args))
	}
	p.checked, err = p.check()
	errs = slices.Concat(errs, []error{err}, l.checkShared(o), o.checkTier())
	if err := errors.Join(errs...); err != nil {
		return nil, usage(err)
	}
	return p, nil
}

// settings returns what is fixed when the crawl is created. A crawl that was
// created before there was some flag has what is its default.
func (p *plan) settings(form string, more ...string) frontier.Settings {
	s := p.layers.settings(form, more...)
	for name := range s {
		if _, stored := p.stored[name]; p.stored != nil && !stored && p.from[name] == "" {
			delete(s, name)
		}
	}
	return s
}

// place returns where the crawl is to be.
func (o *options) place(args []string) (place, error) {
	if shared, err := o.home(); err != nil {
		return place{}, err
	} else if shared != nil {
		return place{shared, o.dirFlag}, nil
	}
	dir := o.dirFlag
	if dir == "" {
		var err error
		if dir, err = defaultDir(args, o.seeds); err != nil {
			return place{}, err
		}
	}
	db, err := o.database()
	return place{directory{dir, db}, dir}, err
}

// checked is what options that were found good are parsed into.
type checked struct {
	includeRE, excludeRE []*regexp.Regexp
	scopeMode            canon.ScopeMode
	windows              exact.Windows
	canon                *canon.Canonicalizer
	client               *get.Client
	bodies               *budget.Budget // memory for those of all requests
}

// check returns what the options are parsed into, or every fault of what
// several of them say together. What is wrong with one alone restrict has found.
func (p *plan) check() (c checked, err error) {
	var errs []error
	keep := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if p.backoffMax < p.backoff {
		keep(fmt.Errorf("%s is %v, want at least the %v of --backoff", p.where("backoff-max"), p.backoffMax, p.backoff))
	}
	c.scopeMode, err = canon.ParseScopeMode(p.scope)
	keep(err)
	c.includeRE, err = compileAll("include", p.include)
	keep(err)
	c.excludeRE, err = compileAll("exclude", p.exclude)
	keep(err)
	c.canon, err = canon.New(p.canonOptions())
	keep(err)
	if c.windows, err = p.parseWindows(); err != nil {
		keep(fmt.Errorf("%s: %w", p.where("window"), err))
	}
	c.client, err = p.newClient()
	keep(err)
	if c.client != nil {
		if c.bodies, err = p.budget(c.client); err != nil {
			keep(fmt.Errorf("%s %w", p.where("memory"), err))
		}
	}
	if most := openable(); int(p.concurrency) > most {
		keep(fmt.Errorf("%s is %d, want up to %d: this process may open no more connections (ulimit -n)", p.where("concurrency"), p.concurrency, most))
	}
	keep(p.checkAdmin())
	return c, errors.Join(errs...)
}

func compileAll(flag string, list []string) (all []*regexp.Regexp, err error) {
	var errs []error
	for _, text := range list {
		re, err := regexp.Compile(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
			continue
		}
		all = append(all, re)
	}
	return all, errors.Join(errs...)
}

// newClient returns what makes the requests. It opens nothing yet.
func (o *options) newClient() (*get.Client, error) {
	var errs []error
	config := get.Config{
		UserAgent: o.agent(), Headers: make(http.Header), Timeout: o.timeout, MaxBodyBytes: int64(o.maxBody), Types: o.types,
		AllowPrivate: o.private, MaxIdleConns: o.keptConnections(), MaxIdleConnsPerHost: max(o.hostConcurrent, 2),
		HTTP1: !o.overlaps(),
	}
	if err := o.configure(&config); err != nil {
		errs = append(errs, err)
	}
	for _, text := range o.connectTo {
		rule, err := get.ParseConnectTo(text)
		errs = append(errs, err)
		config.ConnectTo = append(config.ConnectTo, rule)
	}
	for _, text := range o.headers {
		name, content, _ := strings.Cut(text, ":")
		config.Headers.Add(strings.TrimSpace(name), strings.TrimSpace(content))
	}
	client, err := get.New(config)
	return client, errors.Join(append(errs, err)...)
}

// checkHeaders names each header that cannot be sent. Values stay out of the
// message: they may be secret.
func checkHeaders(headers map[string]string) error {
	var errs []error
	for name, text := range headers {
		if !httpguts.ValidHeaderFieldName(name) {
			errs = append(errs, fmt.Errorf("header name %q is not a token", name))
		} else if !httpguts.ValidHeaderFieldValue(text) {
			errs = append(errs, fmt.Errorf("the value of header %s has control characters", name))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
