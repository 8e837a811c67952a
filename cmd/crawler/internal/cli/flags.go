package cli

import (
	"errors"
	"math"
	"net"
	"time"

	"github.com/bloomfrontier/crawler/crawl/settings"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/memlimit"
	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/human"
)

// options are the values of the flags of a crawl: its settings, and the options of
// the command itself.
type options struct {
	settings crawl.Settings
	memory   human.Bytes // half of it is Config.Memory
	events   eventFlags  // Config.Events

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
	sizes      crash.Sizes // without SaveRotateBytes
	saveRotate human.Bytes
	cpuProfile string
	quiet      bool
	anyway     bool
	admin      string
	adminHosts []string
	pprof      bool
}

// toFiles is the value of --out that writes records only to the crawl's own files.
const toFiles = "file"

// newFlags returns the flags of a crawl with their defaults, as sections of the help
// text. Sections and flags are in the order of the help text.
func (o *options) newFlags() []section {
	o.settings = crawl.DefaultSettings()
	sections := []section{
		{title: settings.Output, declare: o.outputFlags}, {title: settings.Data}, {title: settings.Scope},
		{title: settings.Politeness}, {title: settings.Requests, declare: o.requestFlags},
		{title: settings.Filter}, {title: settings.Exact, declare: o.exactFlags},
		{title: settings.Shared, declare: o.sharedCrawlFlags},
		{title: "Events", declare: func(f *pflag.FlagSet) { o.events.addTo(f, "events-") }}, {title: settings.ThisRun, declare: o.runFlags},
	}
	for i := range sections {
		sec := &sections[i]
		sec.flags = pflag.NewFlagSet(sec.title, pflag.ContinueOnError)
		sec.flags.SortFlags = false
		if sec.declare == nil {
			o.rows(sec.flags, settings.Names(func(row *settings.Row) bool { return row.Section == sec.title })...)
		} else {
			sec.declare(sec.flags)
		}
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
	o.rows(f, "rotate", "compress", "links")
	f.StringVar(&o.config, "config", "", "read flags from a YAML `FILE`")
}

func (o *options) requestFlags(f *pflag.FlagSet) {
	o.rows(f, "timeout", "retries", "max-body", "types", "header", "user-agent", "contact", "connect-to", "allow-private", "header-timeout", "min-rate",
		"bind", "sign", "signature-agent", "sign-reuse", "cookies", "cookie-jar", "cookie-jar-file",
		"cookie-domain", "save-cookies", "logins", "logged-out", "proxy", "proxy-http", "dns", "allow-net", "allow-port", "ca", "insecure-host")
	o.memory = human.Bytes(memlimit.Default())
	f.Var(&o.memory, "memory", "memory for everything but the filter; half is for what is made of answers")
	restrict.Within(f, "memory", &o.memory, 1, maxSize, "a size from 1B to 1PiB, such as 512KiB or 10MiB")
	f.Var(&o.saveRotate, "save-rotate", "begin another file of kept answers beyond this size; for tests")
	_ = f.MarkHidden("save-rotate")
	o.rows(f, "save")
}

func (o *options) exactFlags(f *pflag.FlagSet) {
	o.rows(f, "exact", "window", "sink", "cdc")
	f.BoolVar(&o.noMigrate, "no-migrate", false, "leave the schema in Postgres as it is; crawler migrate brings it up to date")
}

func (o *options) sharedCrawlFlags(f *pflag.FlagSet) {
	o.sharedFlags.addTo(f)
	o.rows(f, "partitions", "max-queued", "redis-wait", "worker")
}

func (o *options) runFlags(f *pflag.FlagSet) {
	o.rows(f, "grace")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print warnings and errors only: no live view, no progress, no summary (crawler report has it)")
	choice(f, &o.logLevel, "log-level", "`LEVEL`: debug, info, warn or error, on stderr", "info", "debug", "warn", "error")
	choice(f, &o.logFormat, "log-format", "`FORMAT`: text or json", "text", "json")
	f.StringVar(&o.admin, "admin", "", "serve the dashboard, /metrics, /healthz and /readyz on `ADDR:PORT`; a port alone is on loopback")
	checkText(f, "admin", "PORT or ADDR:PORT, such as 9090 or 127.0.0.1:9090", parsed(adminAddress))
	f.StringArrayVar(&o.adminHosts, "admin-host", nil, "`NAME` that --admin accepts as its host, beside localhost and its IP address (repeatable)")
	checkText(f, "admin-host", "a host's name or IP address without a port, such as metrics.example.org", func(text string) error {
		if _, _, err := net.SplitHostPort(text); err == nil || hostOf(text) == "" {
			return errors.New("not a host")
		}
		return nil
	})
	f.BoolVar(&o.pprof, "pprof", false, "serve profiles of the process with --admin, too, in /debug/pprof/")
	f.BoolVar(&o.anyway, "anyway", false, "go on without flags and headers of the first run whose values are not stored here")
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

// rows declares the flags of settings.
func (o *options) rows(f *pflag.FlagSet, names ...string) { addRows(f, &o.settings, names...) }

// addRows declares the flags of the rows with these names. The flags are views of s.
func addRows(f *pflag.FlagSet, s *crawl.Settings, names ...string) {
	for _, name := range names {
		row := settings.Find(name)
		flag := f.VarPF(row.Value(s), name, row.Shorthand, row.Help)
		if flag.Value.Type() == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
}

// formNames are the flags for the canonical form of URLs. The commands share them, so that two
// URLs are equal for all commands or for none.
var formNames = []string{"strip-param", "keep-param", "sort-query"}

// formOptions returns the canonical form that these flags ask for. Its HostKey is the default.
func formOptions(s *crawl.Settings) canon.Options {
	return canon.Options{StripParams: canon.StripList(s.StripParams), KeepParams: s.KeepParams, SortQuery: s.SortQuery}
}

// fixedNames are the names of the flags that are fixed when a crawl is created,
// including those that only some kinds of crawls have.
var fixedNames = settings.Names(func(row *settings.Row) bool {
	return row.Section != "" && row.Kept <= settings.FixedExact
})
