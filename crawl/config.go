package crawl

import (
	"context"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"

	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/fields"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// Location says where a crawl is stored.
type Location struct {
	// Dir is the directory of the crawl. With Redis, Open uses it for the records of
	// one worker; empty means ./NAME.crawl/HOST-N. For all other functions, Dir is the
	// directory that contains the directories of all workers; empty means ./NAME.crawl.
	Dir   string
	Redis *Redis // nil means that the crawl is stored in Dir
	// Postgres has the records if Settings.Sink is "postgres". For a crawl in Redis, it also has
	// the rows of exact URLs (see Settings.Exact).
	Postgres *Postgres
}

// Redis names a crawl and the Redis servers that store it.
type Redis struct {
	URL      string // redis://[USER:PASSWORD@]HOST[:PORT][,HOST...], rediss:// with TLS, redis+sentinel://HOST[,HOST...]/MASTER, or unix:///PATH
	Name     string // name of the crawl: 1 to 64 letters, digits, dots, underscores and dashes
	Password string // replaces the password in URL; empty means the one in URL
	CAFile   string // PEM file of certificates that rediss:// trusts; empty means the system's
}

// Postgres names a database.
type Postgres struct {
	URL       string // postgres://[USER:PASSWORD@]HOST[:PORT]/DATABASE
	Password  string // replaces the password in URL; empty means the one in URL
	NoMigrate bool   // do not bring the schema up to date
}

// Settings are what can be set about a crawl.
type Settings = settings.Settings

// Host has the settings of the hosts whose key matches a pattern.
type Host = settings.Host

// Config says where a crawl is stored and how this process takes part in it. Only
// Dir or Redis is required.
type Config struct {
	Dir      string    // see Location
	Redis    *Redis    // see Location
	Postgres *Postgres // see Location

	Seeds []string // Run adds them; a seed without a scheme is tried as https
	// SeedsText describes the seeds, for example with the name of their file. A new crawl in
	// Dir stores this text as its setting "seeds". If it is empty, the crawl stores Seeds.
	SeedsText string

	// Settings are those of this run. Begin with DefaultSettings; the zero Settings mean these defaults.
	// A setting counts as set by this run if its value is not the default, or if its name is in Given.
	// A crawl that exists has stored values for the others. See settings.Kept: a value that differs from one that
	// is fixed is refused with a *frontier.SettingsError; the others hold for this run.
	Settings Settings
	// Given has the names of settings that this run sets, although their values are the defaults.
	Given []string
	// Anyway runs the crawl although it lacks values of the first run that are not stored here.
	// Without it, Open returns a *MissingError.
	Anyway bool

	RootCAs *x509.CertPool // certificates that are trusted, instead of the system's and those of Settings.CAFile; nil means these
	Memory  int64          // bytes for all that is made of answers; 0 means 128 MiB
	Cache   int64          // bytes of the embedded frontier's files that are kept in memory; 0 means 32 MiB
	Stream  io.Writer      // gets each record too, at least once; optional

	// OnPage is called for each page (status 2xx of a wanted type) before the page is
	// completed: before its result and its links are stored. Many goroutines call OnPage at
	// once. An error, or a panic, queues the page again: it is fetched again after Settings.Backoff,
	// which doubles each time, at most Settings.Retries times.
	//
	// The context ends at the latest Settings.Grace after a stop. If OnPage still runs 1 s later, Run does
	// not wait for it: the page goes back to the frontier, the next run calls OnPage for it
	// again, and what this call still does has no effect on the crawl.
	//
	// OnPage can be called more than once for a page: after an error, after a crash, if the
	// lease ends during the call, and if OnPage ignored the end of its context. Page.EventID is the same each time, so
	// package events/inbox can apply the effects once.
	OnPage func(ctx context.Context, page *Page) error
	// OnAnswer is called once for each URL that was requested and whose final result is no page: a
	// redirect, an error, a type that is not wanted, a sitemap, no answer. All that is said of OnPage is
	// true of OnAnswer, too. See fetcher.Config.
	OnAnswer func(ctx context.Context, answer *Answer) error
	// OnRefused is called for each link that a rule refused. Many goroutines call it at
	// once. OnRefused is optional.
	OnRefused func(fetcher.Refused)
	// Resume is optional. It is called for the report of a run that ended early, and
	// returns the command that resumes the crawl, and notes about this command.
	Resume func(*Result) (command string, notes []string)
	// Scarce has the same meaning as in fetcher.Config. It is optional.
	Scarce func() fetcher.Resource

	// Gate keeps the delays of hosts that several crawls of this process request: they share it. It knows hosts by their
	// keys, so these crawls must have the same Settings.HostKey. nil means that this crawl runs alone.
	Gate *politeness.Gate

	// Events is optional. If it is set, Run also delivers the events of this process's
	// pages to Events.Sink. Events.Name names the relay that does this; empty means "default".
	// The crawl sets the fields Outbox and Progress of Events.
	//
	// The crawl goes on if the sink is unreachable or the relay fails. At the end of
	// the run, Run delivers the remaining events for at most Settings.Grace. The caller must
	// close the sink, but only after Crawl.Close.
	Events *events.Config

	// WrapTransport returns the RoundTripper that makes the requests of this process, for example to sign, trace or
	// record them. It is optional, and the same as get.Config.Wrap: the address guard, the proxy and all limits hold.
	WrapTransport func(http.RoundTripper) http.RoundTripper

	Logger *slog.Logger // nil writes warnings and errors to stderr
}

// Answer is a final result, as OnAnswer receives it.
type Answer = fetcher.Answer

// FieldGroup is a list of fields for some of the pages.
type FieldGroup = fields.Group

// Location returns the Location that c names.
func (c *Config) Location() Location { return Location{c.Dir, c.Redis, c.Postgres} }

// DefaultSettings returns the settings of a new crawl.
func DefaultSettings() Settings {
	s := settings.Default()
	s.Agent += "/" + Version()
	return s
}
