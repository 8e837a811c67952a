// Package follow decides which links a crawl follows.
//
// It owns the rules, their order, and the answer of each rule about a link:
//
//	Judge       for a worker: the first rule that refuses a link
//	Trace       for package explain: the answer of each rule
//	LimitHosts  the limit of hosts of a domain; it is applied after the other rules,
//	            because a worker applies it to all links of a page at once
//
// All three return Findings, which are values and not sentences. Package explain describes
// them in words, and so does package fetcher when it calls Config.OnRefused. A Crawl answers
// the questions that depend on more than the link and the rules. The package does no I/O of
// its own and keeps no state between two links.
package follow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"time"

	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/trap"
)

// DefaultMaxHops is the default of Rules.MaxHops.
const DefaultMaxHops = 5

// NoLimit is the largest depth of an item. As Rules.MaxDepth it refuses no link.
const NoLimit = math.MaxUint16

// Rules say which links are followed. Their values are plain: 0 is 0. With the zero value, a crawl
// follows no link.
type Rules struct {
	Scope    canon.ScopeMode
	Include  []*regexp.Regexp // if there are any, at least one must match the canonical URL
	Exclude  []*regexp.Regexp // none may match; wins over Include
	MaxDepth int              // links away from a seed; 0 means that no link is followed, NoLimit that all are
	MaxHops  int              // redirects in a row; 0 means that none is followed
	Trap     trap.Limits      // limits for the form of a URL
	// MaxHosts is the maximum number of hosts of one registrable domain that are crawled.
	// The hosts of seeds count, but are always crawled. Other hosts are crawled in the
	// order in which links to them are found. 0 means no limit. With canon.ScopeHost
	// there is no limit, because only the hosts of seeds are crawled.
	MaxHosts uint64
}

// Default returns the default rules at a time: a crawl follows every link to the hosts of its seeds.
func Default(now time.Time) Rules {
	return Rules{MaxDepth: NoLimit, MaxHops: DefaultMaxHops, Trap: trap.Default(now)}
}

// Validate returns nil or an error that names every fault.
func (r *Rules) Validate() error {
	var errs []error
	if r.MaxDepth < 0 || r.MaxDepth > NoLimit {
		errs = append(errs, fmt.Errorf("follow: MaxDepth is %d, want 0 to %d", r.MaxDepth, NoLimit))
	}
	if r.MaxHops < 0 {
		errs = append(errs, fmt.Errorf("follow: MaxHops is %d, want 0 or more", r.MaxHops))
	}
	return errors.Join(append(errs, r.Trap.Validate())...)
}

// BoundsHosts reports whether the hosts of a domain are limited.
func (r *Rules) BoundsHosts() bool { return r.MaxHosts > 0 && r.Scope != canon.ScopeHost }

// Unknown is the Depth and the Hops of a Link to a URL that the crawl has not found yet.
const Unknown = -1

// Link is a link to be judged.
type Link struct {
	URL   canon.URL
	Depth int // links away from a seed, this one included
	Hops  int // redirects in a row that led to the URL
	Kind  Kind
}

// Kind says which rules apply to a link.
type Kind uint8

const (
	Page    Kind = iota // all rules
	Sitemap             // Hops, Scope and Port; the other rules are meant for pages
	// Named is the target of a seed that redirects, or a sitemap that a site has named.
	// It need not be in scope, so only Hops and Port apply.
	Named
	// Outside is a link that leads out of the scope, and that the crawl would check. Port, Trap and Exclude
	// apply.
	Outside
)

// Crawl answers the questions of rules that need more than the link.
type Crawl interface {
	// Opened returns the scope key that brings a host into scope: the first of the
	// host's keys (see canon.Candidates) that is also a key of a seed (see canon.Keys).
	// Opened returns "" if the host is not in scope. It is not called with
	// canon.ScopeAny.
	Opened(ctx context.Context, host string) (key string, err error)
	// CheckPort returns an error that says why a port is not requested, or nil. It is
	// not called for the default port of the scheme.
	CheckPort(port string) error
}

// Judge returns the finding of the first rule that refuses a link. If no rule refuses it,
// the finding has the answer Passes. Judge does not apply the limit of hosts: see LimitHosts.
func (r *Rules) Judge(ctx context.Context, link *Link, crawl Crawl) (Finding, error) {
	for _, rule := range rulesOf[link.Kind] {
		if f, err := r.ask(ctx, rule, link, crawl); err != nil || f.Reason != "" {
			return f, err
		}
	}
	return Finding{Answer: Passes}, nil
}

// Trace returns the findings of all rules that apply to a link, in their order.
func (r *Rules) Trace(ctx context.Context, link *Link, crawl Crawl) ([]Finding, error) {
	var all []Finding
	for _, rule := range rulesOf[link.Kind] {
		f, err := r.ask(ctx, rule, link, crawl)
		if err != nil {
			return nil, err
		}
		if f.Answer != "" {
			all = append(all, f)
		}
	}
	return all, nil
}
