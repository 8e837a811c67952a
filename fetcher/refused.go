package fetcher

import (
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/follow"
)

// Refused is a link that was not queued because a rule forbids it.
type Refused struct {
	URL      string // canonical, or as the page spells it if it has no canonical form
	Reason   frontier.Reason
	Rule     string // the rule, such as an expression or a limit, if the reason does not identify it
	Referrer string // the URL of the page
}

// detail records a refused link for Config.OnRefused.
func (l *linkSet) detail(url string, reason frontier.Reason, rule string) {
	if l.cfg.OnRefused != nil {
		l.details = append(l.details, Refused{URL: url, Reason: reason, Rule: rule, Referrer: l.from.URL})
		l.bytes += len(url)
	}
}

// reportRefused passes the refused links of a page to Config.OnRefused. It is called after
// the page was completed. If the page was given back, its links are reported when it is
// fetched again. The links of a large sitemap are an exception: they are reported while the
// sitemap is read, and again if it is read again.
func (v *visited) reportRefused() {
	if v.cfg.OnRefused == nil {
		return
	}
	for _, r := range v.refused {
		v.cfg.OnRefused(r)
	}
}

// answeredByStore returns a function that counts and records the links that the store itself refuses, and notes
// those that it adds.
func (v *visited) answeredByStore(links []frontier.Offer) func(link int, verdict frontier.Verdict) {
	if len(links) == 0 {
		return nil
	}
	return func(link int, verdict frontier.Verdict) {
		if verdict.Answer == frontier.Added {
			if v.silent {
				v.added = append(v.added, links[link].URL)
			}
			return
		}
		rule, reason := "", verdict.Reason
		switch reason {
		case frontier.ReasonDuplicate:
			rule = "--skip-duplicates"
		case frontier.ReasonHostLimit:
			rule = "--max-per-host"
			v.tally.count(v.tally.hosts.Full, links[link].Host, 1)
		}
		if v.cfg.OnRefused == nil {
			return
		}
		v.refused = append(v.refused, Refused{URL: links[link].URL, Reason: reason, Rule: rule, Referrer: v.item.URL})
	}
}

// inWords returns the name of the rule that refused a link.
func inWords(rules *follow.Rules, f *follow.Finding) string {
	switch f.Rule {
	case follow.Trap, follow.Port:
		return f.Detail
	case follow.Exclude:
		return "--exclude " + f.By
	case follow.Include:
		return "no --include matches"
	}
	return rules.Setting(f.Rule)
}
