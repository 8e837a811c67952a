// Package policy has the settings of a crawl that may change while it runs.
//
// A Policy is an immutable value: which links are followed, how polite the crawl is, its limits,
// and the settings that differ for some hosts. A Live holds the present one. The worker and the
// stores read it at each decision, so a new Policy counts from the next request, the next link and
// the next offer on. What must be consistent within one page is read once per page.
//
// The values are plain: 0 is 0, and the comment of a field says where 0 means that there is no limit.
// Package policy parses no settings and has no part in their storage (package crawl). It does no I/O
// and reads no clock.
package policy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/frontier/revisit"
	"github.com/bloomfrontier/crawler/internal/follow"
)

// Rules say which links are followed. Their Scope must be the same in each Policy of a crawl, because
// the store has the scope keys of its seeds.
type Rules = follow.Rules

// NoLimit is the value of Rules.MaxDepth with which all links are followed.
const NoLimit = follow.NoLimit

// DefaultRules returns the default of Policy.Rules at a time.
func DefaultRules(now time.Time) Rules { return follow.Default(now) }

// Policy has the settings that may change while a crawl runs. It must not be changed after Live.Store,
// nor may its slices and maps.
type Policy struct {
	Version uint64 // rises with each change; the policy with which a crawl begins has 0

	Rules Rules // which links are followed
	// AllowSeries are expressions for URLs that are requested even if their series is a trap: its pages differ only in
	// numbers, and say nothing new.
	AllowSeries []*regexp.Regexp

	Politeness politeness.Policy
	// DomainRate is the largest number of requests per second to all hosts of a site (see Site) together, or to one of
	// them if its delay allows more; 0 means no limit. It holds for the whole crawl: see frontier.Store.Lease.
	DomainRate      float64
	HostConcurrency int  // requests to one host at once; at least 1
	IgnoreRobots    bool // robots.txt is not requested
	Retries         int  // attempts after a failed first attempt

	MaxPages  uint64 // answers in the whole crawl, with Recrawl those of first visits; 0 means no limit
	MaxQueued uint64 // URLs that are queued at once, for a store that many workers share; 0 means no limit
	// MaxPerHost is the maximum number of items added to one host over the whole crawl; 0 means no limit.
	MaxPerHost uint64
	// SeedsUnlimited says that MaxPerHost does not hold for hosts of seeds (see frontier.SeedHost). A
	// worker stores which hosts these are only while SeedsUnlimited is set.
	SeedsUnlimited bool

	// Sitemaps queues the sitemaps that the robots.txt of each origin names, and the URLs
	// in these sitemaps. If a robots.txt names none, well-known paths are tried.
	Sitemaps bool
	// Feeds reads RSS and Atom feeds as pages: it queues the pages to which their items link, and
	// the feeds to which pages link. A feed that was queued as a sitemap is read as a sitemap.
	Feeds bool
	// Assets also queues what pages embed: images, styles, scripts. The client of the worker must
	// accept their content types, unless AnyType is set.
	Assets  bool
	AnyType bool // answers of any content type are read, whatever the client accepts

	// SkipDuplicates refuses the links of a page if an earlier page has the same text and the same links.
	SkipDuplicates bool

	// Preferences says where the worker looks for what owners say about the use of their content.
	Preferences Preferences
	// ContentUse are the uses for which the crawl collects pages: search, train-ai and ai-use. What its owner refuses for
	// one of them is not requested, or not kept, even with NoPreferences.
	ContentUse []string

	// CheckExternal checks each link that leads out of the scope once: whether its URL answers. The
	// record of a check has its result. Links with rel=nofollow, and those that Rules.Exclude
	// matches, are not checked. With Rules.Scope canon.ScopeAny no link leads out.
	CheckExternal bool
	MaxExternal   uint64 // URLs that are checked in the whole crawl; 0 means no limit

	// Recrawl says how often pages are visited again, RecrawlLimits what the shortest and the longest time between two
	// visits are, and PurgeGone after which time a page that is gone is forgotten; 0 means never. A store reads only
	// whether Recrawl is on: see frontier.LeaseRequest.MaxPages.
	Recrawl       revisit.Aim
	RecrawlLimits revisit.Limits
	PurgeGone     time.Duration

	// Header is sent with each request, in place of headers of the worker's client with the same
	// name. A User-Agent also selects the rules of robots.txt. nil means none.
	Header map[string][]string

	Hosts Hosts // settings that differ for some hosts

	// Drop selects URLs that are dropped if they wait, and refused if they are found.
	Drop []Target
	// Block selects URLs that are never requested: they are dropped if they wait, and refused if they are found.
	Block Blocks
	// Pause selects URLs that wait until the policy pauses them no more. Its Targets have only hosts and
	// regular expressions.
	Pause []Target
}

