package crawl

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/fields"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/follow"
	"github.com/bloomfrontier/crawler/internal/robots"
	"github.com/bloomfrontier/crawler/internal/trap"
)

// plan is a valid Config with its parsed parts. Nothing is open yet.
type plan struct {
	Config
	stored frontier.Settings // nil means a new crawl
	rules  follow.Rules
	exact  *exact.Rules
	window exact.Windows
	canon  *canon.Canonicalizer
	fields *fields.Rules
	policy *policy.Policy // with which the run begins
	client *get.Client
	sizes  crash.Sizes // sizes that a test has set
	// overrides are the values that differ from the crawl's defaults of later runs.
	overrides []Override
}

// MemoryError reports a Config.Memory that cannot hold one answer and its
// document.
type MemoryError struct{ Memory, Least int64 } // bytes

// Error implements error.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("crawl: Memory is %d bytes, want at least %d for one answer and its document", e.Memory, e.Least)
}

// Validate returns every fault of c that can be found without opening anything.
func (c Config) Validate() error {
	_, err := c.prepare(nil)
	return err
}

// prepare completes c with the stored settings, and parses it. The error names every
// fault.
func (c Config) prepare(stored frontier.Settings) (*plan, error) {
	p := &plan{Config: c, stored: stored}
	errs := []error{p.Fixed.adopt(stored)}
	if text, found := stored[hostsSetting]; found && p.Hosts == nil {
		errs = append(errs, json.Unmarshal([]byte(text), &p.Hosts))
	}
	errs = append(errs, checkHosts(p.Hosts))
	p.Agent = cmp.Or(p.Agent, cmp.Or(stored[tokenSetting], "crawler")+"/"+Version())
	p.Memory = cmp.Or(p.Memory, defaultMemory)
	p.Records.Save = cmp.Or(p.Records.Save, "none")
	if save := (choice{&p.Records.Save, savedAnswers}); save.Set(p.Records.Save) != nil {
		errs = append(errs, fmt.Errorf("crawl: Records.Save is %q, want one of %q", p.Records.Save, save.values))
	}
	p.Grace = cmp.Or(p.Grace, defaultGrace)
	if p.Fixed.CDC == On && p.Fixed.Sink != sinkPostgres {
		errs = append(errs, errors.New("crawl: Fixed.CDC needs records in Postgres, but Fixed.Sink is jsonl"))
	}
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	errs = append(errs, p.prepareEvents(), p.parseRules(), p.parseExact(), p.parseCanon(), p.parseFields(), p.newClient())
	p.setPolicy()
	return p, errors.Join(errs...)
}

// prepareEvents completes the config of the relay.
func (p *plan) prepareEvents() error {
	if p.Events == nil {
		return nil
	}
	config := *p.Events
	config.Name = cmp.Or(config.Name, "default")
	if config.Logger == nil {
		config.Logger = p.Logger
	}
	p.Events = &config
	if config.Sink == nil {
		return errors.New("crawl: Events.Sink is nil, want a sink")
	}
	return events.CheckName(config.Name)
}

// savedAnswers are the values of Records.Save.
var savedAnswers = []string{"none", "html", "all"}

const (
	defaultMemory = 128 << 20
	defaultGrace  = 30 * time.Second

	defaultRetries     = 3
	defaultMaxExternal = 10_000
)

// limit converts a limit of Fixed for other packages, in which 0 means no limit.
func limit(n int) uint64 { return uint64(max(n, 0)) }

// parseRules makes the rules for links.
func (p *plan) parseRules() error {
	var errs [3]error
	p.rules.Scope, errs[0] = canon.ParseScopeMode(p.Fixed.Scope)
	p.rules.Include, errs[1] = compileAll("Include", p.Fixed.Include)
	p.rules.Exclude, errs[2] = compileAll("Exclude", p.Fixed.Exclude)
	p.rules.MaxDepth, p.rules.MaxHops = min(p.Fixed.MaxDepth, follow.NoLimit), follow.DefaultMaxHops
	switch p.Fixed.MaxDepth {
	case NoLimit:
		p.rules.MaxDepth = follow.NoLimit
	case SeedsOnly:
		p.rules.MaxDepth = 0
	}
	p.rules.MaxHosts = limit(p.Fixed.MaxHostsPerDomain)
	p.rules.Trap = trap.Limits{
		MaxURL: max(p.Fixed.MaxURLBytes, 0), MaxRepeats: max(p.Fixed.MaxPathRepeats, 0), MaxParams: max(p.Fixed.MaxParams, 0),
		LastYear: trap.ThisYear(time.Now()) + p.Fixed.MaxYearsAhead,
	}
	switch p.Fixed.MaxYearsAhead {
	case NoLimit:
		p.rules.Trap.LastYear = 0
	case ThisYear:
		p.rules.Trap.LastYear = trap.ThisYear(time.Now())
	}
	return errors.Join(errs[:]...)
}

