package follow

import (
	"context"
	"fmt"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// Rule names a rule.
type Rule uint8

// The rules. Exclude and Include are asked as one.
const (
	Depth Rule = iota
	Hops
	Scope
	Port
	Trap
	Exclude
	Include
	Domain
)

func (r Rule) String() string {
	return [...]string{"depth", "hops", "scope", "port", "trap", "exclude", "include", "domain"}[r]
}

// The order of the rules.
var (
	ofLinks = [...]Rule{Depth, Hops, Scope, Port, Trap, Exclude}
	ofSeeds = [...]Rule{Hops, Port}
)

// Answer is the answer of a rule.
type Answer string

const (
	Passes  Answer = "passes"
	Refuses Answer = "refuses"
	Depends Answer = "depends" // on the page that has the link
)

// Finding is the answer of one rule about a link.
type Finding struct {
	Rule   Rule
	Answer Answer          // empty means that the rule does not apply
	Reason frontier.Reason // with Refuses, and only then
	// By is what decided: the scope key that a seed opened, an expression, the
	// domain; empty if nothing matched.
	By     string
	Detail string // Trap and Port: why they refuse
	Most   uint64 // Depth, Hops and Domain: the limit
	Hosts  uint64 // Domain: how many of its hosts the crawl visits
	Member bool   // Domain: the link's host is one of them
}

// Setting returns the setting of a rule as on the command line, or "".
func (r *Rules) Setting(rule Rule) string {
	switch {
	case rule == Depth && r.MaxDepth != 0:
		return fmt.Sprintf("--max-depth %d", r.maxDepth())
	case rule == Hops:
		return fmt.Sprintf("at most %d redirects in a row", r.maxHops())
	case rule == Scope:
		return "--scope " + r.Scope.String()
	case rule == Domain:
		return fmt.Sprintf("at most %d hosts of one domain", r.MaxHosts)
	}
	return ""
}

// ask applies one rule to a link.
func (r *Rules) ask(ctx context.Context, rule Rule, link *Link, crawl Crawl) (Finding, error) {
	switch rule {
	case Depth:
		return atMost(Depth, frontier.ReasonDepth, link.Depth, r.maxDepth()), nil
	case Hops:
		return atMost(Hops, frontier.ReasonHops, link.Hops, r.maxHops()), nil
	case Scope:
		return r.scope(ctx, link, crawl)
	case Port:
		return port(link, crawl), nil
	case Trap:
		if reason, words := r.Trap.Judge(link.URL); reason != "" {
			return Finding{Rule: Trap, Answer: Refuses, Reason: reason, Detail: words}, nil
		}
		return Finding{Rule: Trap, Answer: Passes}, nil
	}
	return r.expressions(link.URL.String()), nil
}

// atMost applies a limit to how a link was found. If it has not been found yet, a
// limit of 0 refuses it, because the first link to it exceeds that.
func atMost(rule Rule, reason frontier.Reason, is, most int) Finding {
	f := Finding{Rule: rule, Answer: Passes, Most: uint64(most)}
	switch {
	case is > most, is == Unknown && most == 0:
		f.Answer, f.Reason = Refuses, reason
	case is == Unknown && most != NoLimit:
		f.Answer = Depends
	}
	return f
}

func (r *Rules) scope(ctx context.Context, link *Link, crawl Crawl) (Finding, error) {
	f := Finding{Rule: Scope, Answer: Passes}
	if r.Scope == canon.ScopeAny {
		return f, nil
	}
	var err error
	if f.By, err = crawl.Opened(ctx, link.URL.Host()); f.By == "" {
		f.Answer, f.Reason = Refuses, frontier.ReasonScope
	}
	return f, err
}

func port(link *Link, crawl Crawl) Finding {
	number := link.URL.Port()
	if number == "" {
		return Finding{Rule: Port}
	}
	if err := crawl.CheckPort(number); err != nil {
		return Finding{Rule: Port, Answer: Refuses, Reason: frontier.ReasonPort, Detail: err.Error()}
	}
	return Finding{Rule: Port, Answer: Passes}
}

func (r *Rules) expressions(url string) Finding {
	for _, re := range r.Exclude {
		if re.MatchString(url) {
			return Finding{Rule: Exclude, Answer: Refuses, Reason: frontier.ReasonExcluded, By: re.String()}
		}
	}
	for _, re := range r.Include {
		if re.MatchString(url) {
			return Finding{Rule: Include, Answer: Passes, By: re.String()}
		}
	}
	switch {
	case len(r.Include) > 0:
		return Finding{Rule: Include, Answer: Refuses, Reason: frontier.ReasonExcluded}
	case len(r.Exclude) > 0:
		return Finding{Rule: Exclude, Answer: Passes}
	}
	return Finding{Rule: Exclude}
}

// LimitHosts applies the limit of hosts to a host of domain, of which the crawl
// visits so many hosts. If member, this host is one of them.
func (r *Rules) LimitHosts(domain string, member bool, hosts uint64) Finding {
	f := Finding{Rule: Domain, Answer: Passes, By: domain, Most: r.MaxHosts, Hosts: hosts, Member: member}
	if !member && hosts >= r.MaxHosts {
		f.Answer, f.Reason = Refuses, frontier.ReasonDomain
	}
	return f
}
