package cli

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/memlimit"
	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/name"
)

// options are the values of the flags of a crawl: a crawl.Config, and the options of
// the command itself.
type options struct {
	crawl crawl.Config // without the values that plan.config adds

	// values that are converted before they are stored in a crawl.Config
	fields    []string
	exact     ruleList
	form      formFlags
	headers   []string
	connectTo []string
	allowNet  []string
	allowPort []string
	memory    human.Bytes // half of it is Config.Memory
	events    eventFlags  // Config.Events

	// where the crawl is
	sharedFlags
	noMigrate bool
	dirFlag   string

	// what the command does
	seeds      string
	known      string
	out        string
	refused    string
	config     string
	logLevel   string
	logFormat  string
	crashAt    string
	sizes      crash.Sizes
	cpuProfile string
	quiet      bool
	admin      string
	adminHosts []string
	pprof      bool
}

// toFiles is the value of --out that writes records only to the crawl's own files.
const toFiles = "file"

// newFlags returns the flags of a crawl with their defaults, as sections of the help
// text. Sections and flags are in the order of the help text.
func (o *options) newFlags() []section {
	o.crawl.Fixed = crawl.DefaultFixed()
	sections := []section{
		{title: "Seeds and output", declare: o.outputFlags}, {title: dataSection, declare: o.dataFlags}, {title: "Scope", declare: o.scopeFlags},
		{title: "Politeness", declare: o.politeFlags}, {title: requestSection, declare: o.requestFlags},
		{title: "Filter and canonical form", declare: o.filterFlags}, {title: "URLs that must not be dropped", declare: o.exactFlags},
		{title: "A crawl that workers share", declare: o.sharedCrawlFlags},
		{title: "Events", declare: func(f *pflag.FlagSet) { o.events.addTo(f, "events-") }}, {title: "This run", declare: o.runFlags},
	}
	for i := range sections {
		sec := &sections[i]
		sec.flags = pflag.NewFlagSet(sec.title, pflag.ContinueOnError)
		sec.flags.SortFlags = false
		sec.declare(sec.flags)
	}
	return sections
}

func (o *options) outputFlags(f *pflag.FlagSet) {
	f.StringVar(&o.seeds, "seeds", "", "read seeds from `FILE`, one a line, .gz too; - is stdin")
	restrict.Check(f, "seeds", checkURLFile)
	f.StringVar(&o.known, "known", "", "count the URLs of `FILE` as seen: one a line, .gz too")
	restrict.Check(f, "known", checkURLFile)
	f.StringVar(&o.dirFlag, "dir", "", "keep the crawl in `DIR` (default the crawl in this directory, or ./HOST.crawl or ./HOST_PORT.crawl of the first seed, or ./FILE.crawl of --seeds); with --redis, DIR has only the records of this worker (default ./NAME.crawl/HOST-N)")
	f.StringVar(&o.out, "out", toFiles, "also append each record to `FILE`, at least once; - is stdout; the word file means DIR/pages.jsonl only")
	f.StringVar(&o.refused, "refused", "", "append each URL that a rule refused to `FILE`, as JSON lines")
	sizeOf(f, &o.crawl.Records.RotateBytes, "rotate", 1<<30, "begin another pages.jsonl beyond this size")
	f.BoolVar(&o.crawl.Records.Compress, "compress", false, "compress closed record files with zstd")
	f.BoolVar(&o.crawl.Records.Links, "links", false, "keep the links of pages, in DIR/links.jsonl or in Postgres, for crawler links")
	f.StringVar(&o.config, "config", "", "read flags from a YAML `FILE`")
}

// Titles of the sections that the help text of crawler try also has.
const (
	dataSection    = "Data of pages"
	requestSection = "Requests"
)

func (o *options) dataFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.fields, "field", nil, "take `NAME=SELECTOR` from each page into its record, as in price='.price | number' (repeatable; docs/reference/fields.md)")
	restrict.Check(f, "field", checkField)
	f.BoolVar(&o.crawl.Text, "text", false, "take the main text of each page, its language, author and date")
}

