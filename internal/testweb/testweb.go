// Package testweb serves a synthetic web, knows what a correct crawl of this web finds,
// and judges crawls.
//
// It can judge any crawler, not only that of this project. Therefore it imports no
// other package of this project and shares no code with the crawlers that it judges.
// Its own generator writes every link, together with the canonical form of the link.
//
// Pages are not stored. Each page is computed from Config.Seed, its host and its number
// when it is requested. So a web of 10⁸ pages takes only a few dozen bytes of memory for
// each host. The difficulties for crawlers are called hardships. A Config chooses which
// hardships a web has (Config.Hardships). ParseHardships reads their names.
//
// # The web
//
// All hosts are virtual hosts of one server on one port, under names that do not exist
// (.test, .example). URLs have no port. Their scheme is http, or https with Config.TLS.
// So a crawler needs a setting that makes it connect to the server for every name. The
// crawler of this project has the flag --connect-to '*=127.0.0.1:PORT'. The pages of a
// host form a tree below its root page, and the root pages of all hosts form a tree.
// All other links lead to random pages, most often to the first hosts and to the first
// pages of a host. Every page can be reached from the first seed.
//
// # What a correct crawl is
//
// The expected records do not depend on the order of the crawl, but they depend
// on its rules. They are right for a crawl that
//
//   - starts from Seeds, follows links of <a href> to any host (--scope any) and
//     to any depth, has no limit of pages, and uses no sitemaps or assets;
//   - identifies URLs as the WHATWG URL standard does, without fragment and user,
//     with unreserved characters decoded and escapes in upper case, and without
//     the parameters utm_*, gclid and fbclid;
//   - records each redirect as a separate result, treats its target like a link,
//     and follows at least five redirects in a row;
//   - makes up to four attempts (--retries 3) after network errors, 5xx and 429;
//   - obeys robots.txt (RFC 9309) under the product token crawler;
//   - reads HTML only, at most Config.MaxBodyBytes of a body;
//   - does not give up a host before ten failures in a row.
//
// # Corners
//
// Some hardships (Corners) add hosts, which are called corners. All URLs of corners are
// written by hand, and a crawl finds them all from one page. With such hardships, a
// correct crawl also
//
//   - reads 500 KiB of a robots.txt, and follows five redirects to it;
//   - requests a robots.txt again if it is unreachable, and requests no page of the
//     host before it has the file;
//   - obeys nofollow in X-Robots-Tag, robots meta elements and links;
//   - with the hardship Sitemaps, reads the sitemaps that robots.txt names or, if
//     it names none, /sitemap.xml, and up to 50 MiB and 50,000 entries of each, of
//     which LargeSitemaps has more;
//   - with the hardship Feeds, reads RSS 0.9x, 1.0 and 2.0 and Atom, whatever content type they
//     have, and follows the links of their items and to further pages of the feed;
//   - decodes pages as the HTML standard says, and follows the links that the
//     standard defines for clients without scripts, including those of areas,
//     frames, refreshes and <link rel=next>;
//   - refuses URLs with more than 2,048 bytes, with the same path segment more than
//     four times, with more than 32 parameters, or with a date before 1900 or more
//     than five years ahead (Web.Refused counts the refused links);
//   - removes session ids, such as PHPSESSID, jsessionid and sid;
//   - accepts headers of up to 256 KiB, and gives up a body that comes byte by byte
//     or stops in the middle;
//   - connects to no private address (Canaries, Web.ServeDNS).
//
// With the hardships OddAnswers and OddMarkup, a correct crawl also
//
//   - reads answers whose head or framing breaks a rule of HTTP as browsers do. A body that ends
//     early is requested once more, and then what arrived counts. An answer that contradicts
//     itself is a network error after one request;
//   - follows a redirect to another spelling of the same canonical URL in the same visit;
//   - decides by what arrives whether a URL is a page, a sitemap or a feed;
//   - decodes all content codings of RFC 9110, several at once, and records the outcome coding for
//     a body that it cannot decode;
//   - finds content types, encodings and links as the standards Fetch, MIME Sniffing, HTML and
//     RFC 8288 say.
//
// With the hardship Numbered, a correct crawl also ends a series of URLs that differ only in numbers, and
// that goes on without saying anything new, after at most 100 pages. The other URLs of the series have no
// record, or one with the outcome dropped.
//
// Some outcomes depend on the order of the crawl, such as those of pages of dead hosts.
// For such pages, several outcomes are right (Expectation.OrderFree).
package testweb

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Config describes a web. The zero value describes a web of 1,000 pages without
// hardships.
type Config struct {
	Seed  uint64
	Hosts int // 0 means 20
	Pages int // on all hosts together, at least one per host; 0 means 1,000

	Hardships Hardships
	// Mix is the make-up of the pages; empty means that of the fields below. With a Mix, Hardships must be
	// None, MeanLinks and MeanBytes have no meaning, and Pages is 0 for some ten thousand on each host.
	Mix Mix

	// Latency is the mean time until hosts answer, in addition to the delays of
	// hardships. 0 means that they answer at once. Each host with generated pages has
	// one latency for all its pages and its robots.txt. The latencies have a log-normal
	// distribution. LatencySpread is the standard deviation of their logarithms.
	Latency       time.Duration
	LatencySpread float64 // 0 means all hosts have the same latency
	// TLS means that the web serves only HTTPS. Clients must trust the certificate
	// authority Web.CACert. TLS cannot be combined with Corners, whose URLs have the
	// scheme http.
	TLS bool

	// LargestShare is the share of the pages that the largest host has, in (0, 1]. 0
	// means 0.02. The largest host always has at least Pages/Hosts pages.
	LargestShare float64
	// MeanLinks is the mean number of links of a page, in addition to those that make
	// every page reachable. 0 means 20, and a negative number means none.
	MeanLinks int
	// MeanBytes is the mean size of a page's HTML. 0 means 14 KiB. Pages with many
	// links can be larger than their random size.
	MeanBytes int
	// MaxBodyBytes is the maximum number of bytes of a body that the crawler reads. 0
	// means 10 MiB. With corners it must be 256 KiB or more.
	MaxBodyBytes int64
	// Year is the year of the crawl, for the calendar hardship. 0 means the current
	// year.
	Year int
	// CanaryPort is the port of the Canaries. Most URLs that the hardship Addresses adds
	// contain this port. 0 means 80.
	CanaryPort int
	// CrawlDelay is the Crawl-delay in some robots.txt files. 0 means 200 ms. The
	// files contain the value without rounding.
	CrawlDelay time.Duration

	// Log receives the request log as lines of JSON, for ReadLog. Each line is written
	// when the request comes. nil means that no log is written.
	Log io.Writer
	// KeepLog keeps the request log in memory, for Web.Log.
	KeepLog bool
}