func compileAll(field string, list []string) (all []*regexp.Regexp, err error) {
	var errs []error
	for _, text := range list {
		re, err := regexp.Compile(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("crawl: Fixed.%s: %w", field, err))
			continue
		}
		all = append(all, re)
	}
	return all, errors.Join(errs...)
}

func (p *plan) parseExact() (err error) {
	if p.exact, err = exact.ParseTexts(p.Fixed.Exact); err != nil {
		return fmt.Errorf("crawl: Fixed.Exact: %w", err)
	}
	if p.window, err = exact.ParseWindows(strings.Join(p.Fixed.Windows, ","), p.exact); err != nil {
		return fmt.Errorf("crawl: Fixed.Windows: %w", err)
	}
	return nil
}

// parseCanon makes the canonicalizer. It returns an error if the crawl was created
// with a canonical form that this program does not have.
func (p *plan) parseCanon() (err error) {
	strip := canon.DefaultStrip()
	if slices.Contains(p.Fixed.StripParams, "-") {
		strip = []string{}
	}
	for _, name := range p.Fixed.StripParams {
		if name != "-" {
			strip = append(strip, name)
		}
	}
	options := canon.Options{StripParams: strip, KeepParams: p.Fixed.KeepParams, SortQuery: p.Fixed.SortQuery == On}
	if p.Fixed.HostKey == "domain" {
		options.HostKey = canon.ByDomain
	}
	if form, found := p.stored[formSetting]; found {
		if err := canon.CheckForm(form); err != nil {
			return fmt.Errorf("%s: %w", p.Location(), err)
		}
	}
	p.canon, err = canon.New(options)
	return err
}

func (p *plan) parseFields() (err error) {
	if p.fields, err = fields.New(p.Fields...); err != nil {
		return fmt.Errorf("crawl: Fields: %w", err)
	}
	return nil
}

// setPolicy makes the policy of plain values. It must be called after parseRules.
func (p *plan) setPolicy() {
	f := p.Fixed
	polite := politeness.Default()
	polite.Delay, polite.MaxCrawlDelay, polite.LatencyFactor = max(f.Delay, 0), max(f.MaxCrawlDelay, 0), max(f.LatencyFactor, 0)
	polite.BackoffBase, polite.BackoffMax = cmp.Or(p.Backoff, polite.BackoffBase), cmp.Or(p.BackoffMax, polite.BackoffMax)
	polite.DeadAfter = max(cmp.Or(p.DeadAfter, polite.DeadAfter), 0)
	if f.Delay == NoDelay {
		polite.LatencyFactor = 0
	}
	p.policy = &policy.Policy{
		Rules: p.rules, Politeness: polite, HostConcurrency: f.HostConcurrency, IgnoreRobots: f.Robots == "ignore",
		Retries:  max(cmp.Or(p.Retries, defaultRetries), 0),
		MaxPages: p.MaxPages, MaxQueued: p.MaxQueued, MaxPerHost: p.maxPerHost(), SeedsUnlimited: f.MaxPerHost == LinkedHosts,
		Sitemaps: f.Sitemaps == On, Feeds: f.Feeds == On, Assets: f.Assets == On,
		CheckExternal: p.CheckExternal, MaxExternal: limit(cmp.Or(p.MaxExternal, defaultMaxExternal)),
		Hosts: hostTable(p.Hosts),
	}
}