func (o *options) scopeFlags(f *pflag.FlagSet) {
	c := &o.crawl.Fixed
	o.fixed(f, "scope", "host|subdomains|domain|any", "`MODE`: follow links within the seeds' host, subdomains, domain, or any", "", nil)
	f.StringArrayVar(&c.Include, "include", nil, "follow only URLs that match `RE` (repeatable)")
	restrict.Check(f, "include", checkRegexp)
	f.StringArrayVar(&c.Exclude, "exclude", nil, "follow no URL that matches `RE`; wins over --include (repeatable)")
	restrict.Check(f, "exclude", checkRegexp)
	o.fixed(f, "max-depth", "int", "follow links up to this depth; 0 seeds only, -1 no limit",
		"a whole number from -1 to 65535", within(&c.MaxDepth, crawl.SeedsOnly, crawl.NoLimit, math.MaxUint16))
	f.Var((*limit)(&o.crawl.MaxPages), "max-pages", "end after this many answers in the whole crawl, with workers at most the requests under way more; 0 no limit")
	o.fixed(f, "max-per-host", "N", "queue at most this many URLs of one host key; 0 no limit; auto: 100,000, and no limit for hosts of seeds",
		"auto, "+limitWords, anything)

	const most, words = 1 << 20, "a whole number from 0 to 1048576"
	o.fixed(f, "sitemaps", "bool", "crawl the sitemaps that robots.txt names, or /sitemap.xml and /sitemap_index.xml, and the URLs in them", "", nil)
	o.fixed(f, "feeds", "bool", "crawl the RSS and Atom feeds to which pages link, and the pages to which their items link", "", nil)
	o.fixed(f, "assets", "bool", "also crawl images, styles, scripts and media of pages; any type unless --types is given", "", nil)
	o.fixed(f, "max-hosts-per-domain", "N", "crawl at most N hosts of one registrable domain; hosts of seeds count, but are always crawled; 0 no limit",
		limitWords, anything)
	o.fixed(f, "max-url-bytes", "int", "refuse URLs longer than this; 0 allows up to 8192", words, within(&c.MaxURLBytes, crawl.NoLimit, 1, most))
	o.fixed(f, "max-path-repeats", "int", "refuse URLs whose path contains one segment more than this many times; 0 no limit",
		words, within(&c.MaxPathRepeats, crawl.NoLimit, 1, most))
	o.fixed(f, "max-params", "int", "refuse URLs with more query parameters than this; 0 no limit", words, within(&c.MaxParams, crawl.NoLimit, 1, most))
	o.fixed(f, "max-years-ahead", "int", "refuse URLs with a date more than this many years in the future, or of a calendar before 1900; -1 no limit",
		"a whole number from -1 to 1048576", within(&c.MaxYearsAhead, crawl.ThisYear, crawl.NoLimit, most))
	f.BoolVar(&o.crawl.CheckExternal, "check-external", false, "request each link that leads out of the scope once, with HEAD, to find broken ones; at most one request a second to a registrable domain")
	restrict.Number(f, &o.crawl.MaxExternal, "max-external", 10_000, "check at most this many URLs with --check-external in the whole crawl; 0 no limit",
		0, math.MaxInt32, "a whole number of 0 or more")
	restrict.Number(f, &o.crawl.MaxTime, "max-time", 0, "start no request after this time, and end the run within --grace; 0 no limit", 0, forever, timeOrZero)
}

