package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/bloomfrontier/crawler/fetcher/botauth"
	"github.com/bloomfrontier/crawler/fetcher/fields"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/frontier/revisit"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/name"
	"github.com/bloomfrontier/crawler/internal/seed"
	"github.com/bloomfrontier/crawler/internal/trap"
)

// Titles of the sections.
const (
	Output     = "Seeds and output"
	Data       = "Data of pages"
	Scope      = "Scope"
	Politeness = "Politeness"
	Requests   = "Requests"
	Filter     = "Filter and canonical form"
	Exact      = "URLs that must not be dropped"
	Shared     = "A crawl that workers share"
	ThisRun    = "This run"
)

// Limits of values.
const (
	mostInURL          = 1 << 20
	MaxHostConcurrency = 1024 // the largest HostConcurrency
	maxURLs            = 1e12
	leastFPR           = 1e-12
	maxPartitions      = 16384 // slots of a Redis cluster
	maxConcurrency     = 100_000
	forever            = time.Duration(math.MaxInt64)
)

const (
	wholeNumber = "a whole number of 0 or more"
	inURL       = "a whole number from 0 to 1048576"
)

// HeaderName is the name of the row whose stored form has only a part of its values: not those that may
// be secret.
const HeaderName = "header"

var rows = []*Row{
	{"rotate", "", Output, "1GiB", Run, Later, "begin another pages.jsonl beyond this size",
		func(s *Settings) Value { return size(&s.RotateBytes, false) }},
	{"compress", "", Output, "false", Run, Later, "compress closed record files with zstd",
		func(s *Settings) Value { return yes(&s.Compress) }},
	{"links", "", Output, "false", Run, Later, "keep the links of pages, in DIR/links.jsonl or in Postgres, for crawler links",
		func(s *Settings) Value { return yes(&s.Links) }},

	{"field", "", Data, "[]", Run, Later, "take `NAME=SELECTOR` from each page into its record, as in price='.price | number' (repeatable; docs/reference/fields.md)",
		func(s *Settings) Value { return newFieldGroups(&s.Fields) }},
	{"text", "", Data, "false", Run, Later, "take the main text of each page, its language, author and date",
		func(s *Settings) Value { return yes(&s.Text) }},

	{"scope", "", Scope, "host", Created, Fixed, "`MODE`: follow links within the seeds' host, subdomains, domain, or any",
		func(s *Settings) Value { return oneOf(&s.Scope, "host", "subdomains", "domain", "any") }},
	{"include", "", Scope, "[]", Live, Fixed, "follow only URLs that match `RE` (repeatable)",
		func(s *Settings) Value { return texts(&s.Include, checkRegexp) }},
	{"exclude", "", Scope, "[]", Live, Fixed, "follow no URL that matches `RE`; wins over --include (repeatable)",
		func(s *Settings) Value { return texts(&s.Exclude, checkRegexp) }},
	{"max-depth", "", Scope, "-1", Live, Fixed, "follow links up to this depth; 0 seeds only, -1 no limit",
		func(s *Settings) Value {
			return number(&s.MaxDepth, NoLimit, math.MaxUint16, "a whole number from -1 to 65535")
		}},
	{"max-pages", "", Scope, "0", Live, Never, "end after this many answers in the whole crawl; one worker makes no more, several at most what the others have under way; 0 no limit; with --recrawl: fetch this many pages, visit them again, and go on",
		func(s *Settings) Value { return limit(&s.MaxPages) }},
	{"max-per-host", "", Scope, "auto", Live, Fixed, "queue at most this many URLs of one host key; 0 no limit; auto: 100,000, and no limit for hosts of seeds",
		func(s *Settings) Value { return orAuto(&s.MaxPerHost, Auto, human.MaxCount, "auto, "+limitWords) }},
	{"sitemaps", "", Scope, "false", Live, Fixed, "crawl the sitemaps that robots.txt names, or /sitemap.xml and /sitemap_index.xml, and the URLs in them",
		func(s *Settings) Value { return yes(&s.Sitemaps) }},
	{"feeds", "", Scope, "false", Live, Fixed, "crawl the RSS and Atom feeds to which pages link, and the pages to which their items link",
		func(s *Settings) Value { return yes(&s.Feeds) }},
	{"assets", "", Scope, "false", Live, Fixed, "also crawl images, styles, scripts and media of pages; any type unless --types is given",
		func(s *Settings) Value { return yes(&s.Assets) }},
	{"skip-duplicates", "", Scope, "false", Live, Later, "follow no links of a page if an earlier page has the same text and the same links",
		func(s *Settings) Value { return yes(&s.SkipDuplicates) }},
	{"max-hosts-per-domain", "", Scope, "10k", Live, Fixed, "crawl at most N hosts of one registrable domain; hosts of seeds count, but are always crawled; 0 no limit",
		func(s *Settings) Value { return limit(&s.MaxHostsPerDomain) }},
	{"max-url-bytes", "", Scope, strconv.Itoa(trap.DefaultMaxURL), Live, Fixed, "refuse URLs longer than this; 0 allows up to 8192",
		func(s *Settings) Value { return number(&s.MaxURLBytes, 0, mostInURL, inURL) }},
	{"max-path-repeats", "", Scope, strconv.Itoa(trap.DefaultMaxRepeats), Live, Fixed, "refuse URLs whose path contains one segment more than this many times; 0 no limit",
		func(s *Settings) Value { return number(&s.MaxPathRepeats, 0, mostInURL, inURL) }},
	{"max-params", "", Scope, strconv.Itoa(trap.DefaultMaxParams), Live, Fixed, "refuse URLs with more query parameters than this; 0 no limit",
		func(s *Settings) Value { return number(&s.MaxParams, 0, mostInURL, inURL) }},
	{"max-years-ahead", "", Scope, strconv.Itoa(trap.DefaultMaxAhead), Live, Fixed, "refuse URLs with a date more than this many years in the future, or of a calendar before 1900; -1 no limit",
		func(s *Settings) Value {
			return number(&s.MaxYearsAhead, NoLimit, mostInURL, "a whole number from -1 to 1048576")
		}},
	{"allow-series", "", Scope, "[]", Live, Fixed, "request URLs that match `RE` even if their series, which differs only in numbers, says nothing new (repeatable)",
		func(s *Settings) Value { return texts(&s.AllowSeries, checkRegexp) }},
	{"check-external", "", Scope, "false", Live, Later, "request each link that leads out of the scope once, with HEAD, to find broken ones; at most one request a second to a registrable domain",
		func(s *Settings) Value { return yes(&s.CheckExternal) }},
	{"max-external", "", Scope, "10k", Live, Later, "check at most this many URLs with --check-external in the whole crawl; 0 no limit",
		func(s *Settings) Value { return limit(&s.MaxExternal) }},
	{"max-time", "", Scope, "0s", Run, Never, "start no request after this time, and end the run within --grace; 0 no limit",
		func(s *Settings) Value { return span(&s.MaxTime, 0, timeOrZero) }},

	{"recrawl", "", Scope, "off", Live, Later, "visit pages again, and do not end: after a `TIME` such as 7d, or so that a share of them, such as 80%, is up to date",
		func(s *Settings) Value {
			return words(&s.Recrawl, false, "off, a time from 1s such as 7d, or a share from 1% to 99%", func(text string) error {
				_, err := revisit.ParseAim(text)
				return err
			})
		}},
	{"recrawl-every", "", Scope, "1h..90d", Live, Later, "`SHORTEST..LONGEST` time between two visits of a page with --recrawl",
		func(s *Settings) Value {
			return words(&s.RecrawlEvery, false, "two times from 1s, the shorter one first, such as 1h..90d", func(text string) error {
				_, err := revisit.ParseLimits(text)
				return err
			})
		}},
	{"purge-gone", "", Scope, "180d", Live, Later, "with --recrawl, forget pages that are gone for this `TIME`, and visit them no more; 0s never",
		func(s *Settings) Value {
			return words(&s.PurgeGone, false, "a time of 0 or more, such as 180d", func(text string) error {
				_, err := human.ParsePeriod(text)
				return err
			})
		}},

	{"delay", "", Politeness, politeness.DefaultDelay.String(), Live, Fixed, "time between the starts of two requests to one host key",
		func(s *Settings) Value { return span(&s.Delay, 0, timeOrZero) }},
	{"max-crawl-delay", "", Politeness, politeness.DefaultMaxCrawlDelay.String(), Live, Fixed, "longest Crawl-delay of a robots.txt that is waited for",
		func(s *Settings) Value { return span(&s.MaxCrawlDelay, 0, timeOrZero) }},
	{"latency-factor", "", Politeness, strconv.FormatFloat(politeness.DefaultLatencyFactor, 'g', -1, 64), Live, Fixed, "make the delay at least this many times the host's average latency; 0 off; --delay 0 turns it off too",
		func(s *Settings) Value { return real(&s.LatencyFactor) }},
	{"host-concurrency", "", Politeness, "1", Live, Fixed, "requests to one host at once",
		func(s *Settings) Value {
			return number(&s.HostConcurrency, 1, MaxHostConcurrency, "a whole number from 1 to 1024")
		}},
	{"domain-rate", "", Politeness, "4", Live, Fixed, "requests per second to all hosts of a domain together, or to one of them if --delay allows more; 0 no limit",
		func(s *Settings) Value { return real(&s.DomainRate) }},
	{"host-key", "", Politeness, "host", Created, Fixed, "`UNIT` whose URLs share a delay: host or domain",
		func(s *Settings) Value { return oneOf(&s.HostKey, "host", "domain") }},
	{"robots", "", Politeness, "obey", Live, Fixed, "`HOW`: obey or ignore robots.txt",
		func(s *Settings) Value { return oneOf(&s.Robots, "obey", "ignore") }},
	{"preferences", "", Politeness, "page", Live, Later, "`WHERE` to look for what owners say about the use of their pages: page, full (also tdmrep.json, one request per origin) or none",
		func(s *Settings) Value { return oneOf(&s.Preferences, "page", "full", "none") }},
	{"content-use", "", Politeness, "[]", Live, Later, "what the pages are for: search, train-ai or ai-use; those whose owner refuses this `USE` are not requested, or not kept (repeatable)",
		func(s *Settings) Value { return texts(&s.ContentUse, checkUse) }},
	{"concurrency", "", Politeness, "auto", Run, Never, "hosts asked at once, not counting late ones; auto finds the best number",
		func(s *Settings) Value { return newConcurrency(&s.Concurrency) }},
	{"rate", "", Politeness, "0", Run, Later, "requests per second of this process; 0 no limit",
		func(s *Settings) Value { return real(&s.Rate) }},
	{"bandwidth", "", Politeness, "0", Run, Later, "bytes per second that this process may receive, on average; 0 no limit",
		func(s *Settings) Value { return size(&s.Bandwidth, true) }},
	{"backoff", "", Politeness, politeness.DefaultBackoffBase.String(), Live, Later, "first back-off of a host in trouble; doubles each time",
		func(s *Settings) Value { return span(&s.Backoff, 1, timeNotZero) }},
	{"backoff-max", "", Politeness, politeness.DefaultBackoffMax.String(), Live, Later, "longest back-off of a host",
		func(s *Settings) Value { return span(&s.BackoffMax, 1, timeNotZero) }},
	{"dead-after", "", Politeness, strconv.Itoa(politeness.DefaultDeadAfter), Live, Later, "give up a host after this many requests in a row without an answer; 0 never",
		func(s *Settings) Value { return number(&s.DeadAfter, 0, math.MaxInt32, wholeNumber) }},
	{"drop", "", "", "[]", Live, Never, "`RULE` of crawler drop: URLs that are dropped",
		func(s *Settings) Value { return texts(&s.Drop, checkTarget) }},
	{"block", "", "", "[]", Live, Never, "`RULE` of crawler block: URLs that are never requested, and hidden",
		func(s *Settings) Value { return texts(&s.Block, checkBlock) }},
	{"pause", "", "", "[]", Live, Never, "`RULE` of crawler pause: URLs that wait",
		func(s *Settings) Value { return texts(&s.Pause, checkPause) }},
	{"hosts", "", "", "[]", Live, Fixed, "settings of some hosts",
		func(s *Settings) Value { return hostList{&s.Hosts} }},

	{"timeout", "", Requests, get.DefaultTimeout.String(), Run, Later, "time for one request, from connect to the end of the body",
		func(s *Settings) Value { return span(&s.Timeout, time.Millisecond, timeFromMsec) }},
	{"retries", "", Requests, "3", Live, Later, "more attempts after a failed first one",
		func(s *Settings) Value { return number(&s.Retries, 0, 100, "a whole number from 0 to 100") }},
	{"max-body", "", Requests, "10MiB", Run, Later, "cut decompressed bodies at this size",
		func(s *Settings) Value { return size(&s.MaxBody, false) }},
	{"types", "", Requests, `["text/html","application/xhtml+xml"]`, Run, Later, "content `TYPES` whose bodies are read; * any",
		func(s *Settings) Value {
			list := texts(&s.Types, wanted("content types in lower case, such as text/html,application/pdf, or * for any", func(text string) error {
				return get.Config{Types: []string{text}}.Check()
			}))
			list.kind = "stringSlice"
			return list
		}},
	{HeaderName, "H", Requests, "[]", Live, Later, "send `'NAME: VALUE'`; Cookie, Authorization and other possible secrets go only to origins of seeds (repeatable)",
		func(s *Settings) Value { return newHeaders(&s.Headers) }},
	{"user-agent", "", Requests, "crawler", Run, Later, "`NAME` of the crawler in requests; robots.txt matches its first word, which is fixed for a crawl",
		func(s *Settings) Value {
			return words(&s.Agent, false, "a name that site owners can look up, without control characters", headerValue)
		}},
	{"contact", "", Requests, "", Live, Later, "`URL` or address for site owners, added to the user agent",
		func(s *Settings) Value {
			return words(&s.Contact, true, "a URL or an address, without control characters", headerValue)
		}},
	{"connect-to", "", Requests, "[]", Run, Here, "`PATTERN=ADDR[:PORT]`: connect to ADDR for hosts that match (repeatable)",
		func(s *Settings) Value {
			return texts(&s.ConnectTo, wanted("PATTERN=ADDR[:PORT], such as '*.example.org=127.0.0.1:8080'", func(text string) error {
				_, err := get.ParseConnectTo(text)
				return err
			}))
		}},
	{"allow-private", "", Requests, "false", Run, Here, "request private, loopback and other special addresses too",
		func(s *Settings) Value { return yes(&s.AllowPrivate) }},
	{"header-timeout", "", Requests, get.DefaultHeaderTimeout.String(), Run, Later, "time for the header of an answer",
		func(s *Settings) Value { return span(&s.HeaderTimeout, time.Millisecond, timeFromMsec) }},
	{"min-rate", "", Requests, "256B", Run, Later, "least bytes per second of a body, over any 10 s; 0 no limit",
		func(s *Settings) Value { return size(&s.MinRate, true) }},
	{"proxy", "", Requests, "", Run, Here, "connect through `URL`: http, https or socks5; names are looked up and checked here",
		func(s *Settings) Value {
			return words(&s.Proxy, true, "http, https or socks5, then ://[USER:PASSWORD@]HOST[:PORT]", func(text string) error {
				return get.Config{Proxy: text}.Check()
			})
		}},
	{"proxy-http", "", Requests, "tunnel", Run, Here, "how --proxy gets http requests: through a tunnel, or in absolute form, for proxies with tunnels to port 443 only",
		func(s *Settings) Value { return oneOf(&s.ProxyHTTP, "tunnel", "absolute") }},
	{"dns", "", Requests, "", Run, Here, "ask the name server at `ADDR[:PORT]`",
		func(s *Settings) Value {
			return words(&s.DNS, true, "an IP address, with or without a port, such as 127.0.0.53 or [::1]:53", func(text string) error {
				return get.Config{DNS: text}.Check()
			})
		}},
	{"allow-net", "", Requests, "[]", Run, Here, "request addresses of `CIDR` too, private or not (repeatable)",
		func(s *Settings) Value {
			return parsed(&s.AllowNet, "a network, such as 10.1.0.0/16", netip.ParsePrefix)
		}},
	{"allow-port", "", Requests, "[]", Run, Here, "also request `PORT`, although another service uses it, such as 25 or 6379 (repeatable)",
		func(s *Settings) Value {
			list := parsed(&s.AllowPorts, "ports from 1 to 65535, such as 25,6379", parsePort)
			list.kind = "stringSlice"
			return list
		}},
	{"ca", "", Requests, "", Run, Here, "trust the certificates in `FILE` (PEM) too, beside the system's",
		func(s *Settings) Value { return rootsFile{&s.CAFile} }},
	{"insecure-host", "", Requests, "[]", Run, Here, "do not verify the certificates of hosts that match `PATTERN`, such as '*.test.example.org' (repeatable)",
		func(s *Settings) Value { return texts(&s.InsecureHosts, checkInsecureHost) }},
	{"bind", "", Requests, "[]", Run, Here, "make connections from the local `ADDRESS` (repeatable)",
		func(s *Settings) Value { return parsed(&s.Bind, "an IP address, such as 192.0.2.7", netip.ParseAddr) }},
	{"sign", "", Requests, "", Run, Here, "sign requests (Web Bot Auth) with the key in `FILE` of crawler key new; needs --signature-agent",
		func(s *Settings) Value { return words(&s.Sign, true, "a file", func(string) error { return nil }) }},
	{"signature-agent", "", Requests, "", Run, Later, "https `URL` under which sites find the public keys of --sign: an origin, or a directory of keys",
		func(s *Settings) Value {
			return words(&s.SignatureAgent, true, "an https URL, such as https://bot.example.org", botauth.CheckAgent)
		}},
	{"sign-reuse", "", Requests, "0s", Run, Later, "use a signature of --sign for all requests to an origin, for this time; 0 signs each request",
		func(s *Settings) Value { return span(&s.SignReuse, 0, "a time, such as 60s, or 0") }},
	{"cookies", "", Requests, "", Run, Here, "send the cookies in `FILE` (Netscape format), each to the hosts that it names",
		func(s *Settings) Value { return words(&s.Cookies, true, "a file", func(string) error { return nil }) }},
	{"cookie-jar", "", Requests, "false", Run, Later, "keep cookies of answers in memory, and send them to the host that set them",
		func(s *Settings) Value { return yes(&s.CookieJar) }},
	{"cookie-jar-file", "", Requests, "", Run, Here, "keep the cookies of --cookie-jar in `FILE`, for the next run",
		func(s *Settings) Value {
			return words(&s.CookieJarFile, true, "a file", func(string) error { return nil })
		}},
	{"cookie-domain", "", Requests, "[]", Run, Later, "cookies of --cookie-jar that hosts which match `PATTERN` set for their domain are sent to all its hosts (repeatable)",
		func(s *Settings) Value { return texts(&s.CookieDomains, checkInsecureHost) }},
	{"save-cookies", "", Requests, "false", Run, Later, "keep values of Set-Cookie with --save, too",
		func(s *Settings) Value { return yes(&s.SaveCookies) }},
	{"logins", "", Requests, "", Run, Here, "log in with `FILE`: lines PATTERN basic USER:PASSWORD, or PATTERN bearer TOKEN",
		func(s *Settings) Value { return words(&s.Logins, true, "a file", func(string) error { return nil }) }},
	{"logged-out", "", Requests, "", Run, Later, "a redirect to a URL, or a page, that matches `RE` comes from a site where the login is over: pause its host",
		func(s *Settings) Value {
			return words(&s.LoggedOut, true, "a regular expression of Go, at most 1,000 characters", func(text string) error {
				if len(text) > 1000 {
					return errors.New("too long")
				}
				_, err := regexp.Compile(text)
				return err
			})
		}},
	{"save", "", Requests, "none", Run, Later, "`WHAT` to keep in DIR/warc, exactly as received: none, html (pages), or all answers; requests are HTTP/1.1 then",
		func(s *Settings) Value { return oneOf(&s.Save, "none", "html", "all") }},

	{"urls", "", Filter, "10M", Created, Fixed, "URLs that the filter is sized for",
		func(s *Settings) Value { return newCapacity(&s.Capacity) }},
	{"fpr", "", Filter, "1e-06", Created, Fixed, "probability that a new URL is taken for a known one",
		func(s *Settings) Value { return newProbability(&s.FPR) }},
	{"growth", "", Filter, "on", Created, Fixed, "add layers beyond --urls, so that --fpr holds",
		func(s *Settings) Value { return toggle(&s.Growth) }},
	{"strip-param", "", Filter, "[]", Created, Fixed, "remove this query `PARAMETER`, beside the default list; - removes none (repeatable)",
		func(s *Settings) Value { return texts(&s.StripParams, checkParam) }},
	{"keep-param", "", Filter, "[]", Created, Fixed, "keep this query `PARAMETER` (repeatable)",
		func(s *Settings) Value { return texts(&s.KeepParams, checkParam) }},
	{"sort-query", "", Filter, "false", Created, Fixed, "treat URLs that differ only in the order of query parameters as one URL",
		func(s *Settings) Value { return yes(&s.SortQuery) }},

	{"exact", "", Exact, `["seeds"]`, Created, Fixed, "`RULES` for URLs that a false positive must never drop: none, all, or a list of seeds, sitemaps, depth<=N, host=GLOB, re=EXPR",
		func(s *Settings) Value { return newExactRules(&s.Exact) }},
	{"window", "", Exact, "[]", Created, FixedExact, "`CLASS=TIME`: finished URLs of an exact class, or bulk ones, are new again after TIME, as in seeds=24h or bulk=30d (repeatable); in Redis it needs --postgres, and there is none for bulk",
		func(s *Settings) Value { return texts(&s.Windows, func(string) error { return nil }) }},
	{"sink", "", Exact, "jsonl", Created, Fixed, "`WHERE`: records are lines of pages.jsonl, or rows of --postgres",
		func(s *Settings) Value { return oneOf(&s.Sink, "jsonl", "postgres") }},
	{"cdc", "", Exact, "false", Created, Fixed, "write each record of --sink postgres as an event for change data capture too",
		func(s *Settings) Value { return yes(&s.CDC) }},

	{"partitions", "", Shared, "256", Created, FixedShared, "partitions of the hosts, which a cluster spreads over its nodes",
		func(s *Settings) Value {
			return number(&s.Partitions, 1, maxPartitions, "a whole number from 1 to 16384")
		}},
	{"max-queued", "", Shared, "0", Live, Later, "refuse links while this many URLs wait in the whole crawl; 0 no limit",
		func(s *Settings) Value { return limit(&s.MaxQueued) }},
	{"redis-wait", "", Shared, "0", Run, Later, "replicas that must have a page's links before it is completed",
		func(s *Settings) Value { return number(&s.RedisWait, 0, math.MaxInt32, wholeNumber) }},
	{"worker", "", Shared, "", Run, Never, "call this worker `NAME` in status (default HOST-PID-RANDOM)",
		func(s *Settings) Value {
			return words(&s.Worker, true, name.Form, func(text string) error {
				if !name.Valid(text) {
					return errors.New("not a name")
				}
				return nil
			})
		}},

	{"grace", "", ThisRun, "30s", Run, Never, "time to end running requests and store results after a stop; the run ends within it",
		func(s *Settings) Value { return span(&s.Grace, 0, timeOrZero) }},
}

