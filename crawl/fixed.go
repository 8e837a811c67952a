package crawl

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/trap"
)

// Special values of the fields of Fixed. The zero value of a field means the stored value.
const (
	NoLimit                   = -1 // for a Fixed field that limits a number
	SeedsOnly                 = -2 // Fixed.MaxDepth: no link is followed
	LinkedHosts               = -2 // Fixed.MaxPerHost: MaxPerLinkedHost for hosts that no seed has, no limit for the others
	ThisYear                  = -2 // Fixed.MaxYearsAhead: dates after this year are refused
	NoDelay     time.Duration = -1 // Fixed.Delay and Fixed.MaxCrawlDelay
)

// MaxPerLinkedHost is the number of URLs to which Fixed.MaxPerHost limits a host by default. The hosts
// of seeds, and those to which seeds redirect, have no limit by default.
const MaxPerLinkedHost = 100_000

// Switch is a setting that is on or off. Its zero value is unset.
type Switch int8

// Values of Switch.
const (
	Unset Switch = iota
	On
	Off
)

// Fixed has the settings that are fixed when a crawl is created: which URLs it
// fetches, how polite it is, and sizes. The zero value of a field means the stored
// value. In a new crawl it means the default, which is at the end of the field's comment.
// A value that differs from the stored one is refused with a *frontier.SettingsError.
type Fixed struct {
	// Scope says which links are followed: those to the "host" of a seed, to such a host and
	// its "subdomains", to the registrable "domain" of a seed, or to "any" host. Default: "host".
	Scope             string
	Include           []string // follow only URLs that match one of these regular expressions. Default: none
	Exclude           []string // follow no URL that matches one of these, even if Include matches it. Default: none
	MaxDepth          int      // links away from a seed, NoLimit or SeedsOnly. Default: NoLimit
	MaxPerHost        int      // most URLs of one host key that are queued in the whole crawl, NoLimit or LinkedHosts. Default: LinkedHosts
	MaxHostsPerDomain int      // most hosts of one registrable domain, or NoLimit. Default: 10,000
	MaxURLBytes       int      // length of the longest allowed URL, or NoLimit. Default: trap.DefaultMaxURL
	MaxPathRepeats    int      // most occurrences of one path segment in a URL, or NoLimit. Default: trap.DefaultMaxRepeats
	MaxParams         int      // most query parameters of a URL, or NoLimit. Default: trap.DefaultMaxParams
	MaxYearsAhead     int      // how many years ahead a date in a URL can be, NoLimit or ThisYear. Default: trap.DefaultMaxAhead
	Sitemaps          Switch   // crawl sitemaps and the URLs in them. Default: Off
	Feeds             Switch   // crawl the feeds to which pages link, and the links of their items. Default: Off
	Assets            Switch   // crawl the images, scripts and so on that pages embed. Default: Off

	HostKey         string        // URLs of one "host" or of one "domain" share a delay. Default: "host"
	Delay           time.Duration // time between two requests to one host key, or NoDelay. Default: 1 s
	MaxCrawlDelay   time.Duration // longest Crawl-delay to obey, or NoDelay. Default: politeness.DefaultMaxCrawlDelay
	LatencyFactor   float64       // least delay as a multiple of the host's latency; -1 means none. Default: politeness.DefaultLatencyFactor
	HostConcurrency int           // requests to one host at once. Default: 1
	Robots          string        // "obey" or "ignore". Default: "obey"

	FilterCapacity uint64   // URLs that the filter is sized for. Default: 10,000,000
	FPR            float64  // probability that a new URL is taken for a known one. Default: 1e-6
	Growth         Switch   // add layers beyond FilterCapacity, so that FPR holds. Default: On
	StripParams    []string // query parameters to remove, in addition to a built-in list; "-" turns that list off. Default: none
	KeepParams     []string // query parameters to keep, even if they are listed for removal. Default: none
	SortQuery      Switch   // the order of query parameters does not matter. Default: Off

	Exact []string // rules that choose the exact URLs, see docs/guide/exact-urls.md. Default: "seeds"
	// Windows has texts of the form CLASS=TIME: finished exact URLs of this class are new again
	// after TIME. Only a crawl in Redis with Postgres fixes Windows. A crawl in Dir stores them as
	// the default of later runs, and each run can have other ones. Default: none.
	Windows    []string
	Sink       string // where records are: "jsonl" or "postgres". Default: "jsonl"
	CDC        Switch // write records as events for change data capture; needs Sink "postgres". Default: Off
	Partitions int    // parts that the hosts of a crawl in Redis are spread over. Default: 256
}

// setting is a field of Fixed, with the name under which it is stored. The names are
// those of the command's flags.
type setting struct {
	name  string
	def   string // the default, in its stored form
	value interface {
		String() string // the stored form of the field; empty means that the field is unset
		Set(text string) error
	}
}

