package fetcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"

	"github.com/bloomfrontier/crawler/fetcher/extract"
	"github.com/bloomfrontier/crawler/fetcher/robots"
	"github.com/bloomfrontier/crawler/fetcher/trap"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/exact"
)

// SeedsOnly asks for a Rules.MaxDepth of zero: no link is followed.
const SeedsOnly = -1

// DefaultMaxHops is how many redirects in a row are followed.
const DefaultMaxHops = 5

// Rules say which links are followed. The zero value follows every link within
// the seeds' hosts.
type Rules struct {
	Scope    canon.ScopeMode
	Include  []*regexp.Regexp // if any, one must match the canonical URL
	Exclude  []*regexp.Regexp // none may match; wins over Include
	MaxDepth int              // links away from a seed; 0: no limit; SeedsOnly: no link
	MaxHops  int              // redirects in a row; 0 means DefaultMaxHops
	Trap     trap.Limits      // how strange a URL may look; a zero Year means this one
	// MaxHosts is how many hosts of one registrable domain are crawled, the
	// first ones that links name; seeds come on top. 0: no limit. It does not
	// matter to canon.ScopeHost, where seeds name all hosts.
	MaxHosts uint64
}

func (r Rules) maxDepth() int {
	switch r.MaxDepth {
	case 0:
		return math.MaxUint16
	case SeedsOnly:
		return 0
	}
	return min(r.MaxDepth, math.MaxUint16)
}

func (r Rules) maxHops() int {
	if r.MaxHops == 0 {
		return DefaultMaxHops
	}
	return r.MaxHops
}

// filter returns the reason why the expressions refuse a URL, or "".
func (r Rules) filter(url string) frontier.Reason {
	for _, re := range r.Exclude {
		if re.MatchString(url) {
			return frontier.ReasonExcluded
		}
	}
	for _, re := range r.Include {
		if re.MatchString(url) {
			return ""
		}
	}
	if len(r.Include) > 0 {
		return frontier.ReasonExcluded
	}
	return ""
}

// linkSet gathers the outlinks of one page: those that pass the rules, and how
// many did not, by reason.
type linkSet struct {
	*holding
	from        *frontier.Item
	found       exact.Found    // how the links are
	class       frontier.Class // Sitemap: they are no pages but lists of URLs
	depth, hops int
	items       []frontier.Item
	bytes       int // of the URLs in items and details
	refused     map[frontier.Reason]uint64
	details     []Refused       // the same one by one, for Config.OnRefused
	inScope     map[string]bool // by host
	hasPlace    map[string]bool // among the hosts of its domain, by host
	err         error           // of the store: the links are not complete
}

func (l *linkSet) refuse(reason frontier.Reason, n int) {
	if n == 0 {
		return
	}
	if l.refused == nil {
		l.refused = make(map[frontier.Reason]uint64)
	}
	l.refused[reason] += uint64(n)
}

func (l *linkSet) refusals() []frontier.Refusal {
	var all []frontier.Refusal
	for reason, n := range l.refused {
		all = append(all, frontier.Refusal{Reason: reason, Count: n})
	}
	return all
}

// refuseLink refuses a canonical URL.
func (l *linkSet) refuseLink(url canon.URL, reason frontier.Reason) {
	l.refuse(reason, 1)
	if l.cfg.OnRefused != nil {
		rule := l.cfg.Rules.ruleOf(reason, url)
		if err := l.cfg.Client.CheckPort(url.Port()); reason == frontier.ReasonPort && err != nil {
			rule = err.Error()
		}
		l.detail(url.String(), reason, rule)
	}
}

// refuseReference refuses what is no URL that could be queued.
func (l *linkSet) refuseReference(text string, err error) {
	l.refuse(reasonOf(err), 1)
	l.detail(text, reasonOf(err), err.Error())
}

