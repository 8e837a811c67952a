package crawl

import (
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

// Values of fields whose zero value means "as stored".
const (
	NoLimit                 = -1 // for a Fixed field that limits a number
	SeedsOnly               = -2 // Fixed.MaxDepth: no link is followed
	ThisYear                = -2 // Fixed.MaxYearsAhead: dates after this year are refused
	NoDelay   time.Duration = -1 // Fixed.Delay and Fixed.MaxCrawlDelay
)

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
// value. In a new crawl it means the default, which is the last part of the field's
// comment. A value that differs from the stored one is refused with a
// *frontier.SettingsError.
type Fixed struct {
	Scope             string   // follow links within the seeds' "host", "subdomains", "domain", or "any"; host
	Include           []string // follow only URLs that match one of these regular expressions; none
	Exclude           []string // follow no URL that matches one; wins over Include; none
	MaxDepth          int      // links away from a seed, NoLimit or SeedsOnly; NoLimit
	MaxPerHost        int      // URLs queued of one host key, or NoLimit; NoLimit
	MaxHostsPerDomain int      // hosts of one registrable domain, or NoLimit; 10,000
	MaxURLBytes       int      // longer URLs are refused, or NoLimit; trap.DefaultMaxURL
	MaxPathRepeats    int      // occurrences of one path segment, or NoLimit; trap.DefaultMaxRepeats
	MaxParams         int      // query parameters, or NoLimit; trap.DefaultMaxParams
	MaxYearsAhead     int      // how many years ahead a date in a URL can be, NoLimit or ThisYear; trap.DefaultMaxAhead
	AllowPorts        []string // ports that are requested although they belong to other services; none
	Sitemaps          Switch   // crawl sitemaps and the URLs in them; off
	Assets            Switch   // crawl the images, scripts and so on that pages embed; off

	HostKey         string        // URLs of one "host" or of one "domain" share a delay; host
	Delay           time.Duration // between two requests to one host key, or NoDelay; 1 s
	MaxCrawlDelay   time.Duration // longest Crawl-delay to obey, or NoDelay; politeness.DefaultMaxCrawlDelay
	LatencyFactor   float64       // least delay as a multiple of the host's latency, -1 for none; politeness.DefaultLatencyFactor
	HostConcurrency int           // requests to one host at once; 1
	Robots          string        // "obey" or "ignore"; obey

	FilterCapacity uint64   // URLs that the filter is sized for; 10,000,000
	FPR            float64  // probability that a new URL is taken for a known one; 1e-6
	Growth         Switch   // add layers beyond FilterCapacity, so that FPR holds; on
	StripParams    []string // query parameters removed, in addition to the default list; "-" removes none
	KeepParams     []string // query parameters kept; none
	SortQuery      Switch   // the order of query parameters does not matter; off

	Exact      []string // rules that choose the exact URLs, see docs/guide/exact-urls.md; seeds
	Windows    []string // CLASS=TIME: finished exact URLs of this class are new again after TIME; fixed only with Redis and Postgres; none
	Sink       string   // where records are: "jsonl" or "postgres"; jsonl
	CDC        Switch   // write records as events for change data capture; needs Sink "postgres"; off
	Partitions int      // parts that the hosts of a crawl in Redis are spread over; 256
}

// setting is one field of Fixed in its stored form, which is a name and a text. The
// names are those of the command's flags.
type setting struct {
	name  string
	text  func(*Fixed) string // empty means that the field is unset
	parse func(*Fixed, string) error
	def   string
}

// settings are the settings that every crawl stores. docs/reference lists them.
var settings = []setting{
	name("scope", "host", func(f *Fixed) *string { return &f.Scope }, "host", "subdomains", "domain", "any"),
	list("include", "[]", func(f *Fixed) *[]string { return &f.Include }),
	list("exclude", "[]", func(f *Fixed) *[]string { return &f.Exclude }),
	number("max-depth", "-1", func(f *Fixed) *int { return &f.MaxDepth }, strconv.Itoa, "-1", "0"),
	number("max-per-host", "0", func(f *Fixed) *int { return &f.MaxPerHost }, countText, "0", ""),
	name("host-key", "host", func(f *Fixed) *string { return &f.HostKey }, "host", "domain"),
	duration("delay", politeness.DefaultDelay.String(), func(f *Fixed) *time.Duration { return &f.Delay }),
	duration("max-crawl-delay", politeness.DefaultMaxCrawlDelay.String(), func(f *Fixed) *time.Duration { return &f.MaxCrawlDelay }),
	{"latency-factor", factorText, parseFactor, strconv.FormatFloat(politeness.DefaultLatencyFactor, 'g', -1, 64)},
	number("host-concurrency", "1", func(f *Fixed) *int { return &f.HostConcurrency }, strconv.Itoa, "", ""),
	name("robots", "obey", func(f *Fixed) *string { return &f.Robots }, "obey", "ignore"),
	{"urls", urlsText, parseURLs, "10M"},
	{"fpr", fprText, parseFPR, "1e-06"},
	toggle("growth", "on", func(f *Fixed) *Switch { return &f.Growth }, "on", "off"),
	list("exact", `["seeds"]`, func(f *Fixed) *[]string { return &f.Exact }),
	name("sink", "jsonl", func(f *Fixed) *string { return &f.Sink }, "jsonl", sinkPostgres),
	toggle("cdc", "false", func(f *Fixed) *Switch { return &f.CDC }, "true", "false"),
	list("strip-param", "[]", func(f *Fixed) *[]string { return &f.StripParams }),
	list("keep-param", "[]", func(f *Fixed) *[]string { return &f.KeepParams }),
	toggle("sort-query", "false", func(f *Fixed) *Switch { return &f.SortQuery }, "true", "false"),
	toggle("sitemaps", "false", func(f *Fixed) *Switch { return &f.Sitemaps }, "true", "false"),
	toggle("assets", "false", func(f *Fixed) *Switch { return &f.Assets }, "true", "false"),
	number("max-hosts-per-domain", "10k", func(f *Fixed) *int { return &f.MaxHostsPerDomain }, countText, "0", ""),
	number("max-url-bytes", strconv.Itoa(trap.DefaultMaxURL), func(f *Fixed) *int { return &f.MaxURLBytes }, strconv.Itoa, "0", ""),
	number("max-path-repeats", strconv.Itoa(trap.DefaultMaxRepeats), func(f *Fixed) *int { return &f.MaxPathRepeats }, strconv.Itoa, "0", ""),
	number("max-params", strconv.Itoa(trap.DefaultMaxParams), func(f *Fixed) *int { return &f.MaxParams }, strconv.Itoa, "0", ""),
	number("max-years-ahead", strconv.Itoa(trap.DefaultMaxAhead), func(f *Fixed) *int { return &f.MaxYearsAhead }, strconv.Itoa, "-1", "0"),
	list("allow-port", "[]", func(f *Fixed) *[]string { return &f.AllowPorts }),
}

// A crawl in Redis also stores sharedSettings. If its exact keys are in Postgres, it
// also stores exactSettings.
var (
	sharedSettings = []setting{number("partitions", "256", func(f *Fixed) *int { return &f.Partitions }, strconv.Itoa, "", "")}
	exactSettings  = []setting{list("window", "[]", func(f *Fixed) *[]string { return &f.Windows })}
	allSettings    = slices.Concat(settings, sharedSettings, exactSettings)
)

// Names of stored settings that are not fields of Fixed.
const (
	hostsSetting = "hosts"
	formSetting  = "canonical-form"
	exactSetting = "exact-set" // "postgres" if the exact keys of a crawl in Redis are in Postgres
	seedsSetting = "seeds"     // a description of the seeds, from the time when the crawl was created
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
	names := func(of []setting) (names []string) {
		for _, s := range of {
			names = append(names, s.name)
		}
		return names
	}
	return names(settings), names(sharedSettings), names(exactSettings)
}

// Text returns the stored form of the setting with this name, or "" if it is unset. A
// list is stored as JSON. Text panics if there is no such setting.
func (f *Fixed) Text(name string) string { return find(name).text(f) }

// Set parses text and sets the field with this name. It accepts what Text returns for a
// field that is set, and other spellings of the same value, such as 1e6 for 1M. Set
// panics if there is no such setting.
func (f *Fixed) Set(name, text string) error { return find(name).parse(f, text) }

func find(name string) setting {
	return allSettings[slices.IndexFunc(allSettings, func(s setting) bool { return s.name == name })]
}

// adopt sets each unset field to the stored value, or to its default if none is stored.
// It does not change a field that is set. The store later refuses a value that differs
// from the stored one. The error names every faulty value.
func (f *Fixed) adopt(stored frontier.Settings) error {
	var errs []error
	for _, s := range allSettings {
		text, into, where := s.text(f), new(Fixed), "crawl: Fixed: " // a value that is set is only checked
		if text == "" {
			into, where = f, ""
			var found bool
			if text, found = stored[s.name]; !found {
				text = s.def
			}
		}
		if err := s.parse(into, text); err != nil {
			errs = append(errs, fmt.Errorf("%s%s is %q, %w", where, s.name, text, err))
		}
	}
	return errors.Join(errs...)
}

// texts returns the stored forms of the given settings. The caller must have called
// f.adopt before. A setting that an existing crawl does not store is left out if f has
// the default.
func (f *Fixed) texts(of []setting, stored frontier.Settings) frontier.Settings {
	texts := make(frontier.Settings)
	for _, s := range of {
		text := s.text(f)
		if _, found := stored[s.name]; stored == nil || found || text != s.def {
			texts[s.name] = text
		}
	}
	return texts
}

func name(key, def string, field func(*Fixed) *string, values ...string) setting {
	return setting{key, func(f *Fixed) string { return *field(f) }, func(f *Fixed, text string) error {
		if !slices.Contains(values, text) {
			return fmt.Errorf("want one of %q", values)
		}
		*field(f) = text
		return nil
	}, def}
}

func list(key, def string, field func(*Fixed) *[]string) setting {
	text := func(f *Fixed) string {
		if *field(f) == nil {
			return ""
		}
		text, _ := json.Marshal(*field(f)) // this cannot fail for strings
		return string(text)
	}
	return setting{key, text, func(f *Fixed, text string) error {
		return json.Unmarshal([]byte(text), field(f))
	}, def}
}

func toggle(key, def string, field func(*Fixed) *Switch, on, off string) setting {
	return setting{key, func(f *Fixed) string { return map[Switch]string{On: on, Off: off}[*field(f)] },
		func(f *Fixed, text string) error {
			switch text {
			case on, "true": // some YAML programs turn "on" into "true"
				*field(f) = On
			case off, "false":
				*field(f) = Off
			default:
				return fmt.Errorf("want %s or %s", on, off)
			}
			return nil
		}, def}
}

func duration(key, def string, field func(*Fixed) *time.Duration) setting {
	text := func(f *Fixed) string {
		switch d := *field(f); {
		case d == 0:
			return ""
		case d == NoDelay:
			return "0s"
		default:
			return d.String()
		}
	}
	return setting{key, text, func(f *Fixed, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return errors.New("want a duration, or NoDelay")
		}
		if *field(f) = d; d == 0 {
			*field(f) = NoDelay
		}
		return nil
	}, def}
}