func checkRegexp(text string) error {
	if _, err := regexp.Compile(text); err != nil {
		return fmt.Errorf("want a regular expression: %w", err)
	}
	return nil
}

func checkUse(text string) error {
	if !slices.Contains([]string{"search", "train-ai", "ai-use"}, text) {
		return errors.New("want search, train-ai or ai-use")
	}
	return nil
}

func checkTarget(text string) error {
	_, err := policy.ParseTarget(text)
	return err
}

func checkBlock(text string) error {
	_, err := policy.ParseBlock(text)
	return err
}

func checkPause(text string) error {
	t, err := policy.ParseTarget(text)
	if err == nil && (t.Class() != "" || t.MinDepth() > 0) {
		err = errors.New("want only host=PATTERN and match=RE")
	}
	return err
}

func checkParam(text string) error {
	if _, err := canon.New(canon.Options{StripParams: []string{text}}); text != "-" && err != nil {
		return errors.New("want a parameter's name, with * at its end only, such as sid or utm_*")
	}
	return nil
}

func headerValue(text string) error {
	if !httpguts.ValidHeaderFieldValue(text) {
		return errors.New("not the value of a header")
	}
	return nil
}

func parsePort(text string) (uint16, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err == nil && port == 0 {
		err = errors.New("not a port")
	}
	return uint16(port), err
}