// addDocument adds the links of a page.
func (l *linkSet) addDocument(document *extract.Page, header robots.Tag) {
	l.refuse(frontier.ReasonMalformed, document.Malformed)
	l.refuse(frontier.ReasonScheme, document.BadScheme)
	l.refuse(frontier.ReasonTooLong, document.TooLong)
	l.refuse(frontier.ReasonTooMany, document.TooMany)
	l.items = make([]frontier.Item, 0, len(document.Links))
	var candidates []candidate
	for i := range document.Links {
		link := &document.Links[i]
		switch {
		case header.Nofollow:
			l.refuseNofollow(link.URL, "X-Robots-Tag header")
		case document.Nofollow:
			l.refuseNofollow(link.URL, "robots meta tag")
		case link.Nofollow:
			l.refuseNofollow(link.URL, "rel=nofollow")
		default:
			priority := frontier.PriorityPage
			if link.Kind.Asset() {
				priority = frontier.PriorityAsset
			}
			if reason := l.judgeAlone(link.URL); reason != "" {
				l.refuseLink(link.URL, reason)
			} else if l.cfg.Rules.boundsHosts() {
				candidates = append(candidates, candidate{link.URL, priority})
			} else {
				l.push(link.URL, priority)
			}
		}
	}
	l.addCandidates(candidates)
}

func (l *linkSet) refuseNofollow(url canon.URL, rule string) {
	l.refuse(frontier.ReasonNofollow, 1)
	l.detail(url.String(), frontier.ReasonNofollow, rule)
}

// add offers a link, if the rules let it pass.
func (l *linkSet) add(url canon.URL, priority frontier.Priority) {
	if reason := l.judge(url); reason != "" {
		l.refuseLink(url, reason)
		return
	}
	l.push(url, priority)
}

func (l *linkSet) push(url canon.URL, priority frontier.Priority) {
	item := frontier.Item{
		URL: url.String(), Host: l.cfg.Canon.HostKey(url), Depth: uint16(l.depth), Hops: uint8(min(l.hops, 255)),
		Priority: priority, Class: l.class, Referrer: frontier.ReferrerOf(l.from.Fingerprint),
	}
	item.Class = l.cfg.Exact.Class(&item, l.found)
	l.items = append(l.items, item)
	l.bytes += len(item.URL)
}

// judge returns why the crawl's rules refuse a link, or "".
func (l *linkSet) judge(url canon.URL) frontier.Reason {
	reason := l.judgeAlone(url)
	if reason == "" && l.cfg.Rules.boundsHosts() && !l.placed(url.Host()) {
		return frontier.ReasonDomain
	}
	return reason
}

// judgeAlone is judge without the bound of hosts, which depends on other links.
func (l *linkSet) judgeAlone(url canon.URL) frontier.Reason {
	rules := &l.cfg.Rules
	if l.depth > rules.maxDepth() {
		return frontier.ReasonDepth
	}
	if l.hops > rules.maxHops() {
		return frontier.ReasonHops
	}
	if rules.Scope != canon.ScopeAny && !l.scoped(url.Host()) {
		return frontier.ReasonScope
	}
	if l.cfg.Client.CheckPort(url.Port()) != nil {
		return frontier.ReasonPort
	}
	if reason, _ := rules.Trap.Judge(url); reason != "" {
		return reason
	}
	return rules.filter(url.String())
}

// scoped reports whether seeds have opened a host.
func (l *linkSet) scoped(host string) bool {
	in, known := l.inScope[host]
	if known || l.err != nil {
		return in
	}
	var open []bool
	l.err = l.whileUnavailable(func() (err error) {
		open, err = l.cfg.Scope.Admitted(l.hard, canon.Candidates(l.cfg.Rules.Scope, host))
		return err
	})
	if l.err != nil {
		return false
	}
	for _, one := range open {
		in = in || one
	}
	if l.inScope == nil {
		l.inScope = make(map[string]bool)
	}
	l.inScope[host] = in
	return in
}

