package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/botauth"
	"github.com/bloomfrontier/crawler/fetcher/cookies"
	"github.com/bloomfrontier/crawler/fetcher/fields"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/frontier/revisit"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/follow"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/robots"
	"github.com/bloomfrontier/crawler/internal/trap"
)

// Plan is what a run of a crawl would do: its settings, combined with the stored ones, and what is parsed
// from them. Prepare makes it. A Plan is not safe for concurrent use.
type Plan struct {
	// Config is the Config of the run. Its Settings are the combined ones. What is called in the
	// run (OnPage, Events, Logger and so on) can be set until Open; all else must not be changed.
	Config

	place     engine.Place
	stored    frontier.Settings        // those with which the crawl was created; nil means a new crawl
	version   *engine.Version          // the newest version of the policy; nil if it was never changed
	sources   map[string]settings.Kept // where values that the run does not set are from
	overrides []Override
	missing   error      // a *MissingError, or nil
	differs   *LiveError // nil if no setting of the policy differs
	sizes     crash.Sizes

	// identity: what is fixed when the crawl is created
	canon  *canon.Canonicalizer
	exact  *exact.Rules
	window exact.Windows
	// policy: what could change while the crawl runs
	policy *policy.Live
	// run: what concerns this process
	fields *fields.Rules
	client *get.Client  // nil if no request is made
	jar    *cookies.Jar // nil means no cookies and no logins
	opened bool         // the session closes the client
}

// ConfigError reports faults of a Config. One that concerns a setting is a *settings.Error.
type ConfigError struct{ Faults []error }

// Error implements error. It has one line for each fault.
func (e *ConfigError) Error() string { return errors.Join(e.Faults...).Error() }

// Unwrap returns the faults.
func (e *ConfigError) Unwrap() []error { return e.Faults }

// MemoryError reports a Config.Memory that cannot hold one answer and its
// document.
type MemoryError struct{ Memory, Least int64 } // bytes

// Error implements error.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("crawl: Memory is %d bytes, want at least %d for one answer and its document", e.Memory, e.Least)
}

const defaultMemory = 128 << 20

// Prepare reads the stored settings of the crawl that config names, combines them with those of config, and
// checks and parses the result. It creates nothing.
//
// If the error is a *ConfigError, it names every fault, and the Plan can show the settings that have none, but cannot be
// opened. Close ends the Plan, unless Open has opened it.
func Prepare(ctx context.Context, config Config) (*Plan, error) {
	place := engine.PlaceOf(ctx)
	if place == nil {
		var err error
		if place, err = config.Location().place(); err != nil {
			return nil, err
		}
	}
	stored, err := place.Stored(ctx)
	if err != nil {
		return nil, err
	}
	p := newPlan(config, nil)
	p.place, p.sizes = place, crash.SizesOf(ctx)
	var own frontier.Settings
	if stored != nil {
		p.stored, p.version = stored.Settings, stored.Version
		if own, err = ownSettings(stored.Own); err != nil {
			return nil, err
		}
	}
	return p, p.complete(own)
}

// complete combines the settings with the stored ones, parses them and makes the client. The error is a
// *ConfigError. Then the settings are still combined, except those with faults.
func (p *Plan) complete(own frontier.Settings) error {
	errs := append(p.merge(own), p.parse()...)
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 { // a client that cannot be made would name faults again
		if err := p.newClient(); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return &ConfigError{errs}
	}
	return nil
}

// newPlan returns a Plan with the settings of this run.
func newPlan(config Config, stored frontier.Settings) *Plan {
	if reflect.ValueOf(config.Settings).IsZero() {
		config.Settings = DefaultSettings()
	}
	return &Plan{Config: config, stored: stored, sources: make(map[string]settings.Kept)}
}