func checkInsecureHost(pattern string) error {
	if pattern == "" || strings.Trim(strings.ToLower(pattern), seed.HostLetters+"*[:]") != "" || hasPort(pattern) {
		return errors.New("want a host without a port, in which * stands for any characters, such as *.test.example.org")
	}
	return nil
}

// hasPort reports whether a host pattern ends with a port.
func hasPort(pattern string) bool {
	if _, err := netip.ParseAddr(strings.Trim(pattern, "[]")); err == nil {
		return false
	}
	colon := strings.LastIndexByte(pattern, ':')
	return colon >= 0 && colon > strings.LastIndexByte(pattern, ']')
}

// newConcurrency is a number of hosts, or 0, whose text is "auto".
func newConcurrency(field *int) Value {
	return scalar{"N", "auto, or a whole number from 1 to 100000",
		func() string {
			if *field == 0 {
				return "auto"
			}
			return strconv.Itoa(*field)
		},
		func(text string) bool {
			n, err := strconv.Atoi(text)
			return store(field, 0, text == "auto") || store(field, n, err == nil && n >= 1 && n <= maxConcurrency)
		}}
}

func newCapacity(field *uint64) Value {
	return scalar{"N", "a whole number from 1 to 1e12, such as 250000, 10M or 1e9",
		func() string {
			c := human.Count(*field)
			return c.String()
		},
		func(text string) bool {
			var c human.Count
			return c.Set(text) == nil && store(field, uint64(c), c <= maxURLs)
		}}
}