// settings returns the fields of f. Every crawl stores the settings in the list common;
// docs/reference lists them. A crawl in Redis also stores the list redis. If its exact
// keys are in Postgres, it also stores the list postgres.
func (f *Fixed) settings() (common, redis, postgres []setting) {
	common = []setting{
		{"scope", "host", choice{&f.Scope, []string{"host", "subdomains", "domain", "any"}}},
		{"include", "[]", (*list)(&f.Include)},
		{"exclude", "[]", (*list)(&f.Exclude)},
		{"max-depth", "-1", number{field: &f.MaxDepth, noLimit: "-1", lowest: "0"}},
		{"max-per-host", "auto", number{field: &f.MaxPerHost, noLimit: "0", lowest: "auto", short: true}},
		{"host-key", "host", choice{&f.HostKey, []string{"host", "domain"}}},
		{"delay", politeness.DefaultDelay.String(), (*delay)(&f.Delay)},
		{"max-crawl-delay", politeness.DefaultMaxCrawlDelay.String(), (*delay)(&f.MaxCrawlDelay)},
		{"latency-factor", strconv.FormatFloat(politeness.DefaultLatencyFactor, 'g', -1, 64), (*factor)(&f.LatencyFactor)},
		{"host-concurrency", "1", number{field: &f.HostConcurrency}},
		{"robots", "obey", choice{&f.Robots, []string{"obey", "ignore"}}},
		{"urls", "10M", (*human.Count)(&f.FilterCapacity)},
		{"fpr", "1e-06", (*human.Rate)(&f.FPR)},
		{"growth", "on", toggle{&f.Growth, "on", "off"}},
		{"exact", `["seeds"]`, (*list)(&f.Exact)},
		{"sink", "jsonl", choice{&f.Sink, []string{"jsonl", sinkPostgres}}},
		{"cdc", "false", toggle{&f.CDC, "true", "false"}},
		{"strip-param", "[]", (*list)(&f.StripParams)},
		{"keep-param", "[]", (*list)(&f.KeepParams)},
		{"sort-query", "false", toggle{&f.SortQuery, "true", "false"}},
		{"sitemaps", "false", toggle{&f.Sitemaps, "true", "false"}},
		{"feeds", "false", toggle{&f.Feeds, "true", "false"}},
		{"assets", "false", toggle{&f.Assets, "true", "false"}},
		{"max-hosts-per-domain", "10k", number{field: &f.MaxHostsPerDomain, noLimit: "0", short: true}},
		{"max-url-bytes", strconv.Itoa(trap.DefaultMaxURL), number{field: &f.MaxURLBytes, noLimit: "0"}},
		{"max-path-repeats", strconv.Itoa(trap.DefaultMaxRepeats), number{field: &f.MaxPathRepeats, noLimit: "0"}},
		{"max-params", strconv.Itoa(trap.DefaultMaxParams), number{field: &f.MaxParams, noLimit: "0"}},
		{"max-years-ahead", strconv.Itoa(trap.DefaultMaxAhead), number{field: &f.MaxYearsAhead, noLimit: "-1", lowest: "0"}},
	}
	redis = []setting{{"partitions", "256", number{field: &f.Partitions}}}
	postgres = []setting{{"window", "[]", (*list)(&f.Windows)}}
	return common, redis, postgres
}

// Names of stored settings that are not fields of Fixed.
const (
	hostsSetting = "hosts"
	formSetting  = "canonical-form"
	tokenSetting = "product-token" // the first word of the user agent, without its version
	exactSetting = "exact-set"     // "postgres" if the exact keys of a crawl in Redis are in Postgres
	seedsSetting = "seeds"         // a description of the seeds, from the time when the crawl was created
)

const sinkPostgres = "postgres"

// DefaultFixed returns the settings of a new crawl.
func DefaultFixed() Fixed {
	var f Fixed
	_ = f.adopt(nil) // the defaults can be parsed
	return f
}

// SettingNames returns the names under which the fields of Fixed are stored. The list
// common has the names for all crawls. The list redis has further names for a crawl in
// Redis. The list postgres has further names for a crawl in Redis whose exact keys are in
// Postgres.
func SettingNames() (common, redis, postgres []string) {
	ofAll, ofRedis, ofPostgres := new(Fixed).settings()
	return settingNames(ofAll), settingNames(ofRedis), settingNames(ofPostgres)
}

func settingNames(of []setting) (names []string) {
	for _, s := range of {
		names = append(names, s.name)
	}
	return names
}

// Text returns the stored form of the setting with this name, or "" if it is unset. A
// list is stored as JSON. Text panics if there is no such setting.
func (f *Fixed) Text(name string) string { return f.find(name).value.String() }

