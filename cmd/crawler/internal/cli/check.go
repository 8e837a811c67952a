package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

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
	p.checked, err = o.check()
	errs = slices.Concat(errs, []error{err}, o.checkShared(l.from), o.checkTier())
	if o.seeds != "" && o.seeds != "-" {
		if _, err := os.Stat(o.seeds); err != nil {
			errs = append(errs, fmt.Errorf("seeds: %w", err))
		}
	}
	if o.known != "" {
		if _, err := os.Stat(o.known); err != nil {
			errs = append(errs, fmt.Errorf("--known: %w", err))
		}
	}
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

// Bounds of flags that no package below has.
const (
	maxHostConcurrency = 1024
	maxURLs            = 1e12
	leastRate          = 1e-12
	maxSize            = 1 << 50
)

// check returns every fault of the options at once.
func (o *options) check() (c checked, err error) {
	errs := o.checkRanges()
	keep := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	c.scopeMode, err = canon.ParseScopeMode(o.scope)
	keep(err)
	c.includeRE, err = compileAll("include", o.include)
	keep(err)
	c.excludeRE, err = compileAll("exclude", o.exclude)
	keep(err)
	c.canon, err = canon.New(o.canonOptions())
	keep(err)
	c.windows, err = o.parseWindows()
	keep(err)
	c.client, err = o.newClient()
	keep(err)
	if c.client != nil {
		c.bodies, err = o.budget(c.client)
		keep(err)
	}
	_, err = crashHook(o.crashAt)
	keep(err)
	keep(errors.Join(o.checkAdmin()...))
	return c, errors.Join(errs...)
}

// checkRanges returns the faults of numbers and durations.
func (o *options) checkRanges() (errs []error) {
	fault := func(bad bool, flag string, got any, want string) {
		if bad {
			errs = append(errs, fmt.Errorf("--%s is %v, want %s", flag, got, want))
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"delay", o.delay}, {"max-crawl-delay", o.maxCrawlDelay}, {"max-time", o.maxTime}, {"grace", o.grace}} {
		fault(d.value < 0, d.flag, d.value, "0 or more")
	}
	fault(o.urls > maxURLs, "urls", &o.urls, "at most 1e12")
	fault(o.fpr < leastRate, "fpr", &o.fpr, "1e-12 or more")
	fault(o.maxBody > maxSize, "max-body", &o.maxBody, "at most 1PiB")
	fault(o.rotate > maxSize, "rotate", &o.rotate, "at most 1PiB")
	finite := func(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }
	fault(o.maxDepth < unlimited || o.maxDepth > math.MaxUint16, "max-depth", o.maxDepth, "-1 to 65535")
	fault(o.timeout < time.Millisecond, "timeout", o.timeout, "1ms or more")
	fault(o.backoff <= 0, "backoff", o.backoff, "more than 0")
	fault(o.backoffMax < o.backoff, "backoff-max", o.backoffMax, "at least --backoff")
	fault(!finite(o.latencyFactor), "latency-factor", o.latencyFactor, "0 or more")
	fault(!finite(o.rate), "rate", o.rate, "0 or more")
	fault(o.hostConcurrent < 1 || o.hostConcurrent > maxHostConcurrency, "host-concurrency", o.hostConcurrent, "1 to 1024")
	fault(int(o.concurrency) > openable(), "concurrency", int(o.concurrency), fmt.Sprintf("up to %d: this process may open no more connections (ulimit -n)", openable()))
	fault(o.retries < 0 || o.retries > 100, "retries", o.retries, "0 to 100")
	fault(o.deadAfter < 0, "dead-after", o.deadAfter, "0 or more")
	fault(o.checkpoint < 0, "checkpoint-adds", o.checkpoint, "0 or more")
	fault(o.leaseTime != 0 && o.leaseTime < 2*time.Second, "lease-time", o.leaseTime, "2s or more")
	errs = append(errs, o.webOptions.checkRanges()...)
	fault(o.userAgent == "", "user-agent", `""`, "a name that site owners can look up")
	return errs
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
		if err != nil {
			errs = append(errs, fmt.Errorf("--%w", err))
		}
		config.ConnectTo = append(config.ConnectTo, rule)
	}
	for _, text := range o.headers {
		name, content, ok := strings.Cut(text, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			errs = append(errs, errors.New("--header has no NAME: VALUE"))
			continue
		}
		content = strings.TrimSpace(content)
		if err := checkHeaders(map[string]string{name: content}); err != nil {
			errs = append(errs, fmt.Errorf("--header: %w", err))
			continue
		}
		config.Headers.Add(name, content)
	}
	config.Timeout = max(config.Timeout, 0) // checkRanges says what is wrong with it
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