// number returns a setting that is a whole number. The argument noLimit is the text of
// NoLimit, and the argument lowest is the text of SeedsOnly or ThisYear. An empty text
// means that the setting does not have that value.
func number(key, def string, field func(*Fixed) *int, words func(int) string, noLimit, lowest string) setting {
	text := func(f *Fixed) string {
		switch n := *field(f); {
		case n == 0:
			return ""
		case n == NoLimit && noLimit != "":
			return noLimit
		case n == SeedsOnly && lowest != "":
			return lowest
		default:
			return words(n)
		}
	}
	return setting{key, text, func(f *Fixed, text string) error {
		switch {
		case text == "":
		case text == noLimit:
			*field(f) = NoLimit
			return nil
		case text == lowest:
			*field(f) = SeedsOnly
			return nil
		}
		n, err := human.ParseNumber(text)
		if err != nil || n < 1 || n != float64(int(n)) {
			return errors.New("want a whole number from 1 on, or NoLimit where there may be none")
		}
		*field(f) = int(n)
		return nil
	}, def}
}

func countText(n int) string {
	c := human.Count(max(n, 0))
	if n < 0 {
		return strconv.Itoa(n)
	}
	return c.String()
}

func factorText(f *Fixed) string {
	switch {
	case f.LatencyFactor == 0:
		return ""
	case f.LatencyFactor == -1:
		return "0"
	}
	return strconv.FormatFloat(f.LatencyFactor, 'g', -1, 64)
}

func parseFactor(f *Fixed, text string) error {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0) {
		return errors.New("want a number from 0 on, or -1 for none")
	}
	if f.LatencyFactor = x; x == 0 {
		f.LatencyFactor = -1
	}
	return nil
}

func urlsText(f *Fixed) string {
	c := human.Count(f.FilterCapacity)
	return c.String()
}

func parseURLs(f *Fixed, text string) error {
	return (*human.Count)(&f.FilterCapacity).Set(text)
}

func fprText(f *Fixed) string {
	r := human.Rate(f.FPR)
	if f.FPR == 0 {
		return ""
	}
	return r.String()
}

func parseFPR(f *Fixed, text string) error { return (*human.Rate)(&f.FPR).Set(text) }