// prepareNew returns the Plan of a new crawl. It does not look whether there is one.
func (c Config) prepareNew() (*Plan, error) {
	p := newPlan(c, nil)
	if err := p.complete(nil); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Validate returns every fault of c that can be found without opening anything.
func (c Config) Validate() error {
	p, err := c.prepareNew()
	if err == nil {
		p.Close()
	}
	return err
}

// Close releases what Prepare has made. It does nothing after Open.
func (p *Plan) Close() {
	if p != nil && p.client != nil && !p.opened {
		p.client.Close()
	}
}

// New reports whether the crawl does not exist yet.
func (p *Plan) New() bool { return p.stored == nil }

// StoredSeeds returns the description of the seeds with which the crawl was created, if it has one.
func (p *Plan) StoredSeeds() (text string, found bool) {
	text, found = p.stored[seedsSetting]
	return text, found
}

// Form returns the canonical form of the crawl's URLs.
func (p *Plan) Form() string { return p.canon.Form() }

// Source returns where the value of a setting is from, if the run does not set it: settings.Fixed or Later for
// the crawl, settings.Here for this process's own directory. The result is false if it is the default or
// set by the run.
func (p *Plan) Source(name string) (kept settings.Kept, found bool) {
	kept, found = p.sources[name]
	return kept, found
}

// parse checks the settings, and parses those that have a form of their own. Settings.Check names the
// faults of texts, so that parsing them must not name these again.
func (p *Plan) parse() []error {
	s := &p.Settings
	errs := s.Check()
	p.Memory = cmp.Or(p.Memory, defaultMemory)
	if s.CDC && s.Sink != sinkPostgres {
		errs = append(errs, errors.New("crawl: Settings.CDC needs records in Postgres, but Settings.Sink is jsonl"))
	}
	errs = append(errs, checkHosts(s.Hosts, s.Recrawl), p.checkRecrawl(s), p.parseExact(), p.parseCanon())
	p.policy = policy.NewLive(policyOf(s, p.version))
	var err error
	if p.fields, err = fields.New(s.Fields...); err != nil {
		errs = append(errs, &settings.Error{Name: "field", Err: err})
	}
	return errs
}

// policyOf returns the policy of settings. Their version is nil if the policy was never changed.
func policyOf(s *Settings, version *engine.Version) *policy.Policy {
	polite := politeness.Default()
	polite.Delay, polite.MaxCrawlDelay, polite.LatencyFactor = s.Delay, s.MaxCrawlDelay, s.LatencyFactor
	polite.BackoffBase, polite.BackoffMax, polite.DeadAfter = s.Backoff, s.BackoffMax, s.DeadAfter
	if s.Delay == 0 {
		polite.LatencyFactor = 0
	}
	p := &policy.Policy{
		Rules: rulesOf(s), AllowSeries: compileAll(s.AllowSeries), Politeness: polite, DomainRate: s.DomainRate, HostConcurrency: s.HostConcurrency, IgnoreRobots: s.Robots == "ignore", Retries: s.Retries,
		MaxPages: s.MaxPages, MaxQueued: s.MaxQueued, MaxPerHost: maxPerHost(s), SeedsUnlimited: s.MaxPerHost == settings.Auto,
		Sitemaps: s.Sitemaps, Feeds: s.Feeds, Assets: s.Assets, SkipDuplicates: s.SkipDuplicates, AnyType: s.Assets && slices.Equal(s.Types, get.HTMLTypes()),
		Preferences: preferencesOf(s.Preferences), ContentUse: s.ContentUse,
		CheckExternal: s.CheckExternal, MaxExternal: uint64(s.MaxExternal),
		Hosts: hostTable(s.Hosts), Drop: targetsOf(s.Drop), Block: engine.BlocksOf(s.Block), Pause: targetsOf(s.Pause),
	}
	p.Recrawl, _ = revisit.ParseAim(s.Recrawl) // see Settings.Check
	p.RecrawlLimits, _ = revisit.ParseLimits(s.RecrawlEvery)
	p.PurgeGone, _ = human.ParsePeriod(s.PurgeGone)
	if version != nil {
		p.Version = version.Number
	}
	return p
}

// preferencesOf returns the policy of a setting.
func preferencesOf(where string) policy.Preferences {
	switch where {
	case "full":
		return policy.FullPreferences
	case "none":
		return policy.NoPreferences
	}
	return policy.PagePreferences
}

// targetsOf parses targets. It leaves out what Settings.Check refuses.
func targetsOf(texts []string) (all []policy.Target) {
	for _, text := range texts {
		if t, err := policy.ParseTarget(text); err == nil {
			all = append(all, t)
		}
	}
	return all
}

// textsOf returns the texts of targets.
func textsOf(targets []policy.Target) (texts []string) {
	for i := range targets {
		texts = append(texts, targets[i].String())
	}
	return texts
}

// prepareEvents completes the config of the relay.
func (p *Plan) prepareEvents() error {
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

// rulesOf returns the rules for links. It leaves out what Settings.Check refuses.
func rulesOf(s *Settings) follow.Rules {
	scope, _ := canon.ParseScopeMode(s.Scope)
	rules := follow.Rules{
		Scope: scope, Include: compileAll(s.Include), Exclude: compileAll(s.Exclude),
		MaxDepth: min(s.MaxDepth, follow.NoLimit), MaxHops: follow.DefaultMaxHops, MaxHosts: uint64(s.MaxHostsPerDomain),
		Trap: trap.Limits{
			MaxURL: s.MaxURLBytes, MaxRepeats: s.MaxPathRepeats, MaxParams: s.MaxParams, LastYear: trap.ThisYear(time.Now()) + s.MaxYearsAhead,
		},
	}
	if s.MaxDepth == settings.NoLimit {
		rules.MaxDepth = follow.NoLimit
	}
	if s.MaxYearsAhead == settings.NoLimit {
		rules.Trap.LastYear = 0
	}
	return rules
}

func compileAll(texts []string) (all []*regexp.Regexp) {
	for _, text := range texts {
		if re, err := regexp.Compile(text); err == nil {
			all = append(all, re)
		}
	}
	return all
}

func (p *Plan) parseExact() (err error) {
	if p.exact, err = exact.ParseTexts(p.Settings.Exact); err != nil {
		return nil // see Settings.Check
	}
	if p.window, err = exact.ParseWindows(strings.Join(p.Settings.Windows, ","), p.exact); err != nil {
		return &settings.Error{Name: "window", Err: err}
	}
	if err := p.checkBulkWindow(p.window[frontier.Bulk]); err != nil {
		return &settings.Error{Name: "window", Err: fmt.Errorf("bulk=%v: %w", p.window[frontier.Bulk], err)}
	}
	return nil
}

// checkBulkWindow returns an error if the filter cannot be a window of this length.
func (p *Plan) checkBulkWindow(window time.Duration) error {
	if window == 0 {
		return nil
	}
	if !p.Settings.Growth {
		return errors.New("a filter that forgets grows: want --growth on")
	}
	_, err := membits.WindowConfig{Span: window, Capacity: p.Settings.Capacity, FPR: p.Settings.FPR}.Complete()
	return err
}

// parseCanon makes the canonicalizer. It returns an error if the crawl was created
// with a canonical form that this program does not have.
func (p *Plan) parseCanon() (err error) {
	s := &p.Settings
	options := canon.Options{StripParams: canon.StripList(s.StripParams), KeepParams: s.KeepParams, SortQuery: s.SortQuery}
	if s.HostKey == "domain" {
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

// Agent returns the User-Agent header of requests, and the name in it that robots.txt uses.
func (p *Plan) Agent() (header, token string) {
	return p.userAgent(), robots.ProductToken(p.userAgent())
}

// userAgent returns the User-Agent header of the client.
func (p *Plan) userAgent() string { return agentOf(&p.Settings) }

// agentOf returns the User-Agent header.
func agentOf(s *Settings) string {
	if agent := s.Headers.Get("User-Agent"); agent != "" {
		return agent
	}
	if s.Contact == "" {
		return s.Agent
	}
	return s.Agent + " (+" + s.Contact + ")"
}

// newClient makes the HTTP client. It opens no connection yet.
func (p *Plan) newClient() (err error) {
	s := &p.Settings
	c := get.Config{
		UserAgent: p.userAgent(), Headers: s.Headers, Types: s.Types, RootCAs: p.RootCAs, InsecureHosts: hostForms(s.InsecureHosts),
		Timeout: s.Timeout, HeaderTimeout: min(s.HeaderTimeout, s.Timeout), MinRate: s.MinRate, MaxBodyBytes: s.MaxBody,
		AllowPrivate: s.AllowPrivate, AllowNet: s.AllowNet, AllowPorts: s.AllowPorts, ConnectTo: connectTo(s.ConnectTo), DNS: s.DNS,
		Proxy: s.Proxy, ProxyAbsolute: s.ProxyHTTP == "absolute" && s.Proxy != "",
		MaxIdleConns: p.keptConnections(), MaxIdleConnsPerHost: max(s.HostConcurrency, mostConcurrency(s.Hosts), 2),
		Bind: s.Bind, Capture: s.Save != "none", Wrap: p.WrapTransport,
	}
	if c.Headers == nil {
		c.Headers = make(http.Header)
	}
	if c.RootCAs == nil && s.CAFile != "" {
		if c.RootCAs, err = get.RootCAs(s.CAFile); err != nil {
			return &settings.Error{Name: rootsSetting, Err: err}
		}
	}
	if c.ProxyAbsolute && !strings.HasPrefix(strings.ToLower(s.Proxy), "http") {
		return &settings.Error{Name: "proxy-http", Err: errors.New("it is absolute, which is for an http or https proxy, not for socks5")}
	}
	if (s.Sign == "") != (s.SignatureAgent == "") && p.New() && !p.Anyway {
		return &settings.Error{Name: "sign", Err: errors.New("--sign and --signature-agent need each other")}
	}
	if s.Sign != "" && s.SignatureAgent != "" {
		if c.Signer, err = botauth.NewSigner(s.Sign, s.SignatureAgent, s.SignReuse); err != nil {
			return &settings.Error{Name: "sign", Err: err}
		}
	}
	c.SaveCookies = s.SaveCookies
	if s.LoggedOut != "" {
		if c.LoggedOut, err = regexp.Compile(s.LoggedOut); err != nil {
			return &settings.Error{Name: "logged-out", Err: err}
		}
	}
	if s.Cookies != "" || s.CookieJar || s.Logins != "" {
		p.jar, err = cookies.Open(cookies.Config{File: s.Cookies, Keep: s.CookieJar, KeepFile: s.CookieJarFile, Domains: s.CookieDomains, Logins: s.Logins})
		if err != nil {
			return &settings.Error{Name: p.cookieSetting(err), Err: err}
		}
		c.Jar = p.jar
	}
	if p.client, err = get.New(c); err != nil {
		return err
	}
	if least := fetcher.LeastMemory(p.client); p.Memory < least {
		return &MemoryError{p.Memory, least}
	}
	return nil
}

// cookieSetting returns the name of the setting whose file an error of package cookies names.
func (p *Plan) cookieSetting(err error) string {
	file, _ := errors.AsType[*cookies.FileError](err)
	switch {
	case file != nil && file.File == p.Settings.Logins:
		return "logins"
	case file != nil && file.File == p.Settings.CookieJarFile:
		return "cookie-jar-file"
	}
	return "cookies"
}

// connectTo parses rules. It leaves out what Settings.Check refuses.
func connectTo(texts []string) (rules []get.Rule) {
	for _, text := range texts {
		if rule, err := get.ParseConnectTo(text); err == nil {
			rules = append(rules, rule)
		}
	}
	return rules
}

// hostForms returns patterns of hosts in the form in which hosts are compared.
func hostForms(patterns []string) (forms []string) {
	for _, pattern := range patterns {
		forms = append(forms, strings.ToLower(strings.Trim(pattern, "[]")))
	}
	return forms
}

// checkPort returns a *get.PortError for a port that is not requested.
func (p *Plan) checkPort(port string) error { return get.CheckPort(port, p.Settings.AllowPorts) }

// leaseTTL returns the duration of a lease. It is longer than two requests that time
// out.
func (p *Plan) leaseTTL() time.Duration {
	return cmp.Or(p.sizes.LeaseTTL, max(time.Minute, 2*p.Settings.Timeout+10*time.Second))
}

// maxPerHost returns the most URLs of a host; 0 means no limit. If only hosts of seeds are crawled,
// Auto is no limit, and the store need not count the URLs of hosts.
func maxPerHost(s *Settings) uint64 {
	switch {
	case s.MaxPerHost != settings.Auto:
		return uint64(s.MaxPerHost)
	case s.Scope == canon.ScopeHost.String():
		return 0
	}
	return settings.MaxPerLinkedHost
}

// engineConfig returns the configuration of the frontier and its outputs.
func (p *Plan) engineConfig() *engine.Config {
	s, growth, rules := &p.Settings, bloomstore.GrowthOff, p.policy.Load().Rules
	if s.Growth {
		growth = bloomstore.GrowthOn
	}
	return &engine.Config{
		Settings: p.identity(), Stored: p.stored,
		Canon: p.canon, Scope: rules.Scope, MaxHosts: rules.MaxHosts, Exact: p.exact, Windows: p.window,
		Capacity: s.Capacity, FPR: s.FPR, Growth: growth,
		Policy: p.policy.Load, LeaseTTL: p.leaseTTL(), Partitions: s.Partitions, Wait: s.RedisWait, Worker: s.Worker,
		Rows:    s.Sink == sinkPostgres,
		CDC:     s.CDC,
		Records: record.Config{RotateBytes: s.RotateBytes, Compress: s.Compress},
		Stream:  p.Stream, Save: s.Save != "none",
		Archive: warc.Config{
			RotateBytes: p.sizes.SaveRotateBytes,
			Info:        warc.Info{Software: "crawler/" + Version(), UserAgent: p.userAgent(), Robots: s.Robots, Operator: s.Contact},
		},
		Edges:          s.Links,
		WorkerEnd:      workerEnd,
		CheckpointAdds: p.sizes.CheckpointAdds, Cache: p.Cache, Logger: p.Logger,
	}
}
