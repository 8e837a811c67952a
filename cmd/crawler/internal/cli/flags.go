package cli

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/form"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/human"
)

// options are the flags of a crawl.
type options struct {
	// fixed when the crawl is created
	scope          string
	include        []string
	exclude        []string
	maxDepth       int
	maxPerHost     limit
	hostKey        string
	delay          time.Duration
	maxCrawlDelay  time.Duration
	latencyFactor  float64
	hostConcurrent int
	robots         string
	urls           human.Count
	fpr            human.Rate
	growth         human.Switch
	exact          ruleList
	sink           string
	partitions     int // of a shared crawl
	form           form.Flags
	formVersion    int // of the canonical form of the crawl that exists; 0: the newest

	// which shared crawl; empty: one in a directory
	sharedFlags

	webOptions

	// free to change
	window      []string // but where Postgres has the exact keys
	noMigrate   bool
	seeds       string
	known       string
	dirFlag     string
	out         string
	refused     string
	maxPages    limit
	maxTime     time.Duration
	concurrency concurrency
	rate        float64
	timeout     time.Duration
	retries     int
	maxBody     human.Bytes
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
	rotate      human.Bytes
	compress    bool
	config      string
	logLevel    string
	logFormat   string
	checkpoint  int
	crashAt     string
	leaseTime   time.Duration
	cpuProfile  string
	quiet       bool
	admin       string
	adminHosts  []string
	pprof       bool
	redisWait   int
	maxQueued   limit
	worker      string
}

// fixedFlags change identity, scope, politeness or sizes: they are stored when
// a crawl is created, and a later run with another value is refused.
var fixedFlags = []string{
	"scope", "include", "exclude", "max-depth", "max-per-host", "host-key", "delay", "max-crawl-delay",
	"latency-factor", "host-concurrency", "robots", "urls", "fpr", "growth", "exact", "sink",
	"strip-param", "keep-param", "sort-query",
	"sitemaps", "assets", "max-hosts-per-domain", "max-url-bytes", "max-path-repeats", "max-params", "max-years-ahead", "allow-port",
}

// toFiles is --out for records in the crawl's own files alone.
const toFiles = "file"

// unlimited is --max-depth without a limit.
const unlimited = -1

// newFlags returns the flags of a crawl with their defaults, by the headings
// that help has them under. The flags of a section are in help's order.
func (o *options) newFlags() []section {
	sections := []section{
		{title: "Seeds and output", declare: o.outputFlags}, {title: "Scope", declare: o.scopeFlags},
		{title: "Politeness", declare: o.politeFlags}, {title: "Requests", declare: o.requestFlags},
		{title: "Filter and canonical form", declare: o.filterFlags}, {title: "URLs that must not be dropped", declare: o.exactFlags},
		{title: "A crawl that workers share", declare: o.sharedCrawlFlags}, {title: "This run", declare: o.runFlags},
	}
	all := pflag.NewFlagSet("crawl", pflag.ContinueOnError)
	for i := range sections {
		sec := &sections[i]
		sec.flags = pflag.NewFlagSet(sec.title, pflag.ContinueOnError)
		sec.flags.SortFlags = false
		sec.declare(sec.flags)
		all.AddFlagSet(sec.flags)
	}
	o.restrict(all)
	return sections
}

func (o *options) outputFlags(f *pflag.FlagSet) {
	f.StringVar(&o.seeds, "seeds", "", "read seeds from `FILE`, one a line, .gz too; - is stdin")
	f.StringVar(&o.known, "known", "", "count the URLs of `FILE` as seen: one a line, .gz too")
	f.StringVar(&o.dirFlag, "dir", "", "keep the crawl in `DIR` (default ./HOST.crawl or ./HOST_PORT.crawl of the first seed, ./FILE.crawl of --seeds, or the crawl in this directory; with --redis, which keeps the crawl, records of this worker alone are in ./NAME.crawl/HOST-N)")
	f.StringVar(&o.out, "out", toFiles, "append records to this `FILE` as well, - for stdout, each at least once; file: to DIR/pages.jsonl alone")
	f.StringVar(&o.refused, "refused", "", "append each URL that a rule refused to `FILE`, as JSON lines")
	o.rotate = 1 << 30
	f.Var(&o.rotate, "rotate", "begin another pages.jsonl beyond this size")
	f.BoolVar(&o.compress, "compress", false, "compress closed record files with zstd")
	f.StringVar(&o.config, "config", "", "read flags from a YAML `FILE`")
}

func (o *options) scopeFlags(f *pflag.FlagSet) {
	f.Var(newChoice(&o.scope, "host", "subdomains", "domain", "any"), "scope",
		"`MODE`: follow links within the seeds' host, subdomains, domain, or any")
	f.StringArrayVar(&o.include, "include", nil, "follow only URLs that match `RE` (repeatable)")
	f.StringArrayVar(&o.exclude, "exclude", nil, "follow no URL that matches `RE`; wins over --include (repeatable)")
	f.IntVar(&o.maxDepth, "max-depth", unlimited, "links away from a seed; 0 the seeds only, -1 no limit")
	f.Var(&o.maxPages, "max-pages", "end after so many answers in the whole crawl; 0 no limit")
	f.Var(&o.maxPerHost, "max-per-host", "queue at most so many URLs of one host key; 0 no limit")
	o.trapFlags(f)
	f.DurationVar(&o.maxTime, "max-time", 0, "start no request after so long, and end this run within --grace; 0 no limit")
}

