// Package settings is the one table of what can be set about a crawl. It has one row for
// each setting: its name, section, help, default and valid values, who may change it, and
// where it is kept. The command line, the config file, the environment, the stored
// settings and the page of flags read this table, so a setting is described once.
//
// Settings has the values. They are plain: 0 is 0, and there are two special values, NoLimit
// and Auto. Package settings parses and prints them. What they mean for a crawl, and how those of
// several runs are combined with the stored ones, is in package crawl.
package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/fields"
)

// Special values.
const (
	NoLimit = -1 // of MaxDepth and MaxYearsAhead, whose 0 is a limit
	Auto    = -1 // of MaxPerHost: MaxPerLinkedHost, and no limit for hosts of seeds
)

// MaxPerLinkedHost is the number of URLs to which Auto limits a host that no seed has, and to
// which no seed redirects.
const MaxPerLinkedHost = 100_000

// Settings are the values of all settings. Default returns those of a new crawl. The rows
// describe the fields. Where the comment of a number names no other meaning, 0 means no limit.
type Settings struct {
	// Which URLs are crawled.
	Scope             string // "host", "subdomains", "domain" or "any"
	Include           []string
	Exclude           []string
	MaxDepth          int    // 0 means only seeds; NoLimit
	MaxPages          uint64 // answers in the whole crawl
	MaxPerHost        int    // URLs; or Auto
	Sitemaps          bool   //
	Feeds             bool   //
	Assets            bool   //
	SkipDuplicates    bool   //
	MaxHostsPerDomain int
	MaxURLBytes       int
	MaxPathRepeats    int
	MaxParams         int
	MaxYearsAhead     int // 0 means this year; NoLimit
	AllowSeries       []string
	CheckExternal     bool
	MaxExternal       int
	MaxTime           time.Duration
	Recrawl           string // "off", a time such as "7d", or a share such as "80%": see revisit.ParseAim
	RecrawlEvery      string // the shortest and the longest time between two visits, as in "1h..90d"
	PurgeGone         string // time after which a page that is gone is forgotten; "0s" means never

	// How polite the crawl is.
	Preferences     string        // "page", "full" or "none"
	ContentUse      []string      // "search", "train-ai" and "ai-use"
	Delay           time.Duration // 0 means none
	MaxCrawlDelay   time.Duration // 0 means that Crawl-delay is not obeyed
	LatencyFactor   float64       // 0 means that the latency does not matter
	HostConcurrency int
	HostKey         string  // "host" or "domain"
	DomainRate      float64 // requests per second to all hosts of a domain
	Robots          string  // "obey" or "ignore"
	Concurrency     int     // 0 means that the crawl finds the best number
	Rate            float64 // requests per second
	Bandwidth       int64   // bytes per second
	Backoff         time.Duration
	BackoffMax      time.Duration
	DeadAfter       int // 0 means never
	Hosts           []Host
	Drop            []string // URLs that are dropped, as policy.ParseTarget takes them
	Block           []string // URLs that are blocked, as policy.ParseBlock takes them
	Pause           []string // URLs that wait, as Drop, with only hosts and regular expressions

	// How requests are made.
	Timeout        time.Duration
	Retries        int // 0 means none
	MaxBody        int64
	Types          []string
	Headers        http.Header
	Agent          string
	Contact        string
	ConnectTo      []string // PATTERN=ADDR[:PORT], as get.ParseConnectTo takes it
	AllowPrivate   bool
	HeaderTimeout  time.Duration
	MinRate        int64 // bytes per second
	Proxy          string
	Bind           []netip.Addr  // local addresses of connections; nil means that the system chooses
	Sign           string        // file of the keys that sign requests; empty means none
	SignatureAgent string        // https URL of the public keys
	SignReuse      time.Duration // how long a signature is used for an origin; 0 means for one request
	Cookies        string        // file of cookies that are sent
	CookieJar      bool          // keep cookies of answers
	CookieJarFile  string        // of the kept cookies, between runs
	CookieDomains  []string      // patterns of hosts whose attribute Domain counts
	SaveCookies    bool          // keep values of Set-Cookie in archives
	Logins         string        // file of passwords and tokens
	LoggedOut      string        // regular expression; empty means none
	ProxyHTTP      string        // "tunnel" or "absolute": how Proxy gets http requests, if it is set
	DNS            string
	AllowNet       []netip.Prefix
	AllowPorts     []uint16
	CAFile         string
	InsecureHosts  []string

	// What is kept.
	RotateBytes int64
	Compress    bool
	Links       bool
	Save        string // "none", "html" or "all"
	Fields      []fields.Group
	Text        bool
	Sink        string // "jsonl" or "postgres"
	CDC         bool

	// The filter, the canonical form and exact URLs.
	Capacity    uint64 // URLs that the filter is sized for
	FPR         float64
	Growth      bool
	StripParams []string
	KeepParams  []string
	SortQuery   bool
	Exact       []string // rules: see docs/guide/exact-urls.md
	Windows     []string // CLASS=TIME

	// A crawl that workers share.
	Partitions int
	MaxQueued  uint64
	RedisWait  int    // replicas; 0 means none
	Worker     string // empty means HOST-PID-RANDOM

	Grace time.Duration // 0 means none
}