// withDefaults returns c with defaults instead of zero values, or an error that names
// all faults of c.
func (c Config) withDefaults() (Config, error) {
	c.Hosts = cmp.Or(c.Hosts, 20)
	if c.Mix != "" {
		c.Pages = cmp.Or(c.Pages, min(c.Hosts*mixBranch*mixBranch*mixBranch, 1<<31))
	}
	c.Pages = cmp.Or(c.Pages, 1000)
	c.LargestShare = cmp.Or(c.LargestShare, 0.02)
	c.MeanLinks = cmp.Or(c.MeanLinks, 20)
	c.MeanBytes = cmp.Or(c.MeanBytes, 14<<10)
	c.MaxBodyBytes = cmp.Or(c.MaxBodyBytes, 10<<20)
	c.CrawlDelay = cmp.Or(c.CrawlDelay, 200*time.Millisecond)
	c.Year = cmp.Or(c.Year, time.Now().Year())
	c.CanaryPort = cmp.Or(c.CanaryPort, 80)

	var faults []error
	fault := func(isFault bool, format string, args ...any) {
		if isFault {
			faults = append(faults, fmt.Errorf("testweb: "+format, args...))
		}
	}
	const most = 1 << 31
	fault(c.Hosts < 1 || c.Hosts > most, "Hosts is %d, want 1 to 2³¹", c.Hosts)
	fault(c.Pages < c.Hosts, "Pages is %d, want at least one for each of %d hosts", c.Pages, c.Hosts)
	fault(c.Pages > most, "Pages is %d, want at most 2³¹", c.Pages)
	fault(c.Hardships&^(All|hasCorner) != 0, "Hardships has the unknown bits %#x", uint64(c.Hardships&^Everything))
	fault(c.Mix != "" && c.Mix != MixWeb, "Mix is %q, want %q or none", c.Mix, MixWeb)
	fault(c.Mix != "" && c.Hardships != None, "Hardships and a Mix, want one of them")
	fault(!(c.LargestShare > 0 && c.LargestShare <= 1), "LargestShare is %v, want (0, 1]", c.LargestShare)
	fault(c.MeanBytes < 0, "MeanBytes is %d, want 0 or more", c.MeanBytes)
	fault(c.MaxBodyBytes < 64<<10, "MaxBodyBytes is %d, want 64 KiB or more", c.MaxBodyBytes)
	fault(c.Hardships&hasCorner != 0 && c.MaxBodyBytes < leastCornerBody, "MaxBodyBytes is %d, want %d or more with corners", c.MaxBodyBytes, leastCornerBody)
	fault(c.Year < 1000 || c.Year > 9000, "Year is %d, want 1000 to 9000", c.Year)
	fault(c.CanaryPort < 1 || c.CanaryPort > 65535, "CanaryPort is %d, want 1 to 65535", c.CanaryPort)
	fault(c.Latency < 0, "Latency is %v, want 0 or more", c.Latency)
	fault(!(c.LatencySpread >= 0 && c.LatencySpread <= maxSpread), "LatencySpread is %v, want 0 to %d", c.LatencySpread, maxSpread)
	fault(c.TLS && c.Hardships&hasCorner != 0, "TLS cannot serve %v, whose URLs have the scheme http: choose hardships of all", c.Hardships&hasCorner)
	fault(c.CrawlDelay < 0, "CrawlDelay is %v, want 0 or more", c.CrawlDelay)
	c.MeanLinks = max(c.MeanLinks, 0)
	return c, errors.Join(faults...)
}