func (o *options) politeFlags(f *pflag.FlagSet) {
	f.DurationVar(&o.delay, "delay", politeness.DefaultDelay, "between two requests to one host key, start to start")
	f.DurationVar(&o.maxCrawlDelay, "max-crawl-delay", politeness.DefaultMaxCrawlDelay, "longest Crawl-delay of a robots.txt that is waited for")
	f.Float64Var(&o.latencyFactor, "latency-factor", politeness.DefaultLatencyFactor, "wait at least so many times the host's latency; 0 off, as with --delay 0")
	f.IntVar(&o.hostConcurrent, "host-concurrency", 1, "requests to one host at once")
	f.Var(newChoice(&o.hostKey, "host", "domain"), "host-key", "`UNIT`: what shares a delay, host or domain")
	f.Var(newChoice(&o.robots, "obey", "ignore"), "robots", "`HOW`: obey or ignore robots.txt")
	f.Var(&o.concurrency, "concurrency", "hosts asked at once, beside those that are late; auto: as many as help")
	f.Float64Var(&o.rate, "rate", 0, "requests per second of this process; 0 no limit")
	f.DurationVar(&o.backoff, "backoff", politeness.DefaultBackoffBase, "first back-off of a host in trouble; doubles each time")
	f.DurationVar(&o.backoffMax, "backoff-max", politeness.DefaultBackoffMax, "longest back-off of a host")
	f.IntVar(&o.deadAfter, "dead-after", 6, "give a host up after so many requests in a row without an answer; 0 never")
}

func (o *options) requestFlags(f *pflag.FlagSet) {
	f.DurationVar(&o.timeout, "timeout", get.DefaultTimeout, "for one request, from connect to the end of the body")
	f.IntVar(&o.retries, "retries", 3, "after a failed first attempt")
	o.maxBody = get.DefaultMaxBodyBytes
	f.Var(&o.maxBody, "max-body", "cut decompressed bodies at this size")
	f.StringSliceVar(&o.types, "types", get.HTMLTypes(), "content `TYPES` whose bodies are read; * any")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "send `'NAME: VALUE'`; Cookie, Authorization and all that may be secret to the origins of seeds only (repeatable)")
	f.StringVar(&o.userAgent, "user-agent", "crawler/"+version(), "`NAME`: what requests call us; its first token is what robots.txt does")
	f.StringVar(&o.contact, "contact", "", "`URL` or address for who runs a site, added to the user agent")
	f.StringArrayVar(&o.connectTo, "connect-to", nil, "`PATTERN=ADDR[:PORT]`: connect to ADDR for hosts that match (repeatable)")
	f.BoolVar(&o.private, "allow-private", false, "request private, loopback and other special addresses too")
	o.connectionFlags(f)
	f.BoolVar(&o.fastLinks, "fast-links", true, "read links from tokens, about a twelfth of the work; =false parses whole documents, which differs within SVG and MathML")
}

func (o *options) filterFlags(f *pflag.FlagSet) {
	o.urls, o.fpr, o.growth = 10_000_000, 1e-6, true
	f.Var(&o.urls, "urls", "URLs that the filter is sized for")
	f.Var(&o.fpr, "fpr", "probability that a new URL is taken for a known one")
	f.Var(&o.growth, "growth", "add layers beyond --urls, so that --fpr holds")
	o.form.AddTo(f)
}

func (o *options) runFlags(f *pflag.FlagSet) {
	f.DurationVar(&o.grace, "grace", 30*time.Second, "for requests under way when stopped, and what follows them; the run ends within it")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print warnings and errors only: no live view, no progress, no summary (crawler report has it)")
	f.Var(newChoice(&o.logLevel, "info", "debug", "warn", "error"), "log-level", "`LEVEL`: debug, info, warn or error, on stderr")
	f.Var(newChoice(&o.logFormat, "text", "json"), "log-format", "`FORMAT`: text or json")
	f.StringVar(&o.admin, "admin", "", "serve /metrics, /healthz and /readyz on `ADDR:PORT`, a port alone on loopback")
	f.StringArrayVar(&o.adminHosts, "admin-host", nil, "`NAME` that --admin is asked by, beside localhost and its IP address (repeatable)")
	f.BoolVar(&o.pprof, "pprof", false, "serve profiles of the process with --admin, too, in /debug/pprof/")
	f.StringVar(&o.crashAt, "crash-at", "", "end like kill -9 at the N-th `POINT:N`; for tests")
	f.IntVar(&o.checkpoint, "checkpoint-adds", 0, "write the filter to disk after so many added URLs; for tests")
	f.StringVar(&o.cpuProfile, "cpu-profile", "", "write a CPU profile of this run to `FILE`")
	f.DurationVar(&o.leaseTime, "lease-time", 0, "how long a worker may hold a host; for tests")
	for _, name := range []string{"crash-at", "checkpoint-adds", "cpu-profile", "lease-time"} {
		_ = f.MarkHidden(name)
	}
}

// adoptForm takes the version of the canonical form from the settings of an
// existing crawl.
func (o *options) adoptForm(stored frontier.Settings, crawl string) (err error) {
	form, found := stored[formSetting]
	if !found {
		return nil
	}
	if o.formVersion, err = canon.VersionOf(form); err != nil {
		return fmt.Errorf("%s: %w", crawl, err)
	}
	return nil
}

// canonOptions returns the canonical form that the flags ask for.
func (o *options) canonOptions() canon.Options {
	options := o.form.Options()
	options.Version = o.formVersion
	if o.hostKey == "domain" {
		options.HostKey = canon.ByDomain
	}
	return options
}
