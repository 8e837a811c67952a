package follow

import (
	"context"
	"fmt"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// Rule is the name of a rule.
type Rule uint8

// The rules. Exclude and Include are applied together.
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

// rulesOf has the rules for each Kind of link, in the order in which they are applied. In
// these lists, Exclude means both Exclude and Include.
var rulesOf = [...][]Rule{
	Page:    {Depth, Hops, Scope, Port, Trap, Exclude},
	Sitemap: {Hops, Scope, Port},
	Named:   {Hops, Port},
	Outside: {Port, Trap, Exclude},
}

// Answer is the answer of a rule.
type Answer string

const (
	Passes  Answer = "passes"
	Refuses Answer = "refuses"
	Depends Answer = "depends" // the answer depends on the page that has the link
)

// Finding is the answer of one rule about a link.
type Finding struct {
	Rule   Rule
	Answer Answer          // empty means that the rule does not apply
	Reason frontier.Reason // set only with Refuses
	// By is the scope key that Crawl.Opened returned, the regular expression that matched,
	// or the registrable domain of the link's host. It is empty if there is none of these.
	By     string
	Detail string // for Trap and Port: why the rule refuses the link
	Most   uint64 // for Depth, Hops and Domain: the limit
	Hosts  uint64 // for Domain: how many hosts of the domain the crawl visits
	Member bool   // for Domain: whether the link's host is one of these hosts
}

// Setting returns the setting of a rule, as it is shown to users, or "".
func (r *Rules) Setting(rule Rule) string {
	switch {
	case rule == Depth && r.MaxDepth < NoLimit:
		return fmt.Sprintf("--max-depth %d", r.MaxDepth)
	case rule == Hops:
		return fmt.Sprintf("at most %d redirects in a row", r.MaxHops)
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
		return atMost(Depth, frontier.ReasonDepth, link.Depth, r.MaxDepth), nil
	case Hops:
		return atMost(Hops, frontier.ReasonHops, link.Hops, r.MaxHops), nil
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
	if link.Kind == Outside { // Include says which pages are crawled
		return (&Rules{Exclude: r.Exclude}).expressions(link.URL.String()), nil
	}
	return r.expressions(link.URL.String()), nil
}

// atMost applies a limit to the depth or the hops of a link. A depth limit of 0 also refuses a
// URL that has not been found yet, because any link to the URL has a depth of at least 1.
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

// LimitHosts applies the limit of hosts to a host of a domain. The argument hosts is the number
// of hosts of the domain that the crawl visits, and member says whether this host is one of them.
func (r *Rules) LimitHosts(domain string, member bool, hosts uint64) Finding {
	f := Finding{Rule: Domain, Answer: Passes, By: domain, Most: r.MaxHosts, Hosts: hosts, Member: member}
	if !member && hosts >= r.MaxHosts {
		f.Answer, f.Reason = Refuses, frontier.ReasonDomain
	}
	return f
}