// Preferences says where the worker looks for preferences about the use of content.
type Preferences uint8

// Values of Preferences.
const (
	PagePreferences Preferences = iota // in robots.txt, and in headers and elements of pages
	FullPreferences                    // also in tdmrep.json, which is requested once for each origin
	NoPreferences                      // nowhere: records have none
)

// ReadsPreferences reports whether the worker looks for preferences of pages.
func (p *Policy) ReadsPreferences() bool {
	return p.Preferences != NoPreferences || len(p.ContentUse) > 0
}

// Default returns the default policy at a time: it follows every link to the hosts of the seeds, with the
// default politeness.
func Default(now time.Time) *Policy {
	return &Policy{Rules: follow.Default(now), Politeness: politeness.Default(), HostConcurrency: 1, Retries: 3}
}

// Validate returns nil or an error that names every fault of p.
func (p *Policy) Validate() error {
	errs := []error{p.Politeness.Validate(), p.Rules.Validate()}
	if p.HostConcurrency < 1 {
		errs = append(errs, fmt.Errorf("policy: HostConcurrency is %d, want 1 or more", p.HostConcurrency))
	}
	if !(p.DomainRate >= 0) {
		errs = append(errs, fmt.Errorf("policy: DomainRate is %v, want 0 or more", p.DomainRate))
	}
	if p.Retries < 0 {
		errs = append(errs, fmt.Errorf("policy: Retries is %d, want 0 or more", p.Retries))
	}
	return errors.Join(errs...)
}

// Host has the settings of one host key.
type Host struct {
	Politeness   politeness.Policy
	DomainRate   float64             // see Policy.DomainRate
	Concurrency  int                 // requests at once
	IgnoreRobots bool                // robots.txt is not requested
	Header       map[string][]string // sent with each request; see Policy.Header
	// MaxItems is the maximum number of items added over the whole crawl; 0 means no limit.
	MaxItems uint64
	// UnlessSeed says that MaxItems does not hold if the host is that of a seed (see frontier.SeedHost).
	UnlessSeed bool
	// Recrawl says how often the pages of the host are visited again: as Policy.Recrawl, unless OwnRecrawl is set. Weight is
	// how much each of them matters beside a page of weight 1.
	Recrawl    revisit.Aim
	OwnRecrawl bool
	Weight     float64
}

// Host returns the settings of a host key. A host key of checks (see frontier.CheckHost) has those of
// its domain, with one request at a time, at most one in frontier.CheckDelay. It has no maximum number
// of items, and is never given up, because its hosts differ.
func (p *Policy) Host(key string) Host {
	plain, isCheck := frontier.Checked(key)
	h := Host{
		Politeness: p.Politeness, DomainRate: p.DomainRate, Concurrency: p.HostConcurrency, IgnoreRobots: p.IgnoreRobots, Header: p.Header,
		MaxItems: p.MaxPerHost, UnlessSeed: p.SeedsUnlimited, Recrawl: p.Recrawl, Weight: 1,
	}
	if own := p.Hosts.Find(plain); own != nil {
		own.apply(&h)
	}
	if isCheck {
		h.Concurrency, h.MaxItems, h.UnlessSeed = 1, 0, false
		h.Politeness.Delay, h.Politeness.DeadAfter = max(h.Politeness.Delay, frontier.CheckDelay), 0
	}
	return h
}

// Site returns the site of a host key (canon.Site), whose hosts have a DomainRate together. It returns "" for a host that
// has no siblings, and for a key of checks (see frontier.CheckHost).
func Site(key string) string {
	if frontier.IsCheck(key) {
		return ""
	}
	return canon.Site(key)
}

// LimitsSites reports whether some hosts have a DomainRate.
func (p *Policy) LimitsSites() bool {
	return p.DomainRate > 0 || slices.ContainsFunc(p.Hosts.rows, func(o Override) bool { return o.DomainRate != nil && *o.DomainRate > 0 })
}

// Live holds the present policy of a crawl. It is safe for concurrent use.
type Live struct{ present atomic.Pointer[Policy] }

// NewLive returns a Live that holds p.
func NewLive(p *Policy) *Live {
	l := new(Live)
	l.Store(p)
	return l
}

// Load returns the present policy.
func (l *Live) Load() *Policy { return l.present.Load() }

// Store replaces the policy, which must be valid.
func (l *Live) Store(p *Policy) { l.present.Store(p) }