func (o *options) politeFlags(f *pflag.FlagSet) {
	c := &o.crawl.Fixed
	o.fixed(f, "delay", "duration", "time between the starts of two requests to one host key", timeOrZero, anything)
	o.fixed(f, "max-crawl-delay", "duration", "longest Crawl-delay of a robots.txt that is waited for", timeOrZero, anything)
	o.fixed(f, "latency-factor", "float64", "make the delay at least this many times the host's average latency; 0 off; --delay 0 turns it off too",
		"a number of 0 or more", within(&c.LatencyFactor, -1, 0, math.MaxFloat64))
	o.fixed(f, "host-concurrency", "int", "requests to one host at once",
		"a whole number from 1 to 1024", within(&c.HostConcurrency, 1, 1, maxHostConcurrency))
	o.fixed(f, "host-key", "host|domain", "`UNIT` whose URLs share a delay: host or domain", "", nil)
	o.fixed(f, "robots", "obey|ignore", "`HOW`: obey or ignore robots.txt", "", nil)
	f.Var((*concurrency)(&o.crawl.Concurrency), "concurrency", "hosts asked at once, not counting late ones; auto finds the best number")
	restrict.Within(f, "concurrency", &o.crawl.Concurrency, 0, maxConcurrency, "auto, or a whole number from 1 to 100000")
	restrict.Number(f, &o.crawl.Rate, "rate", 0, "requests per second of this process; 0 no limit", 0, math.MaxFloat64, "a number of 0 or more")
	sizeOrNone(f, &o.crawl.Bandwidth, "bandwidth", 0, "bytes per second that this process may receive, on average; 0 no limit")
	restrict.Number(f, &o.crawl.Backoff, "backoff", politeness.DefaultBackoffBase, "first back-off of a host in trouble; doubles each time", 1, forever, timeNotZero)
	restrict.Number(f, &o.crawl.BackoffMax, "backoff-max", politeness.DefaultBackoffMax, "longest back-off of a host", 1, forever, timeNotZero)
	restrict.Number(f, &o.crawl.DeadAfter, "dead-after", politeness.DefaultDeadAfter,
		"give up a host after this many requests in a row without an answer; 0 never", 0, math.MaxInt, "a whole number of 0 or more")
}

func (o *options) requestFlags(f *pflag.FlagSet) {
	c := &o.crawl.Requests
	restrict.Number(f, &c.Timeout, "timeout", get.DefaultTimeout, "time for one request, from connect to the end of the body", time.Millisecond, forever, timeFromMsec)
	restrict.Number(f, &o.crawl.Retries, "retries", 3, "more attempts after a failed first one", 0, 100, "a whole number from 0 to 100")
	sizeOf(f, &c.MaxBodyBytes, "max-body", get.DefaultMaxBodyBytes, "cut decompressed bodies at this size")
	f.StringSliceVar(&c.Types, "types", get.HTMLTypes(), "content `TYPES` whose bodies are read; * any")
	checkText(f, "types", "content types in lower case, such as text/html,application/pdf, or * for any", func(text string) error {
		_, err := get.New(get.Config{Types: []string{text}})
		return err
	})
	f.StringArrayVarP(&o.headers, "header", "H", nil, "send `'NAME: VALUE'`; Cookie, Authorization and other possible secrets go only to origins of seeds (repeatable)")
	restrict.Check(f, "header", checkHeaderFlag)
	f.StringVar(&o.crawl.Agent, "user-agent", defaultAgent(), "`NAME` of the crawler in requests; robots.txt matches its first word, which is fixed for a crawl")
	restrict.Flag(f, "user-agent", "a name that site owners can look up, without control characters", func() bool {
		return o.crawl.Agent != "" && httpguts.ValidHeaderFieldValue(o.crawl.Agent)
	})
	f.StringVar(&o.crawl.Contact, "contact", "", "`URL` or address for site owners, added to the user agent")
	restrict.Flag(f, "contact", "a URL or an address, without control characters", func() bool { return httpguts.ValidHeaderFieldValue(o.crawl.Contact) })
	f.StringArrayVar(&o.connectTo, "connect-to", nil, "`PATTERN=ADDR[:PORT]`: connect to ADDR for hosts that match (repeatable)")
	checkText(f, "connect-to", "PATTERN=ADDR[:PORT], such as '*.example.org=127.0.0.1:8080'", parsed(get.ParseConnectTo))
	f.BoolVar(&c.AllowPrivate, "allow-private", false, "request private, loopback and other special addresses too")
	restrict.Number(f, &c.HeaderTimeout, "header-timeout", get.DefaultHeaderTimeout, "time for the header of an answer", time.Millisecond, forever, timeFromMsec)
	sizeOrNone(f, &c.MinRate, "min-rate", get.DefaultMinRate, "least bytes per second of a body, over any 10 s; 0 no limit")
	f.StringVar(&c.Proxy, "proxy", "", "connect through `URL`: http, https or socks5; names are looked up and checked here")
	checkText(f, "proxy", "http, https or socks5, then ://[USER:PASSWORD@]HOST[:PORT]", func(text string) error {
		_, err := get.New(get.Config{Proxy: text})
		return err
	})
	f.StringVar(&c.DNS, "dns", "", "ask the name server at `ADDR[:PORT]`")
	checkText(f, "dns", "an IP address, with or without a port, such as 127.0.0.53 or [::1]:53", func(text string) error {
		_, err := get.New(get.Config{DNS: text})
		return err
	})
	f.StringArrayVar(&o.allowNet, "allow-net", nil, "request addresses of `CIDR` too, private or not (repeatable)")
	checkText(f, "allow-net", "a network, such as 10.1.0.0/16", parsed(netip.ParsePrefix))
	f.StringSliceVar(&o.allowPort, "allow-port", nil, "also request `PORT`, although another service uses it, such as 25 or 6379 (repeatable)")
	checkText(f, "allow-port", "ports from 1 to 65535, such as 25,6379", func(text string) error {
		if port, err := strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
			return errors.New("not a port")
		}
		return nil
	})
	o.trustFlags(f)
	o.memory = human.Bytes(memlimit.Default())
	f.Var(&o.memory, "memory", "memory for everything but the filter; half is for what is made of answers")
	restrict.Within(f, "memory", &o.memory, 1, maxSize, sizeToPiB)
	sizeOf(f, &o.sizes.SaveRotateBytes, "save-rotate", 0, "begin another file of kept answers beyond this size; for tests")
	_ = f.MarkHidden("save-rotate")
	choice(f, &o.crawl.Records.Save, "save", "`WHAT` to keep in DIR/warc, exactly as received: none, html (pages), or all answers; requests are HTTP/1.1 then", "none", "html", "all")
}

