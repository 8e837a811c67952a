package fetcher

import (
	"fmt"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// Refused is a link that was not queued because a rule forbids it.
type Refused struct {
	URL      string // canonical; as the page spells it when it has no such form
	Reason   frontier.Reason
	Rule     string // which rule, as far as the reason does not say: an expression, a limit
	Referrer string // the page
}

// detail notes a refused link for Config.OnRefused.
func (l *linkSet) detail(url string, reason frontier.Reason, rule string) {
	if l.cfg.OnRefused != nil {
		l.details = append(l.details, Refused{URL: url, Reason: reason, Rule: rule, Referrer: l.from.URL})
		l.bytes += len(url)
	}
}

// tellRefused hands the refused links of a page to Config.OnRefused once the
// page is completed: a page that is given back refuses nothing yet.
func (v *visited) tellRefused() {
	if v.cfg.OnRefused == nil {
		return
	}
	for _, r := range v.refused {
		v.cfg.OnRefused(r)
	}
}

// refusedByStore returns what notes the links that the store itself refuses.
func (v *visited) refusedByStore(links []frontier.Item) func(link int, reason frontier.Reason) {
	if v.cfg.OnRefused == nil || len(links) == 0 {
		return nil
	}
	return func(link int, reason frontier.Reason) {
		rule := ""
		if reason == frontier.ReasonHostLimit {
			rule = "--max-per-host"
		}
		v.refused = append(v.refused, Refused{URL: links[link].URL, Reason: reason, Rule: rule, Referrer: v.item.URL})
	}
}

// ruleOf says which rule refuses a canonical URL for a reason of judge.
func (r *Rules) ruleOf(reason frontier.Reason, url canon.URL) string {
	switch reason {
	case frontier.ReasonScope:
		return "--scope " + r.Scope.String()
	case frontier.ReasonDepth:
		return fmt.Sprintf("--max-depth %d", r.maxDepth())
	case frontier.ReasonHops:
		return fmt.Sprintf("at most %d redirects in a row", r.maxHops())
	case frontier.ReasonDomain:
		return fmt.Sprintf("at most %d hosts of one domain", r.MaxHosts)
	case frontier.ReasonExcluded:
		for _, re := range r.Exclude {
			if re.MatchString(url.String()) {
				return "--exclude " + re.String()
			}
		}
		return "no --include matches"
	}
	_, rule := r.Trap.Judge(url)
	return rule
}
