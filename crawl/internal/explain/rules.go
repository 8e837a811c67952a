package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/follow"
	"github.com/bloomfrontier/crawler/internal/trap"
)

// HostLimit is the name of the check of --max-per-host, which the store makes: see Located.More.
const HostLimit = "host limit"

// DropRules is the name of the check of crawler block and crawler drop: see Located.More.
const DropRules = "drop"

// askRules checks the URL against the rules for links, as if a page linked to the URL.
func (q *query) askRules(ctx context.Context) error {
	link := follow.Link{URL: q.url, Depth: follow.Unknown, Hops: follow.Unknown}
	if item := q.out.Store.Item; item != nil {
		link.Depth, link.Hops = item.Depth, item.Hops
	} else if q.out.Record != nil {
		link.Depth = q.out.Record.Depth
	}
	rules := &q.src.Rules
	findings, err := rules.Trace(ctx, &link, q)
	if err != nil {
		return err
	}
	if rules.BoundsHosts() {
		domain := canon.Domain(q.url.Host())
		member, hosts, err := q.src.Quota.Reserved(ctx, domain, q.url.Host())
		if err != nil {
			return err
		}
		findings = append(findings, rules.LimitHosts(domain, member, hosts))
	}
	for i := range findings {
		// The number of redirects that led to a URL is not kept after the URL is finished.
		if f := &findings[i]; f.Rule != follow.Hops || link.Hops != follow.Unknown || q.at.State == frontier.Unknown {
			q.out.Rules = append(q.out.Rules, q.check(f, &link))
		}
	}
	q.out.Rules = append(q.out.Rules, q.at.More...)
	for i := range q.out.Rules {
		q.addVersion(&q.out.Rules[i])
	}
	return nil
}

// settingsOf has the names of the settings that rules obey, by the name of the rule.
var settingsOf = map[string]string{
	follow.Depth.String(): "max-depth", follow.Exclude.String(): "exclude", follow.Include.String(): "include",
	follow.Domain.String(): "max-hosts-per-domain", HostLimit: "max-per-host",
}

// addVersion adds the version of the policy because of which a rule refuses the URL.
func (q *query) addVersion(c *Check) {
	if c.Answer != follow.Refuses || q.src.Since == nil {
		return
	}
	setting, by := settingsOf[c.Rule], ""
	switch c.Rule {
	case follow.Trap.String():
		flag, _, _ := strings.Cut(trap.Permission(c.Reason), " ")
		setting = strings.TrimPrefix(flag, "--")
	case follow.Exclude.String():
		by = c.By
	}
	if setting == "" {
		return
	}
	if since := q.src.Since(setting, by); since != "" {
		c.Words += "; " + since
	}
}

// Opened implements follow.Crawl.
func (q *query) Opened(ctx context.Context, host string) (key string, err error) {
	candidates := canon.Candidates(q.src.Rules.Scope, host)
	open, err := q.src.Scope.Admitted(ctx, candidates)
	if first := slices.Index(open, true); first >= 0 && err == nil {
		return candidates[first], nil
	}
	return "", err
}

// CheckPort implements follow.Crawl.
func (q *query) CheckPort(port string) error {
	if q.src.CheckPort == nil {
		return nil
	}
	return q.src.CheckPort(port)
}

// check describes a finding.
func (q *query) check(f *follow.Finding, link *follow.Link) Check {
	c := Check{Rule: f.Rule.String(), Answer: f.Answer, Reason: f.Reason, By: f.By, Setting: q.src.Rules.Setting(f.Rule)}
	refuses := f.Answer == follow.Refuses
	switch f.Rule {
	case follow.Depth:
		c.Words = depthWords(f, link.Depth, c.Setting)
	case follow.Hops:
		c.Words = hopsWords(f, link.Hops, c.Setting)
	case follow.Scope:
		c.Asked = canon.Candidates(q.src.Rules.Scope, link.URL.Host())
		switch {
		case refuses:
			c.Words = fmt.Sprintf("no seed opened %s (%s)", strings.Join(c.Asked, " or "), c.Setting)
		case f.By != "":
			c.Words = fmt.Sprintf("a seed opened %s (%s)", f.By, c.Setting)
		default:
			c.Words = fmt.Sprintf("every host is in it (%s)", c.Setting)
		}
	case follow.Port:
		c.Words = f.Detail
		if !refuses {
			c.Words = "port " + link.URL.Port() + " is requested"
		}
	case follow.Trap:
		c.Words = "its form is ordinary"
		if refuses {
			c.Words = fmt.Sprintf("it looks like a URL of a trap: %s (%s allows it)", f.Detail, trap.Permission(f.Reason))
		}
	case follow.Exclude, follow.Include:
		c.Words = fmt.Sprintf("no --%s matches", f.Rule)
		if f.By != "" {
			c.Words = fmt.Sprintf("--%s %q matches", f.Rule, f.By)
		}
	case follow.Domain:
		c.Setting = fmt.Sprintf("at most %d", f.Most)
		switch {
		case refuses:
			c.Words = fmt.Sprintf("%s of %s are crawled already (%s)", count(f.Hosts, "other host"), f.By, c.Setting)
		case f.Member:
			c.Words = fmt.Sprintf("one of the %s of %s that are crawled", count(f.Hosts, "host"), f.By)
		default:
			c.Words = fmt.Sprintf("%s may have more hosts (%d of %d are crawled)", f.By, f.Hosts, f.Most)
		}
	}
	return c
}

func depthWords(f *follow.Finding, depth int, setting string) string {
	refuses, known := f.Answer == follow.Refuses, depth != follow.Unknown
	switch {
	case refuses && known:
		return fmt.Sprintf("it is %d links away from a seed (%s)", depth, setting)
	case refuses:
		return fmt.Sprintf("no link is followed (%s)", setting)
	case known && depth == 0:
		return "0: a seed, or the target of its redirect"
	case known:
		return fmt.Sprintf("%s away from a seed", count(uint64(depth), "link"))
	case f.Answer == follow.Passes:
		return "no limit"
	case f.Most == 1:
		return fmt.Sprintf("if a seed names it (%s)", setting)
	}
	return fmt.Sprintf("if a page at most %s away from a seed names it (%s)", count(f.Most-1, "link"), setting)
}

func hopsWords(f *follow.Finding, hops int, setting string) string {
	switch {
	case f.Answer == follow.Refuses:
		return fmt.Sprintf("%d redirects in a row led to it, %s", hops, setting)
	case f.Answer == follow.Depends:
		return setting
	case hops == 0:
		return "no redirect led to it"
	}
	return fmt.Sprintf("%s led to it", count(uint64(hops), "redirect"))
}
