// Package testweb serves a synthetic web, knows what a correct crawl of it
// finds, and judges crawls.
//
// It is the judge of this project's crawler and of any other, so it imports
// nothing of ours: it writes every link from its own generator, together with
// the canonical form of the link, and shares no code with what it judges.
//
// Every answer is a pure function of Config.Seed, the host and the page, made
// on the fly: a web of 10⁸ pages takes no more memory than its hosts need, a
// few dozen bytes each. What is hard about crawling it is chosen by name
// (Hardships), one file for each.
//
// # The web
//
// All hosts are virtual hosts of one server on one port, under names that do
// not exist (.test, .example). URLs have the scheme http, with Config.TLS https,
// and no port, so a crawler must be told to connect to the server for every name, in our case
// with --connect-to '*=127.0.0.1:PORT'. The pages of a host hang in a tree from
// its root, the hosts in a tree of roots; the rest of the links go anywhere,
// and popularity falls off with rank. Every page is found from the first seed.
//
// # What a correct crawl is
//
// The expectation does not depend on the order of the crawl, but it does on the
// rules of the crawl. It holds for one that
//
//   - starts from Seeds, follows links of <a href> into any host (--scope any)
//     to any depth, with no limit to pages, and takes no sitemaps or assets;
//   - identifies URLs as the WHATWG URL standard does, without fragment and user,
//     with unreserved characters decoded and escapes in upper case, and without
//     the parameters utm_*, gclid and fbclid;
//   - makes a redirect a result of its own, whose target is treated like a
//     link, and follows at least five in a row;
//   - makes up to four attempts (--retries 3) after network errors, 5xx and 429;
//   - obeys robots.txt (RFC 9309) under the product token Config.Agent;
//   - reads HTML only, at most Config.MaxBodyBytes of a body;
//   - does not give up a host before ten failures in a row.
//
// # Corners
//
// Some hardships (Corners) bring hosts of their own, each URL of which is written
// by hand and all of which are found from one page. For these a correct crawl
// besides
//
//   - takes 500 KiB of a robots.txt, and five redirects to it; asks again for one
//     that cannot be had, and for no page of its host meanwhile;
//   - obeys nofollow in X-Robots-Tag, robots meta elements and links;
//   - takes the sitemaps that robots.txt names, or /sitemap.xml, if that hardship
//     is there; 50 MiB and 50,000 entries of each;
//   - reads pages in the charset, and follows the links, that the HTML standard
//     says, without scripts: of areas, frames, refreshes and <link rel=next> too;
//   - refuses URLs of more than 2,048 bytes, with one path segment more than four
//     times, with more than 32 parameters, or with a date before 1900 or more
//     than five years ahead (Web.Refused counts what is refused);
//   - removes session ids: PHPSESSID, jsessionid, sid and their like;
//   - takes up to 256 KiB of header, and no body that drips;
//   - connects to no private address (Canaries, Web.ServeDNS).
//
// What depends on the order, such as how a page of a dead host fails, is judged
// by count and reason (Expectation.OrderFree).
package testweb

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config describes a web. The zero value is one of 1,000 easy pages.
type Config struct {
	Seed  uint64
	Hosts int // 0 means 20
	Pages int // on all hosts together, at least one for each; 0 means 1,000

	Hardships Hardships

	// Latency is the mean time until hosts answer, beside what hardships add; 0
	// means at once. Each host whose pages are drawn has a latency of its own,
	// the same for all its pages and robots.txt, drawn from a log-normal
	// distribution: LatencySpread is the standard deviation of its logarithm.
	Latency       time.Duration
	LatencySpread float64 // 0 means all hosts have the same latency
	// TLS serves HTTPS alone: Web.CACert is the authority to trust. It cannot be
	// together with Corners, whose URLs are written with http.
	TLS bool

	// LargestShare is the part of the pages that the largest host has, in
	// (0, 1]; never less than an even share. 0 means 0.02.
	LargestShare float64
	// MeanLinks is how many links a page has on average beside those that hold
	// the web together; 0 means 20, negative none.
	MeanLinks int
	// MeanBytes is the mean size of a page's HTML; 0 means 14 KiB. Pages with
	// many links can be larger than drawn.
	MeanBytes int
	// MaxBodyBytes is how much of a body the crawler reads; 0 means 10 MiB. With
	// corners it is 256 KiB or more.
	MaxBodyBytes int64
	// HugeBytes is the size of huge pages, more than MaxBodyBytes; 0 means a
	// tenth more.
	HugeBytes int64
	// Year is the year of the crawl, for the calendar hardship; 0 means this one.
	Year int
	// CanaryPort is the port that URLs of the addresses hardship name: that of
	// the Canaries. 0 means 80.
	CanaryPort int
	// CrawlDelay is what some robots.txt ask for, with as many decimals as it
	// takes; 0 means 200 ms.
	CrawlDelay time.Duration
	// Agent is the product token that robots.txt knows; empty means "crawler".
	Agent string

	// Log receives the request log as lines of JSON, for JudgeLog; nil writes
	// none. Web.Flush writes out the rest.
	Log io.Writer
	// KeepLog keeps the request log in memory, for Web.Log.
	KeepLog bool
}

