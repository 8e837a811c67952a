package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// options are the flags of a crawl.
type options struct {
	// fixed when the crawl is created
	scope          string
	include        []string
	exclude        []string
	maxDepth       int
	maxPerHost     uint64
	hostKey        string
	delay          time.Duration
	maxCrawlDelay  time.Duration
	latencyFactor  float64
	hostConcurrent int
	robots         string
	urls           count
	fpr            probability
	growth         onOff
	stripParam     []string
	keepParam      []string
	sortQuery      bool

	// free to change
	seeds       string
	dir         string
	out         string
	maxPages    uint64
	maxTime     time.Duration
	concurrency int
	rate        float64
	timeout     time.Duration
	retries     int
	maxBody     byteSize
	types       []string
	headers     []string
	userAgent   string
	contact     string
	connectTo   []string
	private     bool
	fastLinks   bool
	backoff     time.Duration
	backoffMax  time.Duration
	deadAfter   int
	grace       time.Duration
	rotate      byteSize
	compress    bool
	config      string
	logLevel    string
	checkpoint  int
	crashAt     string
	cpuProfile  string
}

// fixedFlags change identity, scope, politeness or sizes: they are stored when
// a crawl is created, and a later run with another value is refused.
var fixedFlags = []string{
	"scope", "include", "exclude", "max-depth", "max-per-host", "host-key", "delay", "max-crawl-delay",
	"latency-factor", "host-concurrency", "robots", "urls", "fpr", "growth",
	"strip-param", "keep-param", "sort-query",
}

// unlimited is --max-depth without a limit.
const unlimited = -1