// Host has the settings of the hosts whose key matches Pattern. In a pattern, *
// stands for any characters. If several patterns match a key, the first one counts.
type Host struct {
	Pattern     string            `json:"pattern"`
	Delay       time.Duration     `json:"delay,omitempty"`       // 0 means Settings.Delay
	Concurrency int               `json:"concurrency,omitempty"` // requests at once; 0 means Settings.HostConcurrency
	DomainRate  *float64          `json:"domain_rate,omitempty"` // nil means Settings.DomainRate; 0 means no limit
	Budget      uint64            `json:"budget,omitempty"`      // URLs queued at most; 0 means Settings.MaxPerHost
	Robots      string            `json:"robots,omitempty"`      // "obey" or "ignore"; empty means Settings.Robots
	Recrawl     string            `json:"recrawl,omitempty"`     // as Settings.Recrawl; empty means that, too
	Weight      float64           `json:"weight,omitempty"`      // of pages beside those of other hosts; 0 means 1
	Headers     map[string]string `json:"-"`                     // sent with each request; not stored
}

// Default returns the settings of a new crawl. The slices and maps in it are the caller's.
func Default() (s Settings) {
	for _, row := range rows {
		_ = row.Value(&s).Adopt(row.Default) // TestDefault: the defaults can be parsed
	}
	return s
}

// Rows returns the rows of the table, in the order of the help text. The caller must not change them.
func Rows() []*Row { return rows }

// Names returns the names of the rows for which a function returns true.
func Names(of func(*Row) bool) (names []string) {
	for _, row := range rows {
		if of(row) {
			names = append(names, row.Name)
		}
	}
	return names
}

// Find returns the row with a name, or nil.
func Find(name string) *Row {
	at := slices.IndexFunc(rows, func(row *Row) bool { return row.Name == name })
	if at < 0 {
		return nil
	}
	return rows[at]
}

// Error reports a setting whose value is not valid.
type Error struct {
	Name string // of the row
	Err  error
}

// Error implements error.
func (e *Error) Error() string { return "setting " + e.Name + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Check returns an *Error for each setting whose value is not valid.
func (s *Settings) Check() (errs []error) {
	if s.Capacity == 0 && s.Timeout == 0 && s.Scope == "" {
		return []error{errIncomplete}
	}
	scratch := new(Settings)
	for _, row := range rows {
		text := row.Value(s).Stored()
		if err := row.Value(scratch).Adopt(text); err != nil {
			errs = append(errs, &Error{row.Name, fmt.Errorf("it is %s, %w", quoted(text), err)})
		}
	}
	return errs
}

var errIncomplete = errors.New("the settings are not complete: begin with the default ones")

// quoted returns a text in quotes. A JSON text has them where it needs them.
func quoted(text string) string {
	if json.Valid([]byte(text)) {
		return text
	}
	return fmt.Sprintf("%q", text)
}