func newProbability(field *float64) Value {
	return scalar{new(human.Rate).Type(), "a probability from 1e-12 to 0.99, such as 1e-6, 0.1% or '1 in 1000000'",
		func() string {
			rate := human.Rate(*field)
			return rate.String()
		},
		func(text string) bool {
			var rate human.Rate
			return rate.Set(text) == nil && store(field, float64(rate), rate >= leastFPR)
		}}
}

// newExactRules are the rules that choose exact URLs. A text is one rule with the name of its class, as in
// "gov: host=*.gov", or a list of rules without names. Set replaces all rules.
func newExactRules(field *[]string) Value {
	return exactRules{&list{kind: "RULES", check: func(string) error { return nil }, get: func() []string { return *field },
		set: func(texts []string) error {
			rules, err := exact.ParseTexts(texts)
			if err != nil {
				return err
			}
			*field = rules.Texts()
			return nil
		}}}
}

type exactRules struct{ *list }

func (v exactRules) String() string {
	rules, err := exact.ParseTexts(v.get())
	if err != nil { // a value that no text has set
		return strings.Join(v.get(), ",")
	}
	return rules.String()
}

func (v exactRules) Set(text string) error { return v.set([]string{text}) }

func (v exactRules) Replace(texts []string) error { return v.set(texts) }