// withDefaults returns c with all zero values replaced, or all its faults.
func (c Config) withDefaults() (Config, error) {
	setDefault(&c.Hosts, 20)
	setDefault(&c.Pages, 1000)
	setDefault(&c.LargestShare, 0.02)
	setDefault(&c.MeanLinks, 20)
	setDefault(&c.MeanBytes, 14<<10)
	setDefault(&c.MaxBodyBytes, 10<<20)
	setDefault(&c.HugeBytes, c.MaxBodyBytes+c.MaxBodyBytes/10)
	setDefault(&c.CrawlDelay, 200*time.Millisecond)
	setDefault(&c.Agent, "crawler")
	setDefault(&c.Year, time.Now().Year())
	setDefault(&c.CanaryPort, 80)

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
	fault(c.Hardships&^Everything != 0, "Hardships has the unknown bits %#x", uint64(c.Hardships&^Everything))
	fault(!(c.LargestShare > 0 && c.LargestShare <= 1), "LargestShare is %v, want (0, 1]", c.LargestShare)
	fault(c.MeanBytes < 0, "MeanBytes is %d, want 0 or more", c.MeanBytes)
	fault(c.MaxBodyBytes < 64<<10, "MaxBodyBytes is %d, want 64 KiB or more", c.MaxBodyBytes)
	fault(c.Hardships&Corners != 0 && c.MaxBodyBytes < leastCornerBody, "MaxBodyBytes is %d, want %d or more with corners", c.MaxBodyBytes, leastCornerBody)
	fault(c.HugeBytes <= c.MaxBodyBytes, "HugeBytes is %d, want more than MaxBodyBytes, %d", c.HugeBytes, c.MaxBodyBytes)
	fault(c.Year < 1000 || c.Year > 9000, "Year is %d, want 1000 to 9000", c.Year)
	fault(c.CanaryPort < 1 || c.CanaryPort > 65535, "CanaryPort is %d, want 1 to 65535", c.CanaryPort)
	fault(c.Latency < 0, "Latency is %v, want 0 or more", c.Latency)
	fault(!(c.LatencySpread >= 0 && c.LatencySpread <= maxSpread), "LatencySpread is %v, want 0 to %d", c.LatencySpread, maxSpread)
	fault(c.TLS && c.Hardships&Corners != 0, "TLS cannot serve %v, whose URLs have the scheme http: choose hardships of all", c.Hardships&Corners)
	fault(c.CrawlDelay < 0, "CrawlDelay is %v, want 0 or more", c.CrawlDelay)
	fault(strings.ContainsAny(c.Agent, " \t\r\n:#*"), "Agent is %q, want a product token", c.Agent)
	c.MeanLinks = max(c.MeanLinks, 0)
	return c, errors.Join(faults...)
}

func setDefault[T comparable](value *T, to T) {
	var zero T
	if *value == zero {
		*value = to
	}
}

// Web is a synthetic web. Its methods are safe for concurrent use.
type Web struct {
	cfg       Config
	scheme    string // of all drawn URLs: "http" or "https"
	shape     shape
	fates     fates
	corpus    corpus
	corners   *corners
	authority *authority // nil without Config.TLS
	traffic   traffic
	stall     atomic.Int64 // ns, see Request.Stall

	mu    sync.Mutex // guards what follows: what the requests so far have left behind
	tries []uint8    // for each host and slot, how many requests there were, up to 255
	log   requestLog
	names nameLog
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

// Seeds returns canonical URLs from which every page is found: the roots of the
// first hosts, with redirects one that redirects, with corners the page that
// links to them.
func (w *Web) Seeds() []string {
	var seeds []string
	for host := range min(4, w.shape.hosts()) {
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

// Hostnames returns the names of all hosts, the dead ones and those of corners
// last.
func (w *Web) Hostnames() iter.Seq[string] {
	return func(yield func(string) bool) {
		for host := range w.shape.hosts() {
			if !yield(hostName(host)) {
				return
			}
		}
		for d := range w.deadHosts() {
			if !yield(deadName(d)) {
				return
			}
		}
		for _, name := range w.corners.hosts() {
			if !yield(name) {
				return
			}
		}
	}
}