// newClient makes the HTTP client. It opens no connection yet.
func (p *plan) newClient() (err error) {
	c := p.Requests
	c.UserAgent = p.Agent
	if p.Contact != "" {
		c.UserAgent += " (+" + p.Contact + ")"
	}
	if c.Headers == nil {
		c.Headers = make(http.Header)
	}
	if c.RootCAs == nil && p.CAFile != "" {
		if c.RootCAs, err = get.RootCAs(p.CAFile); err != nil {
			return fmt.Errorf("crawl: CAFile: %w", err)
		}
	}
	if p.Fixed.Assets == On && (c.Types == nil || slices.Equal(c.Types, get.HTMLTypes())) {
		c.Types = []string{get.AnyType}
	}
	if c.HeaderTimeout > 0 {
		c.HeaderTimeout = min(c.HeaderTimeout, cmp.Or(c.Timeout, get.DefaultTimeout))
	}
	c.MaxIdleConns, c.MaxIdleConnsPerHost = p.keptConnections(), max(p.Fixed.HostConcurrency, mostConcurrency(p.Hosts), 2)
	c.Capture = p.Records.Save != "none"
	if p.client, err = get.New(c); err != nil {
		return err
	}
	if least := fetcher.LeastMemory(p.client); p.Memory < least {
		return &MemoryError{p.Memory, least}
	}
	return nil
}

// settings returns the settings to store in a new crawl, or to compare with the stored
// ones.
func (p *plan) settings() frontier.Settings {
	common, redis, postgres := p.Fixed.settings()
	s := texts(common, p.stored)
	s[formSetting] = p.canon.Form()
	text, _ := json.Marshal(append([]Host{}, p.Hosts...))
	s[hostsSetting] = string(text)
	if _, found := p.stored[tokenSetting]; found || p.stored == nil {
		s[tokenSetting] = robots.ProductToken(p.client.UserAgent())
	}
	p.addDefaults(s)
	if p.Redis != nil {
		maps.Copy(s, texts(redis, p.stored))
		if p.Postgres != nil {
			maps.Copy(s, texts(postgres, p.stored))
			s[exactSetting] = sinkPostgres
		}
		return s
	}
	// A crawl that exists keeps the seeds that it was created with.
	if begun, found := p.stored[seedsSetting]; found {
		s[seedsSetting] = begun
	} else if p.stored == nil {
		s[seedsSetting] = cmp.Or(p.SeedsText, strings.Join(p.Seeds, " "))
	}
	return s
}

// leaseTTL returns the duration of a lease. It is longer than two requests that time
// out.
func (p *plan) leaseTTL() time.Duration {
	return cmp.Or(p.sizes.LeaseTTL, max(time.Minute, 2*cmp.Or(p.Requests.Timeout, get.DefaultTimeout)+10*time.Second))
}

// maxPerHost returns the most URLs of a host; 0 means no limit. If only hosts of seeds are crawled,
// LinkedHosts is no limit, and the store need not count the URLs of hosts.
func (p *plan) maxPerHost() uint64 {
	if p.Fixed.MaxPerHost == LinkedHosts && p.rules.Scope != canon.ScopeHost {
		return MaxPerLinkedHost
	}
	return limit(p.Fixed.MaxPerHost)
}

// engineConfig returns the configuration of the frontier and its outputs.
func (p *plan) engineConfig() *engine.Config {
	f, growth := &p.Fixed, bloomstore.GrowthOff
	if f.Growth == On {
		growth = bloomstore.GrowthOn
	}
	return &engine.Config{
		Settings: p.settings(), Stored: p.stored,
		Canon: p.canon, Scope: p.rules.Scope, MaxHosts: p.rules.MaxHosts, Exact: p.exact, Windows: p.window,
		FilterCapacity: f.FilterCapacity, FPR: f.FPR, Growth: growth,
		Delay: max(f.Delay, 0), LeaseTTL: p.leaseTTL(), MaxPerHost: p.maxPerHost(), SeedsUnlimited: f.MaxPerHost == LinkedHosts, Hosts: p.hostLimits,
		MaxQueued: p.MaxQueued, Partitions: f.Partitions, Wait: p.Wait, Worker: p.Worker,
		Rows:    f.Sink == sinkPostgres,
		CDC:     f.CDC == On,
		Records: record.Config{RotateBytes: p.Records.RotateBytes, Compress: p.Records.Compress},
		Stream:  p.Records.Stream, Save: p.Records.Save != "none",
		Archive: warc.Config{
			RotateBytes: p.sizes.SaveRotateBytes,
			Info:        warc.Info{Software: "crawler/" + Version(), UserAgent: p.client.UserAgent(), Robots: f.Robots, Operator: p.Contact},
		},
		Edges:          p.Records.Links,
		WorkerEnd:      workerEnd,
		CheckpointAdds: p.sizes.CheckpointAdds, Cache: p.Cache, Logger: p.Logger,
	}
}