// Set parses text and sets the field with this name. It accepts what Text returns for a
// field that is set, and other spellings of the same value, such as 1e6 for 1M. Set
// panics if there is no such setting.
func (f *Fixed) Set(name, text string) error { return f.find(name).value.Set(text) }

func (f *Fixed) find(name string) setting {
	all := f.allSettings()
	return all[slices.IndexFunc(all, func(s setting) bool { return s.name == name })]
}

func (f *Fixed) allSettings() []setting { return slices.Concat(f.settings()) }

// adopt sets each unset field to the stored value, or to its default if none is stored.
// It does not change a field that is set. If such a field differs from the stored value,
// adopt returns no error, and the store refuses the value later. The error of adopt names
// every value that is not valid.
func (f *Fixed) adopt(stored frontier.Settings) error {
	var errs []error
	checked := new(Fixed).allSettings()
	for i, s := range f.allSettings() {
		text, where := s.value.String(), ""
		if text != "" {
			s, where = checked[i], "crawl: Fixed: " // a value that is set is only checked
		} else if old, found := stored[s.name]; found {
			text = old
		} else {
			text = s.def
		}
		if err := s.value.Set(text); err != nil {
			errs = append(errs, fmt.Errorf("%s%s is %q, %w", where, s.name, text, err))
		}
	}
	return errors.Join(errs...)
}

// texts returns the stored forms of the given settings. The caller must have called
// Fixed.adopt before. A setting that an existing crawl does not store is left out if it
// has the default.
func texts(of []setting, stored frontier.Settings) frontier.Settings {
	texts := make(frontier.Settings)
	for _, s := range of {
		text := s.value.String()
		if _, found := stored[s.name]; stored == nil || found || text != s.def {
			texts[s.name] = text
		}
	}
	return texts
}

// choice is a text that is one of some values.
type choice struct {
	field  *string
	values []string
}

func (c choice) String() string { return *c.field }

func (c choice) Set(text string) error {
	if !slices.Contains(c.values, text) {
		return fmt.Errorf("want one of %q", c.values)
	}
	*c.field = text
	return nil
}

// list is a list of texts, stored as JSON.
type list []string

func (l *list) String() string {
	if *l == nil {
		return ""
	}
	text, _ := json.Marshal(*l) // this cannot fail for strings
	return string(text)
}

func (l *list) Set(text string) error { return json.Unmarshal([]byte(text), l) }

// toggle is a Switch with the texts of On and Off.
type toggle struct {
	field   *Switch
	on, off string
}

func (t toggle) String() string { return map[Switch]string{On: t.on, Off: t.off}[*t.field] }

func (t toggle) Set(text string) error {
	switch text {
	case t.on, "true": // some YAML programs turn "on" into "true"
		*t.field = On
	case t.off, "false":
		*t.field = Off
	default:
		return fmt.Errorf("want %s or %s", t.on, t.off)
	}
	return nil
}

// delay is a duration, or NoDelay, which is stored as 0s.
type delay time.Duration

func (d *delay) String() string {
	switch t := time.Duration(*d); t {
	case 0:
		return ""
	case NoDelay:
		return "0s"
	default:
		return t.String()
	}
}

func (d *delay) Set(text string) error {
	t, err := time.ParseDuration(text)
	if err != nil || t < 0 {
		return errors.New("want a duration, or NoDelay")
	}
	*d = delay(cmp.Or(t, NoDelay))
	return nil
}

// factor is a number, or -1, which is stored as 0.
type factor float64

func (x *factor) String() string {
	switch *x {
	case 0:
		return ""
	case -1:
		return "0"
	}
	return strconv.FormatFloat(float64(*x), 'g', -1, 64)
}

func (x *factor) Set(text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0) {
		return errors.New("want a number from 0 on, or -1 for none")
	}
	*x = factor(cmp.Or(n, -1))
	return nil
}

// number is a whole number.
type number struct {
	field   *int
	noLimit string // the text of NoLimit; empty means that the field cannot be NoLimit
	lowest  string // the text of SeedsOnly, LinkedHosts or ThisYear; empty means that the field can be none of them
	short   bool   // 10000 is stored as 10k
}

func (n number) String() string {
	switch v := *n.field; {
	case v == 0:
		return ""
	case v == NoLimit && n.noLimit != "":
		return n.noLimit
	case v == SeedsOnly && n.lowest != "":
		return n.lowest
	case v > 0 && n.short:
		c := human.Count(v)
		return c.String()
	default:
		return strconv.Itoa(v)
	}
}

func (n number) Set(text string) error {
	v, err := human.ParseNumber(text)
	switch {
	case text != "" && text == n.noLimit:
		v = NoLimit
	case text != "" && text == n.lowest:
		v = SeedsOnly
	case err != nil || v < 1 || v != float64(int(v)):
		return errors.New("want a whole number from 1 on, or NoLimit where there may be none")
	}
	*n.field = int(v)
	return nil
}