func (o *options) filterFlags(f *pflag.FlagSet) {
	c := &o.crawl.Fixed
	o.fixed(f, "urls", "N", "URLs that the filter is sized for",
		"a whole number from 1 to 1e12, such as 250000, 10M or 1e9", within(&c.FilterCapacity, 1, 1, maxURLs))
	o.fixed(f, "fpr", "P", "probability that a new URL is taken for a known one",
		"a probability from 1e-12 to 0.99, such as 1e-6, 0.1% or '1 in 1000000'", within(&c.FPR, leastRate, leastRate, 1))
	o.fixed(f, "growth", "on|off", "add layers beyond --urls, so that --fpr holds", "on or off", anything)
	o.form.addTo(f)
}

func (o *options) exactFlags(f *pflag.FlagSet) {
	_ = o.exact.Set("seeds")
	f.Var(&o.exact, "exact", "`RULES` for URLs that a false positive must never drop: none, all, or a list of seeds, sitemaps, depth<=N, host=GLOB, re=EXPR")
	f.StringArrayVar(&o.crawl.Fixed.Windows, "window", nil, "`CLASS=TIME`: finished URLs of an exact class are new again after TIME, as in seeds=24h (repeatable); if Postgres has the keys, it cannot be changed later")
	o.fixed(f, "sink", "jsonl|postgres", "`WHERE`: records are lines of pages.jsonl, or rows of --postgres", "", nil)
	o.fixed(f, "cdc", "bool", "write each record of --sink postgres as an event for change data capture too", "", nil)
	f.BoolVar(&o.noMigrate, "no-migrate", false, "leave the schema in Postgres as it is; crawler migrate brings it up to date")
}