// addRedirect offers the target of a redirect. That of a seed is a seed: it
// opens its scope, so that example.org → www.example.org does not end a crawl.
// In general a target counts as found like what redirects to it.
func (l *linkSet) addRedirect(target canon.URL) {
	switch l.from.Class {
	case frontier.Sitemap:
		l.class = frontier.Sitemap
	case frontier.Listed:
		l.found = exact.BySitemap
	}
	if l.from.Priority != frontier.PrioritySeed {
		l.add(target, l.from.Priority)
		return
	}
	l.found = exact.BySeed
	if l.hops > l.cfg.Rules.maxHops() {
		l.refuseLink(target, frontier.ReasonHops)
		return
	}
	if l.cfg.Client.CheckPort(target.Port()) != nil {
		l.refuseLink(target, frontier.ReasonPort)
		return
	}
	if keys := canon.Keys(l.cfg.Rules.Scope, target); len(keys) > 0 {
		l.err = l.whileUnavailable(func() error { return l.cfg.Scope.Admit(l.hard, keys) })
	}
	if l.cfg.Rules.boundsHosts() && l.err == nil {
		l.err = l.whileUnavailable(func() error { return l.claimSeeds(l.hard, []string{target.Host()}) })
	}
	if l.err != nil {
		return
	}
	l.push(target, frontier.PrioritySeed)
}

// SeedAnswer says what became of one seed.
type SeedAnswer struct {
	Raw     string // as given
	URL     string // canonical; empty if it has no such form
	Verdict frontier.Verdict
	Err     error // why it has no canonical form, or which port it may not have
}

// Seeds offers seeds, opening the scope of each, and answers index for index.
// Include and Exclude do not hold for seeds. It is safe while Run runs.
func (c *Crawl) Seeds(ctx context.Context, raw []string) ([]SeedAnswer, error) {
	answers := make([]SeedAnswer, len(raw))
	var items []frontier.Item
	var at []int
	var keys []string
	hosts := map[string]bool{}
	for i, seed := range raw {
		answers[i].Raw = seed
		url, err := c.cfg.Canon.ParseSeed(seed)
		if err != nil {
			answers[i].Err = err
			answers[i].Verdict = frontier.Verdict{Answer: frontier.Refused, Reason: reasonOf(err)}
			continue
		}
		answers[i].URL = url.String()
		if err := c.cfg.Client.CheckPort(url.Port()); err != nil {
			answers[i].Err = err
			answers[i].Verdict = frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonPort}
			continue
		}
		keys = append(keys, canon.Keys(c.cfg.Rules.Scope, url)...)
		if c.cfg.SeedOrigins || c.cfg.sendsPrivate() {
			keys = append(keys, originKeys(url)...)
		}
		hosts[url.Host()] = true
		at = append(at, i)
		item := frontier.Item{URL: url.String(), Host: c.cfg.Canon.HostKey(url), Priority: frontier.PrioritySeed}
		item.Class = c.cfg.Exact.Class(&item, exact.BySeed)
		items = append(items, item)
	}
	if len(items) == 0 {
		return answers, nil
	}
	if len(keys) > 0 {
		if err := c.cfg.Scope.Admit(ctx, keys); err != nil {
			return nil, fmt.Errorf("open the scope of seeds: %w", err)
		}
	}
	if c.cfg.Rules.boundsHosts() {
		if err := c.claimSeeds(ctx, slices.Sorted(maps.Keys(hosts))); err != nil {
			return nil, fmt.Errorf("claim the hosts of seeds: %w", err)
		}
	}
	verdicts, err := c.cfg.Store.Add(ctx, items)
	if err != nil {
		return nil, fmt.Errorf("add seeds: %w", err)
	}
	for j, i := range at {
		answers[i].Verdict = verdicts[j]
	}
	c.Wake()
	return answers, nil
}

// ErrNotOffered reports a link that the rules of the crawl refuse.
var ErrNotOffered = errors.New("fetcher: the crawl's rules refuse the link")