func (v exactRules) Append(text string) error { return v.set(append(slices.Clone(v.get()), text)) }

func (v exactRules) Adopt(stored string) error {
	var texts []string
	if err := json.Unmarshal([]byte(stored), &texts); err != nil {
		return fmt.Errorf("want a list: %w", err)
	}
	return v.set(texts)
}

// rootsFile is the name of a file with certificates.
type rootsFile struct{ field *string }

func (v rootsFile) String() string       { return *v.field }
func (v rootsFile) Type() string         { return "string" }
func (v rootsFile) Stored() string       { return *v.field }
func (v rootsFile) Adopt(s string) error { *v.field = s; return nil } // it is read when it is used

func (v rootsFile) Set(text string) error {
	if text != "" {
		if _, err := get.RootCAs(text); err != nil {
			return err
		}
	}
	*v.field = text
	return nil
}

// newHeaders are headers as texts NAME: VALUE, sorted.
func newHeaders(field *http.Header) Value {
	return &headers{&list{kind: "stringArray", check: checkHeader,
		get: func() (lines []string) {
			for _, name := range slices.Sorted(maps.Keys(*field)) {
				for _, value := range (*field)[name] {
					lines = append(lines, name+": "+value)
				}
			}
			return lines
		},
		set: func(texts []string) error {
			*field = make(http.Header)
			for _, text := range texts {
				name, value, _ := strings.Cut(text, ":")
				field.Add(strings.TrimSpace(name), strings.TrimSpace(value))
			}
			return nil
		}}, field}
}