// flagSets returns the flags of a crawl by the heading that help has them under.
func (o *options) flagSets() []section {
	what := pflag.NewFlagSet("Seeds and output", pflag.ContinueOnError)
	what.StringVar(&o.seeds, "seeds", "", "read seeds from `FILE`, one a line, .gz too; - is stdin")
	what.StringVar(&o.dir, "dir", "", "keep the crawl in `DIR` (default ./HOST.crawl of the first seed, ./FILE.crawl of --seeds)")
	what.StringVar(&o.out, "out", "", "- writes each record to stdout as well, at least once")
	o.rotate = 1 << 30
	what.Var(&o.rotate, "rotate", "close pages.jsonl beyond this `SIZE` and begin another")
	what.BoolVar(&o.compress, "compress", false, "compress closed record files with zstd")
	what.StringVar(&o.config, "config", "", "read flags from a YAML `FILE`")

	scope := pflag.NewFlagSet("Scope", pflag.ContinueOnError)
	scope.StringVar(&o.scope, "scope", "host", "follow links within the seeds' `host|subdomains|domain|any` (fixed)")
	scope.StringArrayVar(&o.include, "include", nil, "follow only URLs that match `RE` (repeatable; fixed)")
	scope.StringArrayVar(&o.exclude, "exclude", nil, "follow no URL that matches `RE`; wins over --include (repeatable; fixed)")
	scope.IntVar(&o.maxDepth, "max-depth", unlimited, "links away from a seed, 0 the seeds only, -1 no limit (fixed)")
	scope.Uint64Var(&o.maxPages, "max-pages", 0, "end after so many answers in the whole crawl, 0 no limit")
	scope.Uint64Var(&o.maxPerHost, "max-per-host", 0, "queue at most so many URLs of one host key, 0 no limit (fixed)")
	scope.DurationVar(&o.maxTime, "max-time", 0, "end this run after `DURATION`, 0 no limit")

	polite := pflag.NewFlagSet("Politeness", pflag.ContinueOnError)
	polite.DurationVar(&o.delay, "delay", politeness.DefaultDelay, "between two requests to one host key, start to start (fixed)")
	polite.DurationVar(&o.maxCrawlDelay, "max-crawl-delay", politeness.DefaultMaxCrawlDelay, "longest Crawl-delay of a robots.txt that is waited for (fixed)")
	polite.Float64Var(&o.latencyFactor, "latency-factor", politeness.DefaultLatencyFactor, "wait at least this × the host's latency; 0 off; off too with --delay 0 (fixed)")
	polite.IntVar(&o.hostConcurrent, "host-concurrency", 1, "requests to one host at once (fixed)")
	polite.StringVar(&o.hostKey, "host-key", "host", "what shares a delay: `host|domain` (fixed)")
	polite.StringVar(&o.robots, "robots", "obey", "`obey|ignore` robots.txt (fixed)")
	polite.IntVar(&o.concurrency, "concurrency", 64, "hosts asked at once")
	polite.Float64Var(&o.rate, "rate", 0, "requests per second of this process, 0 no limit")
	polite.DurationVar(&o.backoff, "backoff", politeness.DefaultBackoffBase, "first back-off of a host in trouble; doubles each time")
	polite.DurationVar(&o.backoffMax, "backoff-max", politeness.DefaultBackoffMax, "longest back-off of a host")
	polite.IntVar(&o.deadAfter, "dead-after", 6, "give a host up after so many requests in a row without an answer")

	fetch := pflag.NewFlagSet("Requests", pflag.ContinueOnError)
	fetch.DurationVar(&o.timeout, "timeout", 30*time.Second, "for one request, from connect to the end of the body")
	fetch.IntVar(&o.retries, "retries", 3, "after a failed first attempt")
	o.maxBody = 10 << 20
	fetch.Var(&o.maxBody, "max-body", "cut decompressed bodies at this `SIZE`")
	fetch.StringSliceVar(&o.types, "types", nil, "content `TYPES` whose bodies are read, * any (default text/html,application/xhtml+xml)")
	fetch.StringArrayVarP(&o.headers, "header", "H", nil, "send `NAME: VALUE` with each request (repeatable)")
	fetch.StringVar(&o.userAgent, "user-agent", "", "what requests call us; its first token is what robots.txt does (default crawler/VERSION)")
	fetch.StringVar(&o.contact, "contact", "", "`URL or address` for who runs a site, added to the user agent")
	fetch.StringArrayVar(&o.connectTo, "connect-to", nil, "connect to ADDR for hosts that match: `PATTERN=ADDR[:PORT]` (repeatable)")
	fetch.BoolVar(&o.private, "allow-private", false, "request private, loopback and other special addresses too")

	fetch.BoolVar(&o.fastLinks, "fast-links", true, "read links from tokens, a third of the work; false parses whole documents, which differs within SVG and MathML")

	filter := pflag.NewFlagSet("Filter and canonical form", pflag.ContinueOnError)
	o.urls, o.fpr, o.growth = 10_000_000, 1e-6, true
	filter.Var(&o.urls, "urls", "`N` URLs that the filter is sized for (fixed)")
	filter.Var(&o.fpr, "fpr", "`P` that a new URL is taken for a known one (fixed)")
	filter.Var(&o.growth, "growth", "`on|off`: add layers beyond --urls, so that --fpr holds (fixed)")
	filter.StringArrayVar(&o.stripParam, "strip-param", nil, "remove this query `PARAMETER`, beside the default list; - removes none (repeatable; fixed)")
	filter.StringArrayVar(&o.keepParam, "keep-param", nil, "keep this query `PARAMETER` (repeatable; fixed)")
	filter.BoolVar(&o.sortQuery, "sort-query", false, "order of query parameters does not matter (fixed)")

	run := pflag.NewFlagSet("This run", pflag.ContinueOnError)
	run.DurationVar(&o.grace, "grace", 30*time.Second, "for requests under way when stopped")
	run.StringVar(&o.logLevel, "log-level", "info", "`debug|info|warn|error` on stderr")
	run.StringVar(&o.crashAt, "crash-at", "", "end like kill -9 at the N-th `POINT:N`; for tests")
	run.IntVar(&o.checkpoint, "checkpoint-adds", 0, "write the filter to disk after `N` added URLs; for tests")
	_ = run.MarkHidden("crash-at")
	_ = run.MarkHidden("checkpoint-adds")
	run.StringVar(&o.cpuProfile, "cpu-profile", "", "write a CPU profile of this run to `FILE`")
	_ = run.MarkHidden("cpu-profile")
	return []section{{what}, {scope}, {polite}, {fetch}, {filter}, {run}}
}

// section is a heading of help with its flags; the set's name is the heading.
type section struct{ *pflag.FlagSet }

// canonOptions returns the canonical form that the flags ask for.
func (o *options) canonOptions() canon.Options {
	strip := canon.DefaultStrip()
	if slices.Contains(o.stripParam, "-") {
		strip = []string{}
	}
	for _, name := range o.stripParam {
		if name != "-" {
			strip = append(strip, name)
		}
	}
	key := canon.ByHost
	if o.hostKey == "domain" {
		key = canon.ByDomain
	}
	return canon.Options{StripParams: strip, KeepParams: o.keepParam, SortQuery: o.sortQuery, HostKey: key}
}