func (o *options) sharedCrawlFlags(f *pflag.FlagSet) {
	o.sharedFlags.addTo(f)
	o.fixed(f, "partitions", "int", "partitions of the hosts, which a cluster spreads over its nodes",
		"a whole number from 1 to 16384", within(&o.crawl.Fixed.Partitions, 1, 1, maxPartitions))
	f.Var((*limit)(&o.crawl.MaxQueued), "max-queued", "refuse links while this many URLs wait in the whole crawl; 0 no limit")
	restrict.Number(f, &o.crawl.Wait, "redis-wait", 0, "replicas that must have a page's links before it is completed", 0, math.MaxInt, "a whole number of 0 or more")
	f.StringVar(&o.crawl.Worker, "worker", "", "call this worker `NAME` in status (default HOST-PID-RANDOM)")
	checkText(f, "worker", name.Form, func(text string) error {
		if !name.Valid(text) {
			return errors.New("not a name")
		}
		return nil
	})
}

func (o *options) runFlags(f *pflag.FlagSet) {
	restrict.Number(f, &o.crawl.Grace, "grace", 30*time.Second,
		"time to end running requests and store results after a stop; the run ends within it", 0, forever, timeOrZero)
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print warnings and errors only: no live view, no progress, no summary (crawler report has it)")
	choice(f, &o.logLevel, "log-level", "`LEVEL`: debug, info, warn or error, on stderr", "info", "debug", "warn", "error")
	choice(f, &o.logFormat, "log-format", "`FORMAT`: text or json", "text", "json")
	f.StringVar(&o.admin, "admin", "", "serve /metrics, /healthz and /readyz on `ADDR:PORT`; a port alone is on loopback")
	checkText(f, "admin", "PORT or ADDR:PORT, such as 9090 or 127.0.0.1:9090", parsed(adminAddress))
	f.StringArrayVar(&o.adminHosts, "admin-host", nil, "`NAME` that --admin accepts as its host, beside localhost and its IP address (repeatable)")
	checkText(f, "admin-host", "a host's name or IP address without a port, such as metrics.example.org", func(text string) error {
		if _, _, err := net.SplitHostPort(text); err == nil || hostOf(text) == "" {
			return errors.New("not a host")
		}
		return nil
	})
	f.BoolVar(&o.pprof, "pprof", false, "serve profiles of the process with --admin, too, in /debug/pprof/")
	f.BoolVar(&o.crawl.Anyway, "anyway", false, "go on without flags and headers of the first run whose values are not stored here")
	addCrash(f, &o.crashAt)
	restrict.Number(f, &o.sizes.CheckpointAdds, "checkpoint-adds", 0, "write the filter to disk after this many added URLs; for tests",
		0, math.MaxInt, "a whole number of 0 or more")
	f.StringVar(&o.cpuProfile, "cpu-profile", "", "write a CPU profile of this run to `FILE`")
	f.DurationVar(&o.sizes.LeaseTTL, "lease-time", 0, "how long a worker may hold a host; for tests")
	restrict.Flag(f, "lease-time", "0, or a time of 2s or more", func() bool { return o.sizes.LeaseTTL == 0 || o.sizes.LeaseTTL >= 2*time.Second })
	for _, name := range []string{"checkpoint-adds", "cpu-profile", "lease-time"} {
		_ = f.MarkHidden(name)
	}
}

// checkText makes a flag refuse text for which check returns an error. The message of the
// flag consists of "want" and the description.
func checkText(f *pflag.FlagSet, name, description string, check func(text string) error) {
	restrict.Check(f, name, func(text string) error {
		if check(text) != nil {
			return errors.New("want " + description)
		}
		return nil
	})
}

// parsed returns a function that returns the error of the function parse.
func parsed[T any](parse func(text string) (T, error)) (check func(text string) error) {
	return func(text string) error {
		_, err := parse(text)
		return err
	}
}

// checkForm returns an error if the crawl was created with a canonical form of URLs that this
// program does not have.
func (p *plan) checkForm() error {
	if form, found := p.stored[formSetting]; found {
		if err := canon.CheckForm(form); err != nil {
			return fmt.Errorf("%s: %w", p.location, err)
		}
	}
	return nil
}

// canonOptions returns the canonical form that the flags ask for.
func (o *options) canonOptions() canon.Options {
	options := o.form.options()
	if o.crawl.Fixed.HostKey == "domain" {
		options.HostKey = canon.ByDomain
	}
	return options
}