// headers are stored without those that may be secret.
type headers struct {
	*list
	field *http.Header
}

func (v *headers) Stored() string {
	return JSONList(slices.DeleteFunc(v.get(), func(line string) bool {
		name, _, _ := strings.Cut(line, ":")
		return get.PrivateHeader(name)
	}))
}

// Adopt adds the stored headers whose names are missing.
func (v *headers) Adopt(stored string) error {
	var lines []string
	if err := json.Unmarshal([]byte(stored), &lines); err != nil {
		return fmt.Errorf("want a list: %w", err)
	}
	given := *v.field
	*v.field = given.Clone()
	if *v.field == nil {
		*v.field = make(http.Header)
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		if _, has := given[name]; !has {
			v.field.Add(name, value)
		}
	}
	return nil
}

// checkHeader checks a header. Its errors do not contain the value, which may be secret.
func checkHeader(text string) error {
	const want = "want 'NAME: VALUE', such as 'Accept-Language: en'"
	name, content, ok := strings.Cut(text, ":")
	if name = strings.TrimSpace(name); !ok || name == "" {
		return errors.New(want)
	}
	if err := get.CheckHeader(name, strings.TrimSpace(content)); err != nil {
		return fmt.Errorf(want+": %w", err)
	}
	return nil
}

// newFieldGroups are the fields of pages. The texts are those of the group for every page. The stored form has
// all groups, as JSON.
func newFieldGroups(field *[]fields.Group) Value {
	every := func() int { return slices.IndexFunc(*field, func(g fields.Group) bool { return g.URL == "" }) }
	return &fieldGroups{&list{kind: "stringArray", check: checkField,
		get: func() []string {
			if at := every(); at >= 0 {
				return (*field)[at].Fields
			}
			return nil
		},
		set: func(texts []string) error {
			others := slices.DeleteFunc(slices.Clone(*field), func(g fields.Group) bool { return g.URL == "" })
			if len(texts) > 0 {
				others = slices.Insert(others, 0, fields.Group{Fields: texts})
			}
			*field = others
			return nil
		}}, field}
}