func (o *options) policy() politeness.Policy {
	p := politeness.Policy{
		Delay: o.delay, MaxCrawlDelay: o.maxCrawlDelay, LatencyFactor: o.latencyFactor,
		BackoffBase: o.backoff, BackoffMax: o.backoffMax, DeadAfter: o.deadAfter,
	}
	if o.delay == 0 {
		p.Delay, p.LatencyFactor = politeness.NoDelay, politeness.NoLatencyFactor
	}
	if o.maxCrawlDelay == 0 {
		p.MaxCrawlDelay = politeness.NoCrawlDelay
	}
	if o.latencyFactor == 0 {
		p.LatencyFactor = politeness.NoLatencyFactor
	}
	if o.deadAfter == 0 {
		p.DeadAfter = politeness.NeverDead
	}
	return p
}

// agent returns the User-Agent header.
func (o *options) agent() string {
	agent := o.userAgent
	if agent == "" {
		agent = "crawler/" + version()
	}
	if o.contact != "" {
		agent += " (+" + o.contact + ")"
	}
	return agent
}

func (o *options) depth() int {
	switch o.maxDepth {
	case unlimited:
		return 0
	case 0:
		return fetcher.SeedsOnly
	}
	return o.maxDepth
}

// count is a number that people write as 10M, 1e9 or 10_000_000.
type count uint64

func (c *count) String() string { return humanCount(uint64(*c)) }
func (c *count) Type() string   { return "N" }
func (c *count) Set(s string) error {
	v, err := parseNumber(s)
	if err != nil || v < 1 || v > 1<<40 || v != float64(uint64(v)) {
		return fmt.Errorf("%q is no count from 1 to 1e12, such as 10M, 1e9 or 250000", s)
	}
	*c = count(v)
	return nil
}

func humanCount(n uint64) string {
	for _, unit := range []struct {
		size uint64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= unit.size && n%unit.size == 0 {
			return fmt.Sprintf("%d%s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprint(n)
}

// parseNumber reads 1e9, 10M, 2.5k or 10_000.
func parseNumber(s string) (float64, error) {
	factor := 1.0
	if s != "" {
		switch s[len(s)-1] {
		case 'k', 'K':
			factor = 1e3
		case 'm', 'M':
			factor = 1e6
		case 'g', 'G', 'b', 'B':
			factor = 1e9
		}
	}
	if factor > 1 {
		s = s[:len(s)-1]
	}
	var v float64
	if _, err := fmt.Sscanf(strings.ReplaceAll(s, "_", "")+"\n", "%g\n", &v); err != nil {
		return 0, err
	}
	return v * factor, nil
}

// probability is a rate that people write as 1e-6, 0.1% or "1 in 1000".
type probability float64

func (p *probability) String() string { return fmt.Sprintf("%g", float64(*p)) }
func (p *probability) Type() string   { return "P" }
func (p *probability) Set(s string) error {
	fault := fmt.Errorf("%q is no probability from 1e-12 to below 1, such as 1e-6, 0.1%% or 1 in 1000000", s)
	var v float64
	var err error
	if rest, ok := strings.CutPrefix(s, "1 in "); ok {
		v, err = parseNumber(rest)
		v = 1 / v
	} else if rest, ok := strings.CutSuffix(s, "%"); ok {
		v, err = parseNumber(rest)
		v /= 100
	} else {
		v, err = parseNumber(s)
	}
	if err != nil || !(v >= 1e-12 && v < 1) {
		return fault
	}
	*p = probability(v)
	return nil
}

// byteSize is a size that people write as 10MiB or 1GB.
type byteSize int64

// String is exact, so that Set reads the same size again.
func (b *byteSize) String() string {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if size := byteSize(1) << (10 * (4 - i)); *b >= size && *b%size == 0 {
			return fmt.Sprintf("%d%s", *b/size, unit)
		}
	}
	return fmt.Sprintf("%dB", *b)
}
func (b *byteSize) Type() string { return "SIZE" }
func (b *byteSize) Set(s string) error {
	v, err := humanize.ParseBytes(s)
	if err != nil || v < 1 || v > 1<<50 {
		return fmt.Errorf("%q is no size such as 10MiB or 1GB", s)
	}
	*b = byteSize(v)
	return nil
}

// onOff is a switch.
type onOff bool

func (b *onOff) String() string {
	if *b {
		return "on"
	}
	return "off"
}
func (b *onOff) Type() string { return "on|off" }
func (b *onOff) Set(s string) error {
	switch s {
	case "on", "true":
		*b = true
	case "off", "false":
		*b = false
	default:
		return fmt.Errorf("%q is neither on nor off", s)
	}
	return nil
}