// Web is a synthetic web. Its methods are safe for concurrent use.
type Web struct {
	cfg                   Config
	scheme                string // of all generated URLs: "http" or "https"
	shape                 shape
	fates                 fates
	corpus                corpus
	blocks                *blocks // nil without Config.Mix
	corners               *corners
	authority             *authority // nil without Config.TLS
	requests, connections atomic.Uint64
	stall                 atomic.Int64 // ns, see Request.Stall

	mu      sync.Mutex // guards the fields below
	tries   []uint8    // for each host and slot, the number of requests so far, at most 255
	log     requestLog
	lookups map[Lookup]int // number of look-ups
}

// New returns the web that cfg describes, or an error that names every fault
// of cfg.
func New(cfg Config) (*Web, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Web{
		cfg:     cfg,
		scheme:  "http",
		shape:   newShape(cfg.Hosts, cfg.Pages, cfg.LargestShare),
		fates:   newFates(cfg.Hardships),
		corpus:  newCorpus(cfg.Seed),
		corners: newCorners(&cfg),
		log:     newRequestLog(cfg.Log, cfg.KeepLog),
		lookups: map[Lookup]int{},
	}
	if w.isMix() {
		w.shape.branch, w.fates = mixBranch, fatesOf(mixFates)
		if w.blocks, err = newBlocks(&w.corpus, cfg.Seed); err != nil {
			return nil, err
		}
	}
	if cfg.TLS {
		w.scheme = "https"
		if w.authority, err = newAuthority(); err != nil {
			return nil, fmt.Errorf("testweb: make a certificate authority: %w", err)
		}
	}
	w.tries = make([]uint8, cfg.Hosts*len(w.fates.slots))
	return w, nil
}

// seedHosts is the number of hosts whose root pages are seeds.
const seedHosts = 4

// Seeds returns canonical URLs from which every page can be reached. They are the root
// pages of the first hosts. With the hardship Redirects, one more seed is a URL that
// redirects. With corners, the last seed is the page that links to all corners.
func (w *Web) Seeds() []string {
	var seeds []string
	for host := range min(seedHosts, w.shape.hosts()) {
		seeds = append(seeds, w.url(target{kind: aPage, page: page{host, 0}}))
	}
	if w.has(Redirects) {
		seeds = append(seeds, w.url(target{kind: aHop}))
	}
	if w.corners.index != nil {
		seeds = append(seeds, w.corners.index.url())
	}
	return seeds
}

// Pages returns the number of pages.
func (w *Web) Pages() int { return w.shape.pages() }

// Hostnames returns the names of all hosts. Dead hosts and the hosts of corners
// come last.
func (w *Web) Hostnames() (names []string) {
	for host := range w.shape.hosts() {
		names = append(names, hostName(host))
	}
	for d := range w.deadHosts() {
		names = append(names, deadName(d))
	}
	return append(names, w.corners.hosts()...)
}