type fieldGroups struct {
	*list
	field *[]fields.Group
}

func (v *fieldGroups) Stored() string {
	text, _ := json.Marshal(append([]fields.Group{}, *v.field...)) // this cannot fail for strings
	return string(text)
}

func (v *fieldGroups) Adopt(stored string) error {
	var groups []fields.Group
	if err := json.Unmarshal([]byte(stored), &groups); err != nil {
		return fmt.Errorf("want a list: %w", err)
	}
	*v.field = groups
	return nil
}

// checkField returns an error for an invalid field, with the position of the fault.
func checkField(text string) error {
	err := fields.Check(text)
	if fault, is := errors.AsType[*fields.SyntaxError](err); is {
		return fmt.Errorf("character %d: %s", fault.At, fault.Problem)
	}
	return err
}

// hostList is the setting hosts. It has no flag. The stored form is JSON, without headers.
type hostList struct{ field *[]Host }

func (v hostList) String() string { return v.Stored() }
func (v hostList) Type() string   { return "hosts" }

func (v hostList) Stored() string {
	text, _ := json.Marshal(append([]Host{}, *v.field...)) // this cannot fail: it has no floats
	return string(text)
}

func (v hostList) Set(text string) error { return v.Adopt(text) }

func (v hostList) Adopt(stored string) error {
	var hosts []Host
	if err := json.Unmarshal([]byte(stored), &hosts); err != nil {
		return fmt.Errorf("want a list: %w", err)
	}
	*v.field = hosts
	return nil
}
