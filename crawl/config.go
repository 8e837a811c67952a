package crawl

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/fields"
	"github.com/bloomfrontier/crawler/fetcher/get"
)

// Location says where a crawl is stored.
type Location struct {
	// Dir is the directory of the crawl. With Redis, Open uses it for the records of
	// one worker; empty means ./NAME.crawl/HOST-N. For all other functions, Dir is the
	// directory that contains the directories of all workers; empty means ./NAME.crawl.
	Dir   string
	Redis *Redis // nil means that the crawl is stored in Dir
	// Postgres has the records if Fixed.Sink is "postgres". For a crawl in Redis, it also has
	// the rows of exact URLs (see Fixed.Exact).
	Postgres *Postgres
}

// Redis names a crawl and the Redis servers that store it.
type Redis struct {
	URL      string // redis://[USER:PASSWORD@]HOST[:PORT][,HOST...], rediss:// with TLS, or unix:///PATH
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

// Config says where a crawl is stored and how this process takes part in it. Only
// Dir or Redis is required.
//
// Some fields are stored, and are the defaults of later runs: a field that has its zero value, and
// whose name is not in Given, gets the stored value. DefaultNames lists these fields. Those that
// concern this machine or lift one of its guards are stored only in this process's own directory.
type Config struct {
	Dir      string    // see Location
	Redis    *Redis    // see Location
	Postgres *Postgres // see Location

	Seeds []string // Run adds them; a seed without a scheme is tried as https
	// SeedsText describes the seeds, for example with the name of their file. A new crawl in
	// Dir stores this text as its setting "seeds". If it is empty, the crawl stores Seeds.
	SeedsText string
	Fixed     Fixed  // settings that are fixed when the crawl is created
	Hosts     []Host // settings of some hosts, stored like Fixed, but without the headers; nil means the stored ones

	// Agent is the User-Agent header. Its first word, without a version, chooses the rules of robots.txt, and is fixed when
	// a crawl is created. Empty means this word, in a new crawl "crawler", and the version of the program.
	Agent    string
	Contact  string     // URL or address for operators of sites, added to Agent; optional
	Requests get.Config // how requests are made; UserAgent, MaxIdleConns, MaxIdleConnsPerHost and Capture are set by the crawl

	CAFile string // PEM file of certificates that are trusted beside the system's, if Requests.RootCAs is nil
	// Given has the names of settings (DefaultNames) whose zero value means that they are off or
	// empty in this run, and not that the stored value is used.
	Given []string
	// Anyway runs the crawl although it lacks values of the first run that are not stored here.
	// Without it, Open returns a *MissingError.
	Anyway bool

	Concurrency   int           // hosts that get requests at once; 0 means that the crawl finds the best number
	MaxPages      uint64        // end after this number of answers in the whole crawl, in Redis at most the requests under way more; 0 means no limit
	MaxTime       time.Duration // end Run after this time; 0 means no limit
	MaxQueued     uint64        // with Redis, refuse links while this number of URLs is queued; 0 means no limit
	Rate          float64       // requests per second of this process; 0 means no limit
	Bandwidth     int64         // bytes of answers per second that this process receives, on average; 0 means no limit
	CheckExternal bool          // check each link that leads out of the scope once: see fetcher.Config
	MaxExternal   int           // most URLs that are checked in the whole crawl, or NoLimit; 0 means 10,000
	Retries       int           // further attempts after the first one has failed; 0 means 3, NoLimit means none
	Grace         time.Duration // time for requests under way when Run is stopped; 0 means 30 s, NoDelay means none
	Backoff       time.Duration // first back-off of a host in trouble; 0 means politeness.DefaultBackoffBase
	BackoffMax    time.Duration // longest back-off; 0 means politeness.DefaultBackoffMax
	DeadAfter     int           // failures in a row after which a host is given up; 0 means politeness.DefaultDeadAfter, NoLimit means never
	Memory        int64         // bytes for all that is made of answers; 0 means 128 MiB
	Cache         int64         // bytes of the embedded frontier's files that are kept in memory; 0 means 32 MiB

	// Fields are extracted from HTML pages into Record.Fields. docs/reference/fields.md
	// describes them. With Fields or Text, the crawl parses each page into a document.
	Fields []FieldGroup
	Text   bool // extract the main text, its language, author and date into Record.Text and so on

	Records Records // what is written beside the frontier
	Worker  string  // names this worker in Status; empty means HOST-PID-RANDOM
	Wait    int     // with Redis, number of replicas that must have the links of a page before the page is completed

	// OnPage is called for each page (status 2xx of a wanted type) before the page is
	// completed: before its result and its links are stored. Many goroutines call OnPage at
	// once. An error, or a panic, queues the page again.
	//
	// The context ends at the latest Grace after a stop. If OnPage still runs 1 s later, Run does
	// not wait for it: the page goes back to the frontier, the next run calls OnPage for it
	// again, and what this call still does has no effect on the crawl.
	//
	// OnPage can be called more than once for a page: after an error, after a crash, if the
	// lease ends during the call, and if OnPage ignored the end of its context. Page.EventID is the same each time, so
	// package events/inbox can apply the effects once.
	OnPage func(ctx context.Context, page *Page) error
	// OnRefused is called for each link that a rule refused. Many goroutines call it at
	// once. OnRefused is optional.
	OnRefused func(fetcher.Refused)
	// Resume is optional. It is called for the report of a run that ended early, and
	// returns the command that resumes the crawl, and notes about this command.
	Resume func(*Result) (command string, notes []string)
	// Scarce has the same meaning as in fetcher.Config. It is optional.
	Scarce func() fetcher.Resource

	// Events is optional. If it is set, Run also delivers the events of this process's
	// pages to Events.Sink. Events.Name names the relay that does this; empty means "default".
	// The crawl sets the fields Outbox and Progress of Events.
	//
	// The crawl goes on if the sink is unreachable or the relay fails. At the end of
	// the run, Run delivers the remaining events for at most Grace. The caller must
	// close the sink, but only after Crawl.Close.
	Events *events.Config

	Logger *slog.Logger // nil discards all messages
}

// Page is a fetched page, as OnPage receives it.
type Page = fetcher.Page

// FieldGroup is a list of fields for some of the pages.
type FieldGroup = fields.Group

// Location returns the Location that c names.
func (c *Config) Location() Location { return Location{c.Dir, c.Redis, c.Postgres} }

// Records says how records are written, and what else is kept beside the frontier.
type Records struct {
	RotateBytes int64     // start a new pages.jsonl when the file exceeds this size; 0 means 1 GiB
	Compress    bool      // compress closed files with zstd
	Stream      io.Writer // gets each record too, at least once; optional
	Save        string    // answers kept in DIR/warc: "none", "html" or "all"; empty means none
	Links       bool      // keep the links of pages, in DIR/links.jsonl or in Postgres: see Handle.Links
}

// Host has the settings of the hosts whose key matches Pattern. In a pattern, *
// stands for any characters. If several patterns match a key, the first one counts.
type Host struct {
	Pattern     string            `json:"pattern"`
	Delay       time.Duration     `json:"delay,omitempty"`       // 0 means Fixed.Delay
	Concurrency int               `json:"concurrency,omitempty"` // requests at once; 0 means Fixed.HostConcurrency
	Budget      uint64            `json:"budget,omitempty"`      // URLs queued at most; 0 means Fixed.MaxPerHost
	Robots      string            `json:"robots,omitempty"`      // "obey" or "ignore"; empty means Fixed.Robots
	Headers     map[string]string `json:"-"`                     // sent with each request; not fixed and not stored
}
