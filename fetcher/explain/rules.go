package explain

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/bloomfrontier/crawler/fetcher/trap"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// Rules say which links are followed. They are fetcher.Rules, which converts to
// them, so that the crawl need not be imported to be explained.
type Rules struct {
	Scope    canon.ScopeMode
	Include  []*regexp.Regexp // if any, one must match the canonical URL
	Exclude  []*regexp.Regexp // none may match; wins over Include
	MaxDepth int              // links away from a seed; 0: no limit; seedsOnly: no link
	MaxHops  int              // redirects in a row; 0 means defaultHops
	Trap     trap.Limits      // how strange a URL may look
	MaxHosts uint64           // of one registrable domain; 0: no limit
}

// As fetcher.SeedsOnly and fetcher.DefaultMaxHops.
const (
	seedsOnly   = -1
	defaultHops = 5
)

// askRules asks the rules for links, in the order in which a worker does.
func (q *query) askRules(ctx context.Context) error {
	q.out.Rules = append(q.out.Rules, q.depthRule())
	if q.out.Store.Item != nil || q.status.State == frontier.Unknown { // nobody knows it of a finished one
		q.out.Rules = append(q.out.Rules, q.hopsRule())
	}
	scope, err := q.scopeRule(ctx)
	if err != nil {
		return err
	}
	q.out.Rules = append(q.out.Rules, scope)
	if check, ok := q.portRule(); ok {
		q.out.Rules = append(q.out.Rules, check)
	}
	q.out.Rules = append(q.out.Rules, q.trapRule())
	if check, ok := q.expressions(); ok {
		q.out.Rules = append(q.out.Rules, check)
	}
	if q.src.Rules.boundsHosts() {
		check, err := q.domainRule(ctx)
		if err != nil {
			return err
		}
		q.out.Rules = append(q.out.Rules, check)
	}
	if q.src.More == nil {
		return nil
	}
	more, err := q.src.More(ctx, q.url)
	q.out.Rules = append(q.out.Rules, more...)
	return err
}

// depth returns how many links the URL is away from a seed, if that is known.
func (q *query) depth() (depth int, known bool) {
	switch {
	case q.out.Store.Item != nil:
		return q.out.Store.Item.Depth, true
	case q.out.Record != nil:
		return q.out.Record.Depth, true
	}
	return 0, false
}

func (q *query) depthRule() Check {
	most := q.src.Rules.MaxDepth
	c := Check{Rule: "depth", Answer: Passes, Setting: fmt.Sprintf("--max-depth %d", most)}
	switch most {
	case 0: // as far as an item can say
		c.Setting, most = "", math.MaxUint16
	case seedsOnly:
		c.Setting, most = "--max-depth 0", 0
	}
	depth, known := q.depth()
	switch {
	case known && depth > most:
		c.Answer, c.Reason = Refuses, frontier.ReasonDepth
		c.Words = fmt.Sprintf("it is %d links away from a seed (%s)", depth, c.Setting)
	case known && depth == 0:
		c.Words = "0: a seed, or where one redirects to"
	case known:
		c.Words = fmt.Sprintf("%s away from a seed", count(uint64(depth), "link"))
	case c.Setting == "":
		c.Words = "no limit"
	case most == 0:
		c.Answer, c.Reason = Refuses, frontier.ReasonDepth
		c.Words = fmt.Sprintf("no link is followed (%s)", c.Setting)
	case most == 1:
		c.Answer, c.Words = Depends, fmt.Sprintf("if a seed names it (%s)", c.Setting)
	default:
		c.Answer = Depends
		c.Words = fmt.Sprintf("if a page names it that is %s or less away from a seed (%s)", count(uint64(most-1), "link"), c.Setting)
	}
	return c
}

func (q *query) hopsRule() Check {
	most := q.src.Rules.MaxHops
	if most == 0 {
		most = defaultHops
	}
	c := Check{Rule: "hops", Answer: Passes, Setting: fmt.Sprintf("at most %d redirects in a row", most)}
	switch item := q.out.Store.Item; {
	case item == nil:
		c.Answer, c.Words = Depends, c.Setting
	case item.Hops > most:
		c.Answer, c.Reason = Refuses, frontier.ReasonHops
		c.Words = fmt.Sprintf("%d redirects in a row led to it, %s", item.Hops, c.Setting)
	case item.Hops == 0:
		c.Words = "no redirect led to it"
	default:
		c.Words = fmt.Sprintf("%s led to it", count(uint64(item.Hops), "redirect"))
	}
	return c
}

func (q *query) scopeRule(ctx context.Context) (Check, error) {
	mode := q.src.Rules.Scope
	c := Check{Rule: "scope", Answer: Passes, Setting: "--scope " + mode.String()}
	if mode == canon.ScopeAny {
		c.Words = fmt.Sprintf("everything is in it (%s)", c.Setting)
		return c, nil
	}
	c.Asked = canon.Candidates(mode, q.url.Host())
	open, err := q.src.Scope.Admitted(ctx, c.Asked)
	if err != nil {
		return c, err
	}
	for i, key := range c.Asked {
		if open[i] {
			c.By, c.Words = key, fmt.Sprintf("a seed opened %s (%s)", key, c.Setting)
			return c, nil
		}
	}
	c.Answer, c.Reason = Refuses, frontier.ReasonScope
	c.Words = fmt.Sprintf("no seed opened %s (%s)", strings.Join(c.Asked, " or "), c.Setting)
	return c, nil
}

// portRule asks whether the port is requested; false: it is the scheme's.
func (q *query) portRule() (c Check, ok bool) {
	if q.src.CheckPort == nil || q.url.Port() == "" {
		return c, false
	}
	if err := q.src.CheckPort(q.url.Port()); err != nil {
		return Check{Rule: "port", Answer: Refuses, Reason: frontier.ReasonPort, Words: err.Error()}, true
	}
	return Check{Rule: "port", Answer: Passes, Words: "port " + q.url.Port() + " is requested"}, true
}

// trapRule asks whether the URL looks like one of a trap.
func (q *query) trapRule() Check {
	c := Check{Rule: "trap", Answer: Passes, Words: "nothing about its form is strange"}
	if reason, words := q.src.Rules.Trap.Judge(q.url); reason != "" {
		c.Answer, c.Reason, c.Words = Refuses, reason, "it looks like one of a trap's: "+words
	}
	return c
}

// boundsHosts reports whether the hosts of a domain are limited: to those of
// seeds they are anyway.
func (r *Rules) boundsHosts() bool { return r.MaxHosts > 0 && r.Scope != canon.ScopeHost }

// domainRule asks whether the host is one of the first of its domain.
func (q *query) domainRule(ctx context.Context) (Check, error) {
	domain := canon.Domain(q.url.Host())
	most := q.src.Rules.MaxHosts
	c := Check{Rule: "domain", Answer: Passes, By: domain, Setting: fmt.Sprintf("at most %d", most)}
	has, taken, err := q.src.Quota.Claimed(ctx, domain, q.url.Host())
	switch {
	case err != nil:
		return c, err
	case has:
		c.Words = fmt.Sprintf("one of the %s of %s that are crawled", count(taken, "host"), domain)
	case taken < most:
		c.Words = fmt.Sprintf("there is room for it among the hosts of %s (%d of %d)", domain, taken, most)
	default:
		c.Answer, c.Reason = Refuses, frontier.ReasonDomain
		c.Words = fmt.Sprintf("%s of %s are crawled already (%s)", count(taken, "other host"), domain, c.Setting)
	}
	return c, nil
}

// expressions asks --exclude and --include; false: there are none.
func (q *query) expressions() (c Check, ok bool) {
	exclude, include := q.src.Rules.Exclude, q.src.Rules.Include
	if by := firstMatch(exclude, q.out.Canonical); by != "" {
		return Check{
			Rule: "exclude", Answer: Refuses, Reason: frontier.ReasonExcluded, By: by,
			Words: fmt.Sprintf("--exclude %q matches", by),
		}, true
	}
	by := firstMatch(include, q.out.Canonical)
	switch {
	case by != "":
		return Check{Rule: "include", Answer: Passes, By: by, Words: fmt.Sprintf("--include %q matches", by)}, true
	case len(include) > 0:
		return Check{
			Rule: "include", Answer: Refuses, Reason: frontier.ReasonExcluded,
			Words: "no --include matches",
		}, true
	case len(exclude) > 0:
		return Check{
			Rule: "exclude", Answer: Passes,
			Words: "no --exclude matches",
		}, true
	}
	return Check{}, false
}

// firstMatch returns the first of expressions that matches, "" if none does.
func firstMatch(expressions []*regexp.Regexp, url string) string {
	for _, re := range expressions {
		if re.MatchString(url) {
			return re.String()
		}
	}
	return ""
}
